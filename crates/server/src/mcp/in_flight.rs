//! The requests of a client on stdio that were not answered yet. The SDK makes a task of each request as soon as it has it,
//! and of each answer until that is written, so without a limit here a client that sends and does not read decides how much
//! memory its requests take.

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, GetExtensions as _, JsonRpcMessage,
    JsonRpcRequest, RequestId, ServerJsonRpcMessage,
};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most requests that the SDK has at a time. Clients send a few for one turn of a model; 64 that each wait for a thread leave
/// most threads to others.
const MOST_OPEN: usize = 64;

/// Most requests that wait for their turn: with the open ones as many as commands may wait in a session. They are read, and
/// not left unread, so that a cancellation behind them arrives.
const MOST_HELD: usize = 192;

/// When those that wait have this many bytes, no more are taken. One more may be longer: its values count as its sender's
/// memory.
const HELD_BYTES: usize = 1 << 20;

/// The requests of a connection.
pub struct InFlight {
    turns: Arc<Semaphore>,
    open: HashMap<RequestId, Turn>,
    held: VecDeque<Held>,
    held_bytes: usize,
}

/// An open request's turn. Whoever works for the request has it: its handler, and the connection until the answer is
/// written. The SDK does not answer what was cancelled, and its handler may take a while to end.
#[derive(Clone)]
pub struct Turn {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// A request that waits.
struct Held {
    request: JsonRpcRequest<ClientRequest>,
    bytes: usize,
}

/// Why a request is refused, and its id.
pub type Refused = (ErrorData, RequestId);

impl Default for InFlight {
    fn default() -> Self {
        let turns = Arc::new(Semaphore::new(MOST_OPEN));
        Self { turns, open: HashMap::new(), held: VecDeque::new(), held_bytes: 0 }
    }
}

impl InFlight {
    /// The next message of the client, of so many bytes, if the SDK gets it now. Nothing if it is a request that waits, or the
    /// cancellation of one: to what was cancelled there is no answer.
    pub fn admit(
        &mut self,
        message: ClientJsonRpcMessage,
        bytes: usize,
    ) -> Result<Option<ClientJsonRpcMessage>, Refused> {
        match message {
            JsonRpcMessage::Request(request) => self.request(request, bytes),
            JsonRpcMessage::Notification(notification) => {
                let is_over = match &notification.notification {
                    ClientNotification::CancelledNotification(cancelled) => {
                        cancelled.params.request_id.as_ref().is_some_and(|id| self.cancel(id))
                    }
                    _ => false,
                };
                Ok((!is_over).then_some(JsonRpcMessage::Notification(notification)))
            }
            other => Ok(Some(other)),
        }
    }

    /// Where to wait for a turn for a request that waits, if one does. Borrows nothing, so that the next message is read
    /// meanwhile.
    pub fn turns(&self) -> Option<Arc<Semaphore>> {
        (!self.held.is_empty()).then(|| Arc::clone(&self.turns))
    }

    /// The request that waited longest, with its turn.
    pub fn next_held(&mut self, turn: OwnedSemaphorePermit) -> Option<ClientJsonRpcMessage> {
        let Held { request, bytes } = self.held.pop_front()?;
        self.held_bytes -= bytes;
        Some(self.begin(request, turn))
    }

    /// The turn that ends when this message is written, if it answers a request.
    pub fn answered(&mut self, message: &ServerJsonRpcMessage) -> Option<Turn> {
        let id = match message {
            JsonRpcMessage::Response(response) => &response.id,
            JsonRpcMessage::Error(error) => error.id.as_ref()?,
            _ => return None,
        };
        self.open.remove(id)
    }

    fn request(
        &mut self,
        request: JsonRpcRequest<ClientRequest>,
        bytes: usize,
    ) -> Result<Option<ClientJsonRpcMessage>, Refused> {
        let waits = self.held.iter().any(|held| held.request.id == request.id);
        if waits || self.open.contains_key(&request.id) {
            let detail = "a request with this id was not answered yet; give each request an id of its own";
            return Err((ErrorData::invalid_request(detail, None), request.id));
        }
        if self.held.is_empty()
            && let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned()
        {
            return Ok(Some(self.begin(request, turn)));
        }
        if self.held.len() >= MOST_HELD || self.held_bytes >= HELD_BYTES {
            let detail = format!(
                "{MOST_OPEN} requests of this connection were not answered yet, and {} more wait; this one was not done. \
                 Read some answers, or cancel some requests, and send it again",
                self.held.len()
            );
            return Err((ErrorData::invalid_request(detail, None), request.id));
        }
        self.held_bytes += bytes;
        self.held.push_back(Held { request, bytes });
        Ok(None)
    }

