//! Talking to a daemon: finding it, starting it when none runs, and one HTTP connection to it.

pub mod ending;
mod endpoint;
mod error;
pub mod events;
mod hints;
pub mod paths;
pub mod pipe;
pub mod session;
mod start;

pub use endpoint::{Endpoint, agent_token};
pub use error::ClientError;

use crate::cli::{DaemonArgs, socket_in_url};
use crate::config::{DaemonPaths, Layer, Settings, environment};
use crate::failure::Failure;
use crate::noted;
use crate::terminal;
use crate::token;
use endpoint::{Connection, unreachable};
use error::{broken, unreadable};
use events::EventReader;
use hints::Asked;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request, Response, Uri};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shellkeep_protocol::Problem;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;

/// The header of an answer that was read from history.
const SOURCE: &str = "shellkeep-source";

/// Runs a command's future. Boxed, so that tokio's part of it is compiled once and not for every command.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::client)?;
    let work: Pin<Box<dyn Future<Output = Result<T, Failure>> + '_>> = Box::pin(work);
    let done = runtime.block_on(work);
    // A thread may still wait for a signal or for input; it need not end.
    runtime.shutdown_background();
    done
}

/// Says once that what is shown comes from history.
#[derive(Debug, Default)]
struct SourceNotice {
    is_told: bool,
}

impl SourceNotice {
    fn look_at(&mut self, response: &Response<Incoming>) {
        if response.headers().get(SOURCE).is_some() && !std::mem::replace(&mut self.is_told, true) {
            terminal::notice("the daemon does not have this session; it was read from history");
        }
    }
}

/// One connection to a daemon.
pub struct Client {
    endpoint: Endpoint,
    /// The flags that led to the daemon, to repeat them in a hint.
    flags: String,
    sender: Connection,
    source: SourceNotice,
}

/// All settings as a client reads them, for commands that work on the data directory itself.
pub fn settings(args: &DaemonArgs) -> Result<Settings, Failure> {
    Settings::load(flags(args), None, &environment)
}

fn flags(args: &DaemonArgs) -> Layer {
    Layer { socket: args.socket.clone(), data: args.data.clone(), ..Layer::default() }.absolute(None)
}

/// The daemon's paths, and where it listens.
pub fn find(args: &DaemonArgs) -> Result<(DaemonPaths, Endpoint), Failure> {
    let mut paths = DaemonPaths::find(&flags(args), &environment)?;
    if paths.socket == noted::usual(&paths.data) {
        paths.socket = noted::read(&paths.data).unwrap_or(paths.socket);
    }
    // A socket on the command line wins over a URL in the environment.
    let url = args.url.clone().or_else(|| environment("SHELLKEEP_URL").filter(|_| args.socket.is_none()));
    if let Some(path) = url.as_deref().and_then(socket_in_url) {
        paths.socket = path.into();
    }
    let endpoint = match url.filter(|url| socket_in_url(url).is_none()) {
        Some(url) => tcp(&url, &paths.data)?,
        None => Endpoint::Unix { path: paths.socket.clone(), token: agent_token() },
    };
    Ok((paths, endpoint))
}

/// The data directory of the daemon that is used here.
pub fn data_directory(args: &DaemonArgs) -> Result<std::path::PathBuf, Failure> {
    Ok(find(args)?.0.data)
}

