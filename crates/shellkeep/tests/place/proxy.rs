//! A TCP proxy before Redis or a node that delays, cuts one way, or swallows everything without closing a connection.

use shellkeep_poll::pass;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// What becomes of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// They arrive.
    None = 0,
    /// They arrive late.
    Delay = 1,
    /// What the server says is lost; what it is sent arrives.
    AnswersLost = 2,
    /// All are lost.
    BlackHole = 3,
}

/// How late bytes are.
const LATE: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shared {
    server: OnceLock<SocketAddr>,
    fault: AtomicU8,
    is_over: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

/// A proxy; ends with its owner.
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// A proxy before this server.
    pub fn to(server: SocketAddr) -> Self {
        let proxy = Self::open();
        proxy.lead_to(server);
        proxy
    }

    /// A proxy before a server that starts later.
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if state.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let server = state.server.get().map(TcpStream::connect);
                let Some(Ok(server)) = server else { continue };
                serve(&state, client, server);
            }
        });
        Self { address, shared }
    }

    pub fn lead_to(&self, server: SocketAddr) {
        self.shared.server.set(server).expect("it leads nowhere yet");
    }

    pub fn set(&self, fault: Fault) {
        self.shared.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// How many connections there were so far.
    pub fn accepted(&self) -> usize {
        self.shared.streams.lock().expect("the list").len() / 2
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for stream in self.shared.streams.lock().expect("the list").iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn serve(state: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    let copy = |stream: &TcpStream| stream.try_clone().expect("a copy");
    state.streams.lock().expect("the list").extend([copy(&client), copy(&server)]);
    let directions = [(copy(&client), copy(&server), Fault::BlackHole), (server, client, Fault::AnswersLost)];
    for (from, to, lost_from) in directions {
        let state = Arc::clone(state);
        thread::spawn(move || pump(&state, from, to, lost_from));
    }
}

/// Copies one direction. Bytes are lost from this fault on.
fn pump(state: &Shared, mut from: TcpStream, mut to: TcpStream, lost_from: Fault) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let fault = state.fault.load(Ordering::SeqCst);
        if fault == Fault::Delay as u8 {
            pass(LATE);
        }
        if fault < lost_from as u8 && to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.cut();
    }
}