    fn begin(
        &mut self,
        mut request: JsonRpcRequest<ClientRequest>,
        turn: OwnedSemaphorePermit,
    ) -> ClientJsonRpcMessage {
        let turn = Turn { _permit: Arc::new(turn) };
        // The SDK drops these with the request's handler.
        request.request.extensions_mut().insert(turn.clone());
        self.open.insert(request.id.clone(), turn);
        JsonRpcMessage::Request(request)
    }

    /// Forgets a request that is cancelled. True if it waited, so that the SDK does not know it.
    fn cancel(&mut self, id: &RequestId) -> bool {
        if let Some(at) = self.held.iter().position(|held| held.request.id == *id) {
            let bytes = self.held.remove(at).map_or(0, |held| held.bytes);
            self.held_bytes -= bytes;
            return true;
        }
        // The SDK drops its answer.
        self.open.remove(id);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    type Admitted = Result<Option<ClientJsonRpcMessage>, Refused>;

    fn message(value: &Value) -> ClientJsonRpcMessage {
        serde_json::from_str(&value.to_string()).unwrap()
    }

    fn number(id: usize) -> RequestId {
        RequestId::Number(i64::try_from(id).unwrap())
    }

    fn ping(in_flight: &mut InFlight, id: usize) -> Admitted {
        in_flight.admit(message(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"})), 10)
    }

    fn cancel(in_flight: &mut InFlight, id: usize) -> Admitted {
        let params = json!({"requestId": id});
        in_flight.admit(message(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})), 10)
    }

    fn answer(in_flight: &mut InFlight, id: usize) -> Option<Turn> {
        in_flight.answered(&JsonRpcMessage::error(ErrorData::internal_error("x", None), Some(number(id))))
    }

    fn waits(admitted: &Admitted) -> bool {
        matches!(admitted, Ok(None))
    }

    /// All turns are taken by requests whose handlers have ended and whose answers are not written.
    fn full() -> InFlight {
        let mut in_flight = InFlight::default();
        for id in 0..MOST_OPEN {
            assert!(matches!(ping(&mut in_flight, id), Ok(Some(_))), "{id}");
        }
        in_flight
    }

    #[test]
    fn a_request_is_open_until_its_answer_is_written() {
        let mut in_flight = full();
        assert!(in_flight.turns().is_none());
        assert!(waits(&ping(&mut in_flight, 1000)));
        let turns = in_flight.turns().unwrap();
        let writing = answer(&mut in_flight, 7).unwrap();
        assert_eq!(turns.available_permits(), 0, "it is not written yet");
        drop(writing);
        let turn = turns.try_acquire_owned().unwrap();
        let Some(JsonRpcMessage::Request(request)) = in_flight.next_held(turn) else { panic!("one waits") };
        assert_eq!(request.id, number(1000));
        assert!(in_flight.turns().is_none());
        assert!(answer(&mut in_flight, 7).is_none(), "it was answered");
    }

    #[test]
    fn what_is_cancelled_is_open_until_its_handler_ends() {
        let mut in_flight = InFlight::default();
        let handled = ping(&mut in_flight, 1).unwrap();
        assert!(matches!(cancel(&mut in_flight, 1), Ok(Some(_))));
        assert_eq!(in_flight.turns.available_permits(), MOST_OPEN - 1);
        drop(handled);
        assert_eq!(in_flight.turns.available_permits(), MOST_OPEN);
    }

    #[test]
    fn what_waits_can_be_cancelled_and_too_many_are_refused() {
        let mut in_flight = full();
        for id in 0..MOST_HELD {
            assert!(waits(&ping(&mut in_flight, 1000 + id)), "{id}");
        }
        let (error, id) = ping(&mut in_flight, 5000).unwrap_err();
        assert!(id == number(5000) && error.message.contains("cancel some"), "{error:?}");
        assert!(matches!(cancel(&mut in_flight, 1000), Ok(None)));
        assert_eq!(in_flight.held.len(), MOST_HELD - 1);
        assert!(waits(&ping(&mut in_flight, 5000)));
        assert_eq!(in_flight.held_bytes, MOST_HELD * 10);
    }

    #[test]
    fn an_id_is_used_once() {
        let mut in_flight = full();
        assert!(waits(&ping(&mut in_flight, 1000)));
        for id in [3, 1000] {
            assert_eq!(ping(&mut in_flight, id).unwrap_err().1, number(id));
        }
        drop(answer(&mut in_flight, 3));
        assert!(waits(&ping(&mut in_flight, 3)), "1000 waits longer");
    }

    #[test]
    fn what_waits_is_limited_in_bytes() {
        let mut in_flight = full();
        let ping = |id: usize| message(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
        assert!(waits(&in_flight.admit(ping(1000), HELD_BYTES)));
        assert!(in_flight.admit(ping(1001), 1).is_err());
    }
}
