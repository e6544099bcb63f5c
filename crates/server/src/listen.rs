//! Sockets and connections: binding, accepting, and closing without cutting off a response.

use crate::connections::{Connection, Connections, Entered, Patience, SOCKET_PART, TCP_PART, Way, checks};
use crate::frames::Polled;
use crate::guarded::{Guarded, Stream};
use crate::repoll::Repoll;
use crate::unread::RequestBody;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use hyper::body::{Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use shellkeep_runtime::{Engine, Visitor, tasks};
use std::fs;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Most connections of one door at a time; further ones wait in the kernel. Larger than the sum of the limits for
/// unauthenticated callers, agents and the host, so that none of them reaches it.
const MAX_CONNECTIONS: u32 = 16_384;
/// Maximum size of a request's head, and of the part of a response that is buffered before the peer has read it.
const BUFFER: usize = 64 << 10;
/// How long a stopping door waits for pending responses. The runs themselves have ended by then.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// Pause after a failed accept (usually no descriptor left), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How often identifying the caller is retried while no descriptor is left: for five seconds.
const SHORTAGE_TRIES: u32 = 100;
/// Meanwhile an idle session drops its shell for the caller: at the first try, and then after as many, every second.
const SHELL_DROPPED_EVERY: u32 = 20;
/// How often it is retried for any other reason: for a second.
const SURE_TRIES: u32 = 20;
/// At most one log line about connections that could not be accepted in this time.
const ACCEPT_LOG_EVERY: Duration = Duration::from_secs(30);
/// Longest path of a Unix socket: the size of `sockaddr_un`, without its final NUL.
const MAX_SOCKET_PATH: usize = 107;

/// Why a door could not be opened. Each says what to do.
#[derive(Debug)]
pub enum BindError {
    /// A live daemon has that socket.
    SocketInUse { path: PathBuf },
    /// The path is longer than the system allows.
    SocketPathTooLong { path: PathBuf },
    /// The path exists and is not a socket.
    NotASocket { path: PathBuf },
    /// The port is taken.
    PortInUse { address: String },
    /// The system refused.
    System {
        /// What was to be opened.
        what: String,
        error: io::Error,
    },
}

impl std::fmt::Display for BindError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SocketInUse { path } => {
                write!(f, "a daemon already listens on {}; use it, stop it, or choose another --socket", path.display())
            }
            Self::SocketPathTooLong { path } => write!(
                f,
                "the socket path {} is too long for the system; choose a --socket of at most {} characters",
                path.display(),
                MAX_SOCKET_PATH - suffix_length()
            ),
            Self::NotASocket { path } => {
                write!(f, "{} exists and is not a socket; remove it or choose another --socket", path.display())
            }
            Self::PortInUse { address } => write!(
                f,
                "{address} is in use; stop what listens there, choose another --listen HOST:PORT, or use --no-listen"
            ),
            Self::System { what, error } => write!(f, "cannot listen on {what}: {error}"),
        }
    }
}

impl std::error::Error for BindError {}

/// Opens a Unix socket that only its owner can use. The socket of a dead daemon is replaced, that of a live one is not.
pub fn bind_unix(path: &Path) -> Result<UnixListener, BindError> {
    refuse_if_taken(path)?;
    let system = |error| BindError::System { what: path.display().to_string(), error };
    // Bound inside a private directory and moved out with its mode set, so that no other user can ever connect,
    // whatever the umask is.
    let room = private_room(path);
    if room.as_os_str().len() + "/s".len() > MAX_SOCKET_PATH {
        return Err(BindError::SocketPathTooLong { path: path.to_owned() });
    }
    fs::DirBuilder::new().mode(0o700).create(&room).map_err(system)?;
    let inside = room.join("s");
    let bound = UnixListener::bind(&inside).and_then(|listener| {
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&inside, path)?;
        Ok(listener)
    });
    // The leftover directory is useless; a failure to remove it must not hide the real result.
    let _ = fs::remove_file(&inside);
    let _ = fs::remove_dir(&room);
    bound.map_err(system)
}

/// Opens a TCP port.
pub async fn bind_tcp(address: &str) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => BindError::PortInUse { address: address.to_owned() },
        _ => BindError::System { what: address.to_owned(), error },
    })
}

/// Serves a Unix socket until `stop` turns true, then waits briefly for pending responses. `engine` identifies callers.
pub async fn serve_unix(listener: UnixListener, router: Router, engine: Engine, stop: watch::Receiver<bool>) {
    let callers = Callers { engine, identifies: true };
    serve(&Listener::Socket(listener), router, callers, stop).await;
}

/// Serves a TCP port until `stop` turns true, then waits briefly for pending responses.
pub async fn serve_tcp(listener: TcpListener, router: Router, engine: Engine, stop: watch::Receiver<bool>) {
    serve(&Listener::Port(listener), router, Callers { engine, identifies: false }, stop).await;
}

/// How the callers of a door are known.
#[derive(Clone)]
struct Callers {
    engine: Engine,
    /// Whether callers are identified by their process.
    identifies: bool,
}

