//! MCP on a byte stream: one JSON message per line. Ours instead of the SDK's, which silently drops what it cannot
//! parse; here the client gets an error.

use super::in_flight::InFlight;
use super::order::Order;
use super::seat::Pipe;
use crate::body::RUN_LIMIT;
use crate::parsed_size;
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::json;
use shellkeep_runtime::{Lent, OpError, Share, UNCOUNTED_BODY};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

/// Longest message. The same as for HTTP, so that both doors accept the same messages.
const MAX_MESSAGE: usize = RUN_LIMIT;
/// Bytes kept of the beginning of a message that is too long, to find its id.
const HEAD: usize = 256;
/// Capacity of the buffer that stays between messages; a long message does not keep its memory forever.
const KEPT_BUFFER: usize = 64 << 10;

/// Up to this length the buffer of a message grows as a `Vec` does.
const GROWN: usize = 1 << 20;

/// How often a message is in memory while it is parsed: the SDK reads it into a form that it then tries each kind of message
/// with, and makes its arguments of that. What is no message, is read once more to say so.
pub const COPIES: u64 = 3;

/// How long a large message may pause before its sender is disconnected.
const STALL: Duration = Duration::from_secs(30);

/// The daemon's end of a client on stdio.
pub struct Lines<S> {
    read: BufReader<ReadHalf<S>>,
    write: Arc<Mutex<WriteHalf<S>>>,
    line: Vec<u8>,
    /// Bytes read so far of a message that is too long. Stored here, because `receive` may be dropped at any time.
    excess: usize,
    /// The share of its sender's memory that a large message uses while it arrives.
    share: Option<Share>,
    pipe: Arc<Pipe>,
    order: Order,
    in_flight: InFlight,
    /// The answer to a line that is no message, while it is written. In a task of its own, because `receive` may be
    /// dropped at any time; the next line waits for it.
    answering: Option<JoinHandle<io::Result<()>>>,
}

/// What a line turned out to be.
enum Line {
    Whole,
    TooLong { bytes: usize },
    End,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Lines<S> {
    /// Uses `stream` for the client `pipe`.
    pub fn new(stream: S, pipe: Arc<Pipe>) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self {
            read: BufReader::new(read),
            write: Arc::new(Mutex::new(write)),
            line: Vec::new(),
            excess: 0,
            share: None,
            pipe,
            order: Order::default(),
            in_flight: InFlight::default(),
            answering: None,
        }
    }