fn tcp(url: &str, data: &Path) -> Result<Endpoint, Failure> {
    let wrong = || {
        let forms = "write http://HOST:PORT, or unix:/PATH for a socket";
        Failure::start(format!("'{url}' is not the address of a daemon; {forms}"))
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    if uri.scheme_str() != Some("http") {
        return Err(wrong());
    }
    let authority = uri.authority().ok_or_else(wrong)?;
    let port = authority.port_u16().unwrap_or(80);
    let kept = || token::load(data).ok().flatten();
    Ok(Endpoint::Tcp {
        authority: format!("{}:{port}", authority.host()),
        token: environment("SHELLKEEP_TOKEN").or_else(kept),
    })
}

impl Client {
    /// Connects to the daemon, and starts one on the socket if none runs.
    pub async fn open(args: &DaemonArgs) -> Result<Self, Failure> {
        let (paths, endpoint) = find(args)?;
        let client = match Self::connect(&endpoint).await {
            Ok(client) => client,
            Err(error) => match &endpoint {
                Endpoint::Unix { .. } if !args.no_start && nobody_listens(&error) => {
                    let sender = start::daemon(&paths, &endpoint).await?;
                    Self { endpoint, flags: String::new(), sender, source: SourceNotice::default() }
                }
                _ => return Err(unreachable(&endpoint, &args.as_flags(), &error)),
            },
        };
        Ok(Self { flags: args.as_flags(), ..client })
    }

    /// Connects to the daemon if one runs; `None` if none does.
    pub async fn running(args: &DaemonArgs) -> Result<Option<Self>, Failure> {
        let (_, endpoint) = find(args)?;
        match Self::connect(&endpoint).await {
            Ok(client) => Ok(Some(Self { flags: args.as_flags(), ..client })),
            Err(error) if nobody_listens(&error) => Ok(None),
            Err(error) => Err(unreachable(&endpoint, &args.as_flags(), &error)),
        }
    }

    /// Connects to a daemon that runs.
    pub async fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        let sender = endpoint.connect().await?;
        Ok(Self { endpoint: endpoint.clone(), flags: String::new(), sender, source: SourceNotice::default() })
    }

    /// Where the daemon listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// A second connection to the same daemon.
    pub async fn another(&self) -> io::Result<Self> {
        Ok(Self { flags: self.flags.clone(), ..Self::connect(&self.endpoint).await? })
    }

    /// The flags that led to the daemon, to repeat them in a command; empty, or with a space in front.
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// Reads something.
    pub async fn get<R: DeserializeOwned>(&mut self, path: &str) -> Result<R, ClientError> {
        let response = self.send(Method::GET, path, "application/json", Bytes::new()).await?;
        parsed(&whole(response).await?)
    }

    /// Sends something and reads the answer.
    pub async fn post<B: Serialize, R: DeserializeOwned>(&mut self, path: &str, body: &B) -> Result<R, ClientError> {
        let response = self.send(Method::POST, path, "application/json", written(body)?).await?;
        parsed(&whole(response).await?)
    }

    /// Changes something and reads the answer.
    pub async fn put<B: Serialize, R: DeserializeOwned>(&mut self, path: &str, body: &B) -> Result<R, ClientError> {
        let response = self.send(Method::PUT, path, "application/json", written(body)?).await?;
        parsed(&whole(response).await?)
    }

    /// Sends raw bytes and reads the answer.
    pub async fn put_bytes<R: DeserializeOwned>(&mut self, path: &str, bytes: Vec<u8>) -> Result<R, ClientError> {
        let response = self.send(Method::PUT, path, "application/json", bytes.into()).await?;
        parsed(&whole(response).await?)
    }

    /// Removes something and reads the answer.
    pub async fn delete<R: DeserializeOwned>(&mut self, path: &str) -> Result<R, ClientError> {
        let response = self.send(Method::DELETE, path, "application/json", Bytes::new()).await?;
        parsed(&whole(response).await?)
    }

    /// Sends something and reads the answer as events.
    pub async fn post_events<B: Serialize>(&mut self, path: &str, body: &B) -> Result<EventReader, ClientError> {
        let response = self.send(Method::POST, path, "text/event-stream", written(body)?).await?;
        Ok(EventReader::new(response.into_body(), Asked::new(&self.flags, path)))
    }

    /// Reads something as events.
    pub async fn get_events(&mut self, path: &str) -> Result<EventReader, ClientError> {
        let response = self.send(Method::GET, path, "text/event-stream", Bytes::new()).await?;
        Ok(EventReader::new(response.into_body(), Asked::new(&self.flags, path)))
    }

    /// Reads a response as it arrives, however large it is.
    pub async fn get_body(&mut self, path: &str) -> Result<Incoming, ClientError> {
        Ok(self.send(Method::GET, path, "*/*", Bytes::new()).await?.into_body())
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let problem = match self.exchange(method, path, accept, body).await? {
            Ok(response) => return Ok(response),
            Err(problem) => problem,
        };
        let asked = Asked::new(&self.flags, path);
        let meant = match asked.missing_session(&problem) {
            Some(missing) => self.closest_session(&missing).await,
            None => None,
        };
        Err(ClientError::Refused(Box::new(asked.refused(problem, meant))))
    }

    /// Sends a request. The inner error is the daemon's refusal.
    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        accept: &str,
        body: Bytes,
    ) -> Result<Result<Response<Incoming>, Problem>, ClientError> {
        let mut request = Request::builder().method(method).uri(path).header(ACCEPT, accept);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let (host, token) = match &self.endpoint {
            Endpoint::Unix { token, .. } => ("localhost", token),
            Endpoint::Tcp { authority, token } => (authority.as_str(), token),
        };
        request = request.header(HOST, host);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body)).map_err(broken)?;
        self.sender.ready().await.map_err(broken)?;
        let response = self.sender.send_request(request).await.map_err(broken)?;
        if response.status().is_success() {
            self.source.look_at(&response);
            return Ok(Ok(response));
        }
        let status = response.status();
        let body = whole(response).await?;
        let problem = serde_json::from_slice(&body);
        problem.map(Err).map_err(|_| ClientError::Broken(format!("the daemon answered {status} without saying why")))
    }
}

/// A text as the value of a parameter in a query.
pub fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// The query of a page of an output or a log: at most `limit` bytes from `offset`, or else from the last `lines` lines, and
/// of these the lines that match `grep`.
pub fn page_query(limit: u64, offset: Option<u64>, lines: Option<u64>, grep: Option<&str>) -> String {
    let mut query = format!("limit={limit}");
    match (offset, lines) {
        (Some(offset), _) => query += &format!("&offset={offset}"),
        (None, Some(lines)) => query += &format!("&tail_lines={lines}"),
        (None, None) => {}
    }
    if let Some(pattern) = grep {
        query += &format!("&grep={}", escaped(pattern));
    }
    query
}

/// Whether an error means that no daemon is running, as opposed to one that we may not talk to.
fn nobody_listens(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// All of a body.
pub async fn gathered(body: Incoming) -> Result<Bytes, ClientError> {
    body.collect().await.map(|body| body.to_bytes()).map_err(broken)
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, ClientError> {
    gathered(response.into_body()).await
}

fn written<B: Serialize>(body: &B) -> Result<Bytes, ClientError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(broken)
}

/// Reads an answer. An empty one, as of 204, is a `()` or a `None`.
fn parsed<R: DeserializeOwned>(body: &[u8]) -> Result<R, ClientError> {
    serde_json::from_slice(if body.is_empty() { b"null" } else { body }).map_err(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_travels_in_a_query() {
        assert_eq!(escaped("a-b_c.d~9"), "a-b_c.d~9");
        assert_eq!(escaped("^é &=+%$"), "%5E%C3%A9%20%26%3D%2B%25%24");
        assert_eq!(page_query(10, None, Some(3), Some("a|b")), "limit=10&tail_lines=3&grep=a%7Cb");
        assert_eq!(page_query(10, Some(7), Some(3), None), "limit=10&offset=7", "later pages continue by offset");
    }
}
