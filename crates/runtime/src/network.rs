//! Lets rooms reach the hosts that the node allows, and no others. A room has no network but its own loopback. There it finds
//! a resolver of ours, which gives each allowed name an address of loopback, and behind that address, on the allowed ports,
//! sockets of ours. A connection to one of them is continued to the host of that name, which is resolved out here.
//!
//! So it is the name that decides, whatever the protocol is: programs need no proxy settings. The sockets were created in the
//! room's network and passed to us, so no process is added.

mod address;
mod descriptors;
mod dns;
mod reports;

pub(crate) use descriptors::{Allowance, Descriptors, Taken, Tenant};
pub(crate) use reports::{Report, Unreached};

use crate::tasks;
use dns::{Question, Reply};
use reports::Reports;
use shellkeep_process::{Namespaces, Socket};
use shellkeep_session::{AllowedHost, SessionId};
use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener as StdListener, UdpSocket as StdUdp};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// Where programs look for a resolver.
const RESOLVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);
/// Questions are never longer without an agreement to the contrary.
const MOST_QUESTION: usize = 512;
/// Names that a session may use: more than a build needs, and each takes sockets.
const MOST_NAMES: usize = 1000;
/// Connections of a session at a time. More wait.
const MOST_CONNECTIONS: usize = 256;
/// How long a connection waits for others to end.
pub(crate) const WAIT_LIMIT: Duration = Duration::from_secs(30);
/// The same for one that waited as long to be accepted.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// How long a host may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted, which is for want of a descriptor.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Reports that are not recorded yet; more are dropped.
const MOST_WAITING: usize = 100;

/// The hosts that the rooms of a node may reach.
#[derive(Debug)]
pub(crate) struct Gate {
    hosts: Arc<[AllowedHost]>,
    reports: mpsc::Sender<Report>,
    descriptors: Arc<Descriptors>,
}

/// The task of one session's room; it ends when this is dropped.
struct Open(AbortHandle);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Gate {
    /// A gate, and where it reports what was not reached.
    pub(crate) fn new(hosts: Vec<AllowedHost>, descriptors: Arc<Descriptors>) -> (Self, mpsc::Receiver<Report>) {
        let (reports, received) = mpsc::channel(MOST_WAITING);
        (Self { hosts: hosts.into(), reports, descriptors }, received)
    }

    pub(crate) fn hosts(&self) -> &[AllowedHost] {
        &self.hosts
    }

    /// Opens it for a session of this agent, or of none, for as long as its namespaces are used. Starts a small program and
    /// waits for it.
    pub(crate) fn open(&self, id: &SessionId, agent: Option<&str>, namespaces: &Arc<Namespaces>) -> io::Result<()> {
        let made = namespaces.listen(&[Socket::Udp(RESOLVER)])?.into_iter().next();
        let resolver = StdUdp::from(made.ok_or_else(|| io::Error::other("no resolver was made in the room"))?);
        let room = Room {
            id: id.clone(),
            hosts: Arc::clone(&self.hosts),
            namespaces: Arc::downgrade(namespaces),
            names: HashMap::new(),
            reports: Arc::new(Reports::new(id.clone(), self.reports.clone())),
            places: Arc::new(Semaphore::new(MOST_CONNECTIONS)),
            allowance: self.descriptors.of(Tenant::of(id, agent)),
            listeners: JoinSet::new(),
            listening: Vec::new(),
        };
        let task = tasks::spawn(async move { room.serve(UdpSocket::from_std(resolver)?).await });
        namespaces.attach(Box::new(Open(task.abort_handle())));
        Ok(())
    }
}

/// What a session's room has asked for.
struct Room {
    id: SessionId,
    hosts: Arc<[AllowedHost]>,
    namespaces: Weak<Namespaces>,
    /// Addresses inside, by name.
    names: HashMap<String, Ipv4Addr>,
    reports: Arc<Reports>,
    places: Arc<Semaphore>,
    allowance: Arc<Allowance>,
    listeners: JoinSet<()>,
    /// What its listeners have taken.
    listening: Vec<Taken>,
}

impl Room {
    async fn serve(mut self, resolver: UdpSocket) -> io::Result<()> {
        let mut packet = [0; MOST_QUESTION];
        loop {
            let (length, from) = resolver.recv_from(&mut packet).await?;
            let Some(question) = Question::read(&packet[..length]) else { continue };
            let reply = self.reply(&question).await;
            // One that is not answered is asked again.
            let _ = resolver.send_to(&question.answer(reply), from).await;
        }
    }

