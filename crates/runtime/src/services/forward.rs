//! Makes a service in a room reachable for the host: the port that the service declared is listened on outside, on loopback,
//! and each connection is continued to the same port inside. Connections inside are made through sockets that were created
//! in the room's network, so no process is added.

use crate::network::{ACCEPT_PAUSE, Allowance, WAIT_LIMIT};
use crate::tasks;
use shellkeep_process::Namespaces;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream as StdStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

/// Sockets made at a time: a page of a dev server takes a few connections.
const SOCKETS_AT_ONCE: usize = 8;
/// Connections that are continued at a time. More wait outside until one ends.
const MOST_CONNECTIONS: usize = 64;

/// The first port that is for everybody. Those below are the machine's: only root can listen there, and who connects there
/// takes whoever answers for a service of the machine.
const FIRST_COMMON_PORT: u16 = 1024;

/// A port that is being forwarded, for as long as this lives.
#[derive(Debug)]
pub(super) struct Forward {
    task: JoinHandle<()>,
    door: Arc<Door>,
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Where connections into a room come from.
#[derive(Debug)]
pub(super) struct Door {
    namespaces: Arc<Namespaces>,
    port: u16,
    /// Made and not used yet.
    sockets: Mutex<Vec<OwnedFd>>,
}

impl Forward {
    /// Starts to listen, for the service of a session that may be an agent's.
    pub(super) async fn start(
        namespaces: &Arc<Namespaces>,
        port: u16,
        is_agents: bool,
        allowance: Arc<Allowance>,
    ) -> io::Result<Self> {
        check(port, is_agents)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let door = Arc::new(Door { namespaces: Arc::clone(namespaces), port, sockets: Mutex::default() });
        Ok(Self { task: tasks::spawn(serve(listener, Arc::clone(&door), allowance)), door })
    }

    /// Through which the port inside is reached, and nothing outside.
    pub(super) fn door(&self) -> &Arc<Door> {
        &self.door
    }
}

/// An agent gets no port outside that a user of the machine would not get.
fn check(port: u16, is_agents: bool) -> io::Result<()> {
    if is_agents && port < FIRST_COMMON_PORT {
        let reason = format!("ports below {FIRST_COMMON_PORT} are the machine's, and no agent's");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(())
}

async fn serve(listener: TcpListener, door: Arc<Door>, allowance: Arc<Allowance>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while connections.try_join_next().is_some() {}
        let (outside, _) = accepted(|| listener.accept()).await;
        let (door, allowance) = (Arc::clone(&door), Arc::clone(&allowance));
        connections.spawn(async move {
            // The caller finds its connection closed if there is none for so long.
            let Ok(Some(taken)) = tokio::time::timeout(WAIT_LIMIT, allowance.connect()).await else { return };
            // If nothing listens inside, the caller finds its connection closed.
            if let Err(error) = door.continue_inside(outside).await {
                tracing::debug!(port = door.port, %error, "a connection to a service in a room ended");
            }
            drop((place, taken));
        });
    }
}

/// Accepts a connection. What fails is tried again after a pause: it fails for want of a descriptor, and at once.
async fn accepted<T, F: Future<Output = io::Result<T>>>(accept: impl Fn() -> F) -> T {
    loop {
        if let Ok(accepted) = accept().await {
            return accepted;
        }
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl Door {
    /// A connection to the port inside.
    pub(super) async fn connect(&self) -> io::Result<TcpStream> {
        let socket = TcpSocket::from_std_stream(StdStream::from(self.socket().await?));
        socket.connect(self.address()).await
    }

    /// Where that leads, inside.
    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    async fn continue_inside(&self, mut outside: TcpStream) -> io::Result<()> {
        let mut inside = self.connect().await?;
        tokio::io::copy_bidirectional(&mut outside, &mut inside).await.map(|_| ())
    }

    /// A socket that connects inside.
    async fn socket(&self) -> io::Result<OwnedFd> {
        let mut sockets = self.sockets.lock().await;
        if sockets.is_empty() {
            let namespaces = Arc::clone(&self.namespaces);
            let made =
                tasks::blocking(move || namespaces.sockets(SOCKETS_AT_ONCE)).await.map_err(io::Error::other)??;
            sockets.extend(made.into_iter().flatten());
        }
        sockets.pop().ok_or_else(|| io::Error::other("no socket was made in the room"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::Instant;

    /// A daemon that runs as root listened on any port that an agent's service declared, such as 53 or 443.
    #[test]
    fn an_agent_gets_none_of_the_machines_ports() {
        for (port, is_agents, is_allowed) in
            [(80, true, false), (1023, true, false), (1024, true, true), (8080, true, true), (80, false, true)]
        {
            assert_eq!(check(port, is_agents).is_ok(), is_allowed, "{port} {is_agents}");
        }
    }

    /// Without a descriptor for the next connection the loop took a processor.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_cannot_be_accepted_is_tried_again_after_a_pause() {
        let (tried, began) = (AtomicUsize::new(0), Instant::now());
        let full = || {
            std::future::ready(match tried.fetch_add(1, Ordering::Relaxed) {
                0..3 => Err(io::Error::other("no descriptor is left")),
                _ => Ok(()),
            })
        };
        accepted(full).await;
        let waited = began.elapsed();
        assert!((ACCEPT_PAUSE * 3..ACCEPT_PAUSE * 4).contains(&waited), "{waited:?}");
        assert_eq!(tried.load(Ordering::Relaxed), 4);
    }
}