/// What connections come from.
enum Listener {
    Socket(UnixListener),
    Port(TcpListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Self::Socket(listener) => Ok(Box::new(listener.accept().await?.0)),
            Self::Port(listener) => {
                let (stream, _) = listener.accept().await?;
                // A response is one small write; Nagle's algorithm would only delay it.
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

async fn serve(listener: &Listener, router: Router, callers: Callers, mut stop: watch::Receiver<bool>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    let mut logged: Option<Instant> = None;
    let part = if callers.identifies { SOCKET_PART } else { TCP_PART };
    let connections = Connections::new(Patience::default(), part);
    let mut look = checks(tokio::time::Instant::now());
    loop {
        let accepted = tokio::select! {
            () = stopped(&mut stop) => break,
            _ = look.tick() => {
                connections.look();
                continue;
            }
            accepted = admit(&room, listener) => accepted,
        };
        match accepted {
            Ok((stream, place)) => {
                let connection = connection(stream, connections.enter(), router.clone(), callers.clone(), stop.clone());
                tasks::spawn(Repoll::new(async move {
                    connection.await;
                    drop(place);
                }));
            }
            Err(error) => {
                if logged.is_none_or(|at| at.elapsed() >= ACCEPT_LOG_EVERY) {
                    tracing::warn!(%error, "a connection could not be accepted");
                    logged = Some(Instant::now());
                }
                // Callers on the socket are identified soon, or time out.
                if !callers.identifies {
                    connections.make_room();
                }
                make_room(&callers.engine).await;
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    // All permits free means all connections closed.
    if tokio::time::timeout(STOP_GRACE, room.acquire_many(MAX_CONNECTIONS)).await.is_err() {
        tracing::warn!("some connections were closed at the end of the grace period");
    }
}

async fn admit(room: &Arc<Semaphore>, listener: &Listener) -> io::Result<(Box<dyn Stream>, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    Ok((listener.accept().await?, place))
}

/// Frees descriptors of idle sessions, if none is left. A session that is not idle any more may take its time to say so.
async fn make_room(engine: &Engine) {
    let _ = tokio::time::timeout(ACCEPT_PAUSE, engine.identities().make_room()).await;
}

/// Identifies the caller. The host needs no token. This takes descriptors: if none is left, it waits for some instead
/// of rejecting a caller that it could not identify.
async fn greet(engine: &Engine, socket: BorrowedFd<'_>, way: &Way) -> Visitor {
    let mut visitor = engine.identities().visitor(socket).await;
    let mut was_short = false;
    for tried in 0..SHORTAGE_TRIES {
        match visitor {
            Visitor::Unasked => {
                was_short = true;
                if tried % SHELL_DROPPED_EVERY == 0 {
                    make_room(engine).await;
                }
            }
            // A descriptor may have been freed in between, so it is retried for a second in any case.
            Visitor::Unclear(_) if tried < SURE_TRIES => {}
            _ => break,
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
        visitor = engine.identities().visitor(socket).await;
    }
    if was_short && matches!(visitor, Visitor::Unclear(_)) {
        return Visitor::Unasked;
    }
    if visitor == Visitor::Host {
        // If the limit is reached, its first request gets the error.
        let _ = way.prove(engine);
    }
    visitor
}

async fn connection(
    stream: Box<dyn Stream>,
    entered: Entered,
    router: Router,
    callers: Callers,
    mut stop: watch::Receiver<bool>,
) {
    // Once per connection, before anything is read from it.
    let way = entered.way();
    let visitor = match callers.identifies {
        true => Some(greet(&callers.engine, stream.as_fd(), &way).await),
        false => None,
    };
    let connection = Arc::clone(&entered.connection);
    let stream = Guarded::new(stream, Arc::clone(&connection), entered.patience());
    let router = TowerToHyperService::new(router);
    let service = Noted { router, visitor, connection: Arc::clone(&connection), way };
    let mut http = http1::Builder::new();
    let serving = http.max_buf_size(BUFFER).serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = connection.ended() => return,
        () = stopped(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        // A caller may disconnect at any time; its run continues.
        tracing::debug!(%error, "a connection ended early");
    }
}

/// A router that notes the start and end of each request, and passes on the caller.
struct Noted {
    router: TowerToHyperService<Router>,
    /// The caller, where the door can identify it.
    visitor: Option<Visitor>,
    connection: Arc<Connection>,
    way: Way,
}

impl hyper::service::Service<hyper::Request<Incoming>> for Noted {
    type Response = hyper::Response<Answer>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, mut request: hyper::Request<Incoming>) -> Self::Future {
        self.connection.asked();
        request.extensions_mut().insert(self.way.clone());
        if let Some(visitor) = &self.visitor {
            request.extensions_mut().insert(visitor.clone());
        }
        // No other expectation is known to HTTP.
        let waits = request.headers().contains_key(header::EXPECT);
        let request = request.map(|body| RequestBody::new(body, waits, Arc::clone(&self.connection)));
        let (routed, connection) = (self.router.call(request), Arc::clone(&self.connection));
        Box::pin(async move {
            let mut response = routed.await?;
            if connection.takes_leave() {
                response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            Ok(response.map(|body| Answer { body, connection }))
        })
    }
}

/// A response's body. When it is dropped, the connection waits for the next request.
struct Answer {
    body: Body,
    connection: Arc<Connection>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.answered();
    }
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Polled {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        hyper::body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
    }
}

/// Returns when the daemon stops, or when the sender is gone.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn refuse_if_taken(path: &Path) -> Result<(), BindError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket { path: path.to_owned() });
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(BindError::SocketInUse { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

/// A directory next to the socket, so that the rename stays on one file system. The process id separates two starting
/// daemons.
fn private_room(path: &Path) -> PathBuf {
    let mut room = path.as_os_str().to_owned();
    room.push(format!(".{}", std::process::id()));
    room.into()
}

fn suffix_length() -> usize {
    private_room(Path::new("")).as_os_str().len() + "/s".len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_and_a_stale_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k.sock");
        let first = bind_unix(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(bind_unix(&path), Err(BindError::SocketInUse { .. })));
        drop(first);
        let _second = bind_unix(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(bind_unix(&path), Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_port_in_use_says_so() {
        let first = bind_tcp("127.0.0.1:0").await.unwrap();
        let address = first.local_addr().unwrap().to_string();
        assert!(matches!(bind_tcp(&address).await, Err(BindError::PortInUse { .. })));
    }
}