    async fn reply(&mut self, question: &Question<'_>) -> Reply {
        let name = question.name.to_ascii_lowercase();
        if name.is_empty() {
            // The root of all names, which is no host.
            return Reply::Nothing;
        }
        let allowed: Vec<AllowedHost> = self.hosts.iter().filter(|host| host.matches(&name)).cloned().collect();
        if allowed.is_empty() {
            self.reports.tell(Unreached::NotAllowed { host: name }).await;
            return Reply::NoName;
        }
        if !question.is_address {
            return Reply::Nothing;
        }
        if let Some(address) = self.names.get(&name) {
            return Reply::Address(*address);
        }
        match self.admit(&name, allowed).await {
            Ok(address) => {
                self.names.insert(name, address);
                Reply::Address(address)
            }
            Err(error) => {
                tracing::debug!(session = %self.id, name, %error, "a room cannot reach a host that is allowed");
                self.reports.tell(Unreached::Failed { host: name, reason: error.to_string() }).await;
                Reply::NoName
            }
        }
    }

    /// Gives a name an address inside, and listens there.
    async fn admit(&mut self, name: &str, allowed: Vec<AllowedHost>) -> io::Result<Ipv4Addr> {
        let number = u16::try_from(self.names.len() + 1).map_err(io::Error::other)?;
        if self.names.len() >= MOST_NAMES {
            return Err(io::Error::other("it has asked for too many names"));
        }
        let taken = self.allowance.listen(allowed.len());
        let taken = taken.ok_or_else(|| {
            io::Error::other("it, the sessions of its agent, or those of the node use too many names")
        })?;
        let [high, low] = number.to_be_bytes();
        let address = Ipv4Addr::new(127, 1, high, low);
        let namespaces = self.namespaces.upgrade().ok_or_else(|| io::Error::other("its room is gone"))?;
        let sockets: Vec<Socket> =
            allowed.iter().map(|host| Socket::Tcp(SocketAddrV4::new(address, host.port()))).collect();
        let made = tasks::blocking(move || namespaces.listen(&sockets)).await.map_err(io::Error::other)??;
        for (host, listener) in allowed.into_iter().zip(made) {
            let listener = TcpListener::from_std(StdListener::from(listener))?;
            let (places, allowance) = (Arc::clone(&self.places), Arc::clone(&self.allowance));
            let way = Way { name: name.to_owned(), host, places, allowance, reports: Arc::clone(&self.reports) };
            self.listeners.spawn(way.serve(listener));
        }
        self.listening.push(taken);
        Ok(address)
    }
}

/// The way to one host.
#[derive(Debug, Clone)]
struct Way {
    name: String,
    host: AllowedHost,
    places: Arc<Semaphore>,
    allowance: Arc<Allowance>,
    reports: Arc<Reports>,
}

/// What a connection has until it ends: one of its session's, and descriptors.
type Turn = (OwnedSemaphorePermit, Taken);

impl Way {
    async fn serve(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        // Since when those that are not accepted yet may have waited.
        let mut full_since: Option<Instant> = None;
        loop {
            let accepted = match tokio::time::timeout(Duration::ZERO, listener.accept()).await {
                Ok(accepted) => accepted,
                // Nobody waits.
                Err(_) => {
                    full_since = None;
                    listener.accept().await
                }
            };
            let Ok((inside, _)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while connections.try_join_next().is_some() {}
            // Others wait to be accepted meanwhile.
            let began = Instant::now();
            let waited = full_since.map_or(Duration::ZERO, |since| since.elapsed());
            let turn = match self.turn(WAIT_LIMIT.saturating_sub(waited).max(LEAST_WAIT)).await {
                Ok(turn) => {
                    full_since = None;
                    turn
                }
                Err(error) => {
                    full_since.get_or_insert(began);
                    self.failed(&error).await;
                    continue;
                }
            };
            let way = self.clone();
            connections.spawn(async move {
                // If the host cannot be reached, the program finds its connection closed, after its session was told why.
                match way.reach().await {
                    Ok(outside) => carry(inside, outside).await,
                    Err(error) => way.failed(&error).await,
                }
                drop(turn);
            });
        }
    }

    async fn failed(&self, error: &io::Error) {
        tracing::debug!(name = self.name, host = %self.host, %error, "a room did not reach a host that is allowed");
        let host = format!("{}:{}", self.name, self.host.port());
        self.reports.tell(Unreached::Failed { host, reason: error.to_string() }).await;
    }

    /// Waits until there may be one more connection, and no longer than this.
    async fn turn(&self, limit: Duration) -> io::Result<Turn> {
        let turn = async {
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some((place, self.allowance.connect().await?))
        };
        let turn = tokio::time::timeout(limit, turn).await.ok().flatten();
        turn.ok_or_else(|| {
            let who = if self.places.available_permits() == 0 { "this session" } else { self.allowance.full() };
            let waited = WAIT_LIMIT.as_secs();
            io::Error::other(format!("{who} was at its limit of open connections for {waited} seconds"))
        })
    }

    async fn reach(&self) -> io::Result<TcpStream> {
        let connecting = tokio::time::timeout(CONNECT_LIMIT, self.connect()).await;
        let no_answer = || format!("it did not answer within {} seconds", CONNECT_LIMIT.as_secs());
        connecting.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, no_answer()))?
    }

    /// Connects to the host. A name may lead only to a public address, or a session could reach this machine and its
    /// neighbours by a name that it controls.
    async fn connect(&self) -> io::Result<TcpStream> {
        let port = self.host.port();
        if let Some(address) = self.host.address() {
            return TcpStream::connect((address, port)).await;
        }
        let found = tokio::net::lookup_host((self.name.as_str(), port)).await?;
        let public: Vec<SocketAddr> = found.filter(|found| address::is_public(found.ip())).collect();
        if public.is_empty() {
            return Err(io::Error::other(
                "its name leads to no public address, and the operator has given none for it",
            ));
        }
        TcpStream::connect(public.as_slice()).await
    }
}

