//! Which TCP ports processes listen on, from the kernel's tables and the sockets that the processes hold.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Descriptors of processes that are looked at in one look, those of the oldest processes first: some 30 ms. A service may have
/// 256 processes with 65,536 each, and a look at all of them takes a processor for ten seconds. A server opens its port early,
/// or inherits it, so a look finds it.
pub const MOST_DESCRIPTORS: usize = 20_000;

/// States of a socket, as the tables number them.
const ESTABLISHED: &str = "01";
const LISTEN: &str = "0A";

/// What a set of processes does on TCP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sockets {
    /// Ports it listens on, ascending.
    pub listening: Vec<u16>,
    /// Established connections on those ports.
    pub connections: usize,
}

/// The TCP sockets of one network namespace.
#[derive(Debug, Default)]
struct SocketTable {
    /// Port by inode of the socket that listens on it.
    listening: HashMap<u64, u16>,
    /// Established connections by local port.
    connections: HashMap<u16, usize>,
}

impl SocketTable {
    /// Reads the tables that this process sees.
    fn read(pid: u32) -> io::Result<Self> {
        let mut table = Self::default();
        table.add(&fs::read_to_string(format!("/proc/{pid}/net/tcp"))?);
        // A machine may be without the newer protocol.
        table.add(&fs::read_to_string(format!("/proc/{pid}/net/tcp6")).unwrap_or_default());
        Ok(table)
    }

    fn add(&mut self, text: &str) {
        for line in text.lines().skip(1) {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let (Some(local), Some(state), Some(inode)) = (fields.next(), fields.nth(1), fields.nth(5)) else {
                continue;
            };
            let Some(port) = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok()) else {
                continue;
            };
            if state == LISTEN
                && let Ok(inode) = inode.parse()
            {
                self.listening.insert(inode, port);
            } else if state == ESTABLISHED {
                *self.connections.entry(port).or_default() += 1;
            }
        }
    }

    /// What these processes do.
    fn of(&self, pids: &[u32]) -> Sockets {
        let held = held(pids, self.listening.keys().copied().collect());
        let ports: BTreeSet<u16> = held.iter().filter_map(|inode| self.listening.get(inode).copied()).collect();
        let connections = ports.iter().filter_map(|port| self.connections.get(port)).sum();
        Sockets { listening: ports.into_iter().collect(), connections }
    }
}

/// The TCP sockets of all network namespaces, each read once for many services.
#[derive(Debug, Default)]
pub struct SocketTables {
    /// By the link that identifies the namespace.
    tables: HashMap<PathBuf, SocketTable>,
}

impl SocketTables {
    /// What these processes do; all of them are in one network namespace.
    pub fn of(&mut self, pids: &[u32]) -> Sockets {
        self.table_of(pids).map(|table| table.of(pids)).unwrap_or_default()
    }

    fn table_of(&mut self, pids: &[u32]) -> Option<&SocketTable> {
        let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let (pid, namespace) = pids.iter().find_map(|&pid| Some((pid, namespace(pid)?)))?;
        Some(self.tables.entry(namespace).or_insert_with(|| SocketTable::read(pid).unwrap_or_default()))
    }
}

/// Which of these sockets the processes hold.
fn held(pids: &[u32], wanted: HashSet<u64>) -> HashSet<u64> {
    let mut pids = pids.to_vec();
    pids.sort_unstable();
    among(pids.into_iter().flat_map(descriptors), wanted)
}

/// Which of these sockets are among the first descriptors. Stops when all are found.
fn among(descriptors: impl Iterator<Item = PathBuf>, mut wanted: HashSet<u64>) -> HashSet<u64> {
    let mut found = HashSet::new();
    let mut descriptors = descriptors.take(MOST_DESCRIPTORS);
    while !wanted.is_empty()
        && let Some(descriptor) = descriptors.next()
    {
        found.extend(socket_inode(&descriptor).and_then(|inode| wanted.take(&inode)));
    }
    found
}

fn descriptors(pid: u32) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn socket_inode(descriptor: &Path) -> Option<u64> {
    let target = fs::read_link(descriptor).ok()?;
    let inode = target.as_os_str().as_bytes().strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(inode).ok()?.parse().ok()
}

/// Ports on which these processes listen, ascending.
pub fn listening(pids: &[u32]) -> Vec<u16> {
    SocketTables::default().of(pids).listening
}

/// Whether these processes listen on a port. Looks at them only if somebody does.
pub fn listens(pids: &[u32], port: u16) -> bool {
    let mut tables = SocketTables::default();
    let Some(table) = tables.table_of(pids) else { return false };
    let on_port = table.listening.iter().filter(|(_, listening)| **listening == port);
    !held(pids, on_port.map(|(inode, _)| *inode).collect()).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_table_of_the_kernel_is_read() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0\n   \
                    1: 0100007F:1F90 0100007F:C000 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0\n   \
                    2: 0100007F:C000 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4713 1 0\n";
        let mut table = SocketTable::default();
        table.add(text);
        assert_eq!(table.listening, HashMap::from([(4711, 8080)]));
        assert_eq!(table.connections[&8080], 1);
    }

    #[test]
    fn our_own_sockets_are_found() {
        let own = [std::process::id()];
        let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        let v6 = TcpListener::bind("[::1]:0").ok();
        let port = v4.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let found = SocketTable::read(own[0]).unwrap().of(&own);
        assert!(found.listening.contains(&port), "{found:?}");
        assert!(v6.iter().all(|v6| found.listening.contains(&v6.local_addr().unwrap().port())), "{found:?}");
        assert!(found.connections >= 1, "{found:?}");
        assert!(listens(&own, port));
        drop(v4);
        assert!(!listening(&own).contains(&port) && !listens(&own, port));
    }

    /// A service with 256 processes of 65,536 descriptors each kept a thread busy for ten seconds with each look.
    #[test]
    fn a_look_goes_no_further_than_it_may() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let number = socket.as_raw_fd().to_string();
        let (other, own) = (PathBuf::from("/dev/null"), Path::new("/proc/self/fd").join(number));
        let wanted = HashSet::from([socket_inode(&own).unwrap()]);
        let looked = |before: usize, wanted: &HashSet<u64>| {
            let mut looked = 0;
            let others = std::iter::repeat_n(other.clone(), before).chain([own.clone(), other.clone()]);
            let found = among(others.inspect(|_| looked += 1), wanted.clone());
            (looked, found.len())
        };
        assert_eq!(looked(10, &wanted), (11, 1), "no further than what it looks for");
        assert_eq!(looked(10, &HashSet::new()), (0, 0), "nobody listens there");
        assert_eq!(looked(MOST_DESCRIPTORS - 1, &wanted), (MOST_DESCRIPTORS, 1));
        assert_eq!(looked(MOST_DESCRIPTORS, &wanted), (MOST_DESCRIPTORS, 0));
    }
}
