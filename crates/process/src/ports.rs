//! Which TCP ports processes listen on, from the kernel's tables and the sockets that the processes hold.

use crate::proc::place_of;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
    /// Reads the tables that the process with this directory sees.
    fn read(place: &Path) -> io::Result<Self> {
        let mut table = Self::default();
        table.add(&fs::read_to_string(place.join("net/tcp"))?);
        // A machine may be without the newer protocol.
        table.add(&fs::read_to_string(place.join("net/tcp6")).unwrap_or_default());
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

    /// What the processes with these directories do.
    fn of(&self, places: &[PathBuf]) -> Sockets {
        let inodes = places.iter().flat_map(|place| socket_inodes(place));
        let ports: BTreeSet<u16> = inodes.filter_map(|inode| self.listening.get(&inode).copied()).collect();
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
        let places: Vec<PathBuf> = pids.iter().map(|&pid| place_of(pid)).collect();
        let namespace = |place: &Path| fs::read_link(place.join("ns/net")).ok();
        let Some((place, namespace)) = places.iter().find_map(|place| Some((place, namespace(place)?))) else {
            return Sockets::default();
        };
        let table = self.tables.entry(namespace).or_insert_with(|| SocketTable::read(place).unwrap_or_default());
        table.of(&places)
    }
}

/// Sockets that the process with this directory holds.
fn socket_inodes(place: &Path) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(place.join("fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target.as_os_str().as_bytes().strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
        std::str::from_utf8(inode).ok()?.parse().ok()
    })
}

/// Ports on which these processes listen, ascending.
pub fn listening(pids: &[u32]) -> Vec<u16> {
    SocketTables::default().of(pids).listening
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

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
        let place = place_of(own[0]);
        let found = SocketTable::read(&place).unwrap().of(&[place]);
        assert!(found.listening.contains(&port), "{found:?}");
        assert!(v6.iter().all(|v6| found.listening.contains(&v6.local_addr().unwrap().port())), "{found:?}");
        assert!(found.connections >= 1, "{found:?}");
        drop(v4);
        assert!(!listening(&own).contains(&port));
    }

    #[test]
    fn a_process_without_its_first_thread_listens() {
        let other = crate::proc::tests::WithoutLeader::start();
        assert_eq!(listening(&[other.pid()]), [other.port]);
    }
}