    /// Reads a line into `self.line`, never more than the limit. Cancel-safe.
    async fn next_line(&mut self) -> io::Result<Line> {
        loop {
            let filling = self.read.fill_buf();
            let available = match &self.share {
                None => filling.await?,
                Some(_) => tokio::time::timeout(STALL, filling).await??,
            };
            if available.is_empty() {
                return Ok(Line::End);
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(available.len(), |at| at + 1);
            let has_room = self.excess == 0 && self.line.len() + length <= MAX_MESSAGE;
            if !has_room || count(&mut self.share, &self.pipe, self.line.len(), length).is_err() {
                if self.excess == 0 {
                    self.excess = self.line.len();
                    // Shortened first: to add a byte to a full buffer would copy all of it into one twice as large.
                    self.line.truncate(HEAD);
                    self.line.shrink_to(HEAD);
                    let missing = HEAD - self.line.len();
                    self.line.extend_from_slice(&available[..length.min(missing)]);
                }
                self.excess += length;
            } else {
                reserve(&mut self.line, length);
                self.line.extend_from_slice(&available[..length]);
            }
            self.read.consume(length);
            if end.is_some() {
                self.share = None;
                let bytes = std::mem::take(&mut self.excess);
                return Ok(if bytes > 0 { Line::TooLong { bytes } } else { Line::Whole });
            }
        }
    }

    fn answer(&mut self, refusal: ErrorData, id: Option<RequestId>) {
        let stream = Arc::clone(&self.write);
        self.answering = Some(tokio::spawn(async move { write(&stream, &JsonRpcMessage::error(refusal, id)).await }));
    }

    /// Waits until the answer to the line before is written. Cancel-safe.
    async fn answered(&mut self) -> io::Result<()> {
        let Some(answering) = &mut self.answering else { return Ok(()) };
        let written = answering.await.map_err(io::Error::other);
        self.answering = None;
        written?
    }

    /// The message in a line, or what is wrong with it.
    fn parse(&mut self, text: &[u8]) -> Result<ClientJsonRpcMessage, (ErrorData, Option<RequestId>)> {
        let share = count_values(&self.pipe, text).map_err(|TooMany| {
            let detail = format!(
                "a message of {} bytes was rejected: its values would take too much memory, alone or with those of other \
                 messages of yours. Send fewer, or put the data into a file",
                text.len()
            );
            (ErrorData::invalid_request(detail, None), id_near_the_beginning(&text[..text.len().min(HEAD)]))
        })?;
        let mut message = serde_json::from_slice(text).map_err(|error| explain(text, &error))?;
        self.order.mark(&mut message);
        hold(share, &mut message);
        Ok(message)
    }

    /// The message in a line, if the SDK gets it now. Otherwise it waits, or its answer is being written.
    fn admit(&mut self, text: &[u8]) -> Option<ClientJsonRpcMessage> {
        let admitted = self
            .parse(text)
            .and_then(|message| self.in_flight.admit(message, text.len()).map_err(|(refusal, id)| (refusal, Some(id))));
        admitted.unwrap_or_else(|(refusal, id)| {
            self.answer(refusal, id);
            None
        })
    }

    /// The next message for the SDK. While a request waits for its turn, what comes behind it is read. Cancel-safe.
    async fn next(&mut self) -> io::Result<Option<ClientJsonRpcMessage>> {
        loop {
            self.answered().await?;
            let turns = self.in_flight.turns();
            let turn = async {
                match turns {
                    Some(turns) => turns.acquire_owned().await.ok(),
                    None => std::future::pending().await,
                }
            };
            let line = tokio::select! {
                biased;
                Some(turn) = turn => match self.in_flight.next_held(turn) {
                    Some(message) => return Ok(Some(message)),
                    None => continue,
                },
                line = self.next_line() => line?,
            };
            let text = std::mem::take(&mut self.line);
            let message = match line {
                Line::End => return Ok(None),
                Line::TooLong { bytes } => {
                    let detail = format!(
                        "a message of {bytes} bytes was rejected; the limit is {MAX_MESSAGE}, and lower while other \
                            large messages of yours are in flight. Put large data into a file"
                    );
                    let refusal = ErrorData::invalid_request(detail, None);
                    self.answer(refusal, id_near_the_beginning(&text));
                    None
                }
                Line::Whole if text.trim_ascii().is_empty() => None,
                Line::Whole => self.admit(&text),
            };
            if text.capacity() <= KEPT_BUFFER {
                self.line = text;
                self.line.clear();
            }
            if message.is_some() {
                return Ok(message);
            }
            // Answers that are ready go first: they make room for what waits.
            tokio::task::yield_now().await;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Transport<RoleServer> for Lines<S> {
    type Error = io::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let stream = Arc::clone(&self.write);
        let turn = self.in_flight.answered(&item);
        async move {
            let written = write(&stream, &item).await;
            drop(turn);
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.next().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "an MCP client disconnected");
            None
        });
        if message.is_none() {
            self.pipe.release();
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.pipe.release();
        self.write.lock().await.shutdown().await
    }
}

/// Makes room for `more` bytes. A long line gets all that it may need at once. The system backs with memory only what is
/// written, while a buffer that doubles leaves copies of half its size behind, which the allocator keeps for a while.
fn reserve(line: &mut Vec<u8>, more: usize) {
    let needed = line.len() + more;
    if needed > line.capacity() && needed > GROWN {
        // Where the system does not promise more memory than it has, this may fail; then the line grows as usual.
        let _ = line.try_reserve_exact(MAX_MESSAGE - line.len());
    }
}

/// Counts a large message as its sender's memory.
fn count(share: &mut Option<Share>, pipe: &Pipe, before: usize, more: usize) -> Result<(), OpError> {
    if before + more <= UNCOUNTED_BODY {
        return Ok(());
    }
    match share {
        Some(share) => Ok(share.grow(more as u64)?),
        None => {
            *share = Some(pipe.engine().lend(Lent::BodyBytes, (before + more) as u64)?);
            Ok(())
        }
    }
}

/// A message has more values than its sender may have in memory.
struct TooMany;

/// Counts the values of a large message as its sender's memory.
fn count_values(pipe: &Pipe, text: &[u8]) -> Result<Option<Share>, TooMany> {
    if text.len() <= UNCOUNTED_BODY {
        return Ok(None);
    }
    let values = parsed_size::of(text, COPIES).map_err(|_| TooMany)?;
    pipe.engine().lend(Lent::BodyBytes, values).map(Some).map_err(|_| TooMany)
}

/// A call's arguments count as its sender's memory until it has ended.
fn hold(share: Option<Share>, message: &mut ClientJsonRpcMessage) {
    let (Some(share), JsonRpcMessage::Request(message)) = (share, message) else { return };
    if let ClientRequest::CallToolRequest(call) = &mut message.request {
        call.extensions.insert(Arc::new(share));
    }
}

async fn write<S: AsyncWrite>(stream: &Mutex<WriteHalf<S>>, message: &ServerJsonRpcMessage) -> io::Result<()> {
    // Serialised only in its turn: responses that wait for a client that does not read cost neither time nor memory.
    let mut stream = stream.lock().await;
    let mut line = match message {
        // The SDK leaves the id out; JSON-RPC has it as null.
        JsonRpcMessage::Error(error) if error.id.is_none() => {
            serde_json::to_vec(&json!({"jsonrpc": "2.0", "id": null, "error": error.error}))?
        }
        message => serde_json::to_vec(message)?,
    };
    line.push(b'\n');
    stream.write_all(&line).await?;
    stream.flush().await
}

/// What is wrong with a line, and the id of its request, if it has one.
fn explain(text: &[u8], error: &serde_json::Error) -> (ErrorData, Option<RequestId>) {
    match serde_json::from_slice::<serde_json::Value>(text) {
        Err(_) => {
            let head = &text[..text.len().min(HEAD)];
            (ErrorData::parse_error(format!("this line is not JSON: {error}"), None), id_near_the_beginning(head))
        }
        Ok(value) => {
            let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
            let detail = "this is JSON, but not a JSON-RPC 2.0 request, notification or response of MCP";
            (ErrorData::invalid_request(detail, None), id)
        }
    }
}

/// The id of a message of which only the beginning is known. Most clients write it first; otherwise the error has no
/// id.
fn id_near_the_beginning(head: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\":";
    let at = head.windows(KEY.len()).position(|window| window == KEY)?;
    // Inside an argument the quotes of a key are escaped, so this is a key; before "params" it belongs to the message.
    let nested = head.windows(b"\"params\"".len()).position(|window| window == b"\"params\"");
    if nested.is_some_and(|params| params < at) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_slice(&head[at + KEY.len()..]).into_iter();
    values.next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_cut_message_is_found_where_it_is_certain() {
        let id = |text: &str| id_near_the_beginning(text.as_bytes());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"#), Some(RequestId::Number(7)));
        assert_eq!(id(r#"{"id": "a-1", "method":"#), Some(RequestId::String("a-1".into())));
        assert_eq!(id(r#"{"method":"tools/call","params":{"id":7,"#), None);
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":"#), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text: &str| {
            let error = serde_json::from_str::<ClientJsonRpcMessage>(text).unwrap_err();
            let (refusal, id) = explain(text.as_bytes(), &error);
            (refusal.code.0, id)
        };
        assert_eq!(said("{nonsense"), (-32700, None));
        assert_eq!(said(r#"{"jsonrpc":"2.0","id":3,"method":"tools/list""#), (-32700, Some(RequestId::Number(3))));
        assert_eq!(said(r#"{"id": 4, "method": 5}"#), (-32600, Some(RequestId::Number(4))));
        assert_eq!(said("[1, 2]"), (-32600, None));
    }
}