/// Passes on what both say until one of them ends.
async fn carry(mut inside: TcpStream, mut outside: TcpStream) {
    if let Err(error) = tokio::io::copy_bidirectional(&mut inside, &mut outside).await {
        tracing::debug!(%error, "a connection of a room ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    /// The connection was closed, and nothing said why.
    #[tokio::test]
    async fn a_host_that_does_not_answer_is_told_before_the_connection_ends() {
        let closed = StdListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let hosts: Vec<AllowedHost> = vec![format!("down.test:{closed}=127.0.0.1").parse().unwrap()];
        let (gate, mut reports) = Gate::new(hosts.clone(), Arc::new(Descriptors::of_daemon()));
        let id = SessionId::parse("s").unwrap();
        let way = Way {
            name: "down.test".to_owned(),
            host: hosts[0].clone(),
            places: Arc::new(Semaphore::new(1)),
            allowance: gate.descriptors.of(Tenant::of(&id, None)),
            reports: Arc::new(Reports::new(id, gate.reports.clone())),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(way.serve(listener));
        let mut program = TcpStream::connect(address).await.unwrap();
        let Report { unreached, recorded, .. } = reports.recv().await.unwrap();
        let message = unreached.notice().message;
        assert!(message.starts_with(&format!("down.test:{closed} was not reached, although")), "{message}");
        assert!(message.contains("refused"), "{message}");
        recorded.send(()).unwrap();
        assert_eq!(program.read(&mut [0; 1]).await.unwrap_or(0), 0);
        serving.abort();
    }

    /// Each waited for its turn before the next was accepted: with 20 too many, the last one learned after ten minutes that
    /// there are too many.
    #[tokio::test(start_paused = true)]
    async fn connections_that_are_too_many_wait_together() {
        const TOO_MANY: usize = 5;
        let hosts: Vec<AllowedHost> = vec!["full.test:443=127.0.0.1".parse().unwrap()];
        let (gate, mut reports) = Gate::new(hosts.clone(), Arc::new(Descriptors::of_daemon()));
        let id = SessionId::parse("s").unwrap();
        let way = Way {
            name: "full.test".to_owned(),
            host: hosts[0].clone(),
            places: Arc::new(Semaphore::new(0)),
            allowance: gate.descriptors.of(Tenant::of(&id, None)),
            reports: Arc::new(Reports::new(id, gate.reports.clone())),
        };
        let listener = StdListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let programs: Vec<std::net::TcpStream> =
            (0..TOO_MANY).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        listener.set_nonblocking(true).unwrap();
        let began = Instant::now();
        let serving = tokio::spawn(way.serve(TcpListener::from_std(listener).unwrap()));
        let Report { unreached, recorded, .. } = reports.recv().await.unwrap();
        let message = unreached.notice().message;
        assert!(message.contains("this session was at its limit of open connections"), "{message}");
        recorded.send(()).unwrap();
        for program in programs {
            program.set_nonblocking(true).unwrap();
            let mut program = TcpStream::from_std(program).unwrap();
            assert_eq!(program.read(&mut [0; 1]).await.unwrap_or(0), 0);
        }
        let waited = began.elapsed();
        assert!((WAIT_LIMIT..WAIT_LIMIT * 2).contains(&waited), "{waited:?}");
        serving.abort();
    }
}
