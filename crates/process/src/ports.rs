//! Which TCP ports processes listen on, from the kernel's tables and the sockets that the processes hold.

use crate::proc::place_of;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
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
    /// Address by inode of the socket that listens there.
    listening: HashMap<u64, SocketAddr>,
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
            let Some(local) = address(local) else { continue };
            if state == LISTEN
                && let Ok(inode) = inode.parse()
            {
                self.listening.insert(inode, local);
            } else if state == ESTABLISHED {
                *self.connections.entry(local.port()).or_default() += 1;
            }
        }
    }

    /// What these processes do.
    fn of(&self, pids: &[u32]) -> Sockets {
        let held = held(pids, self.listening.keys().copied().collect());
        let ports: BTreeSet<u16> =
            held.iter().filter_map(|inode| self.listening.get(inode)).map(SocketAddr::port).collect();
        let connections = ports.iter().filter_map(|port| self.connections.get(port)).sum();
        Sockets { listening: ports.into_iter().collect(), connections }
    }

    /// The sockets of which one gets a connection to this address: those that are bound most closely to it.
    fn reached_at(&self, address: SocketAddr) -> HashSet<u64> {
        let distance = |bound: &SocketAddr| match bound.ip() {
            _ if bound.port() != address.port() => None,
            ip if ip == address.ip() => Some(0),
            IpAddr::V4(any) if any.is_unspecified() && address.is_ipv4() => Some(1),
            // Of both protocols, unless its program wants only the newer.
            IpAddr::V6(any) if any.is_unspecified() => Some(2),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        };
        let near: Vec<(i32, u64)> =
            self.listening.iter().filter_map(|(inode, bound)| Some((distance(bound)?, *inode))).collect();
        let nearest = near.iter().map(|(distance, _)| *distance).min();
        near.into_iter().filter(|(distance, _)| Some(*distance) == nearest).map(|(_, inode)| inode).collect()
    }
}

/// An address as the tables have it: each four bytes as a number of this machine.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let four = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match ip.len() {
        8 => IpAddr::from(four(0)?),
        32 => {
            let mut bytes = [0; 16];
            for (number, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&four(number * 8)?);
            }
            IpAddr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
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
        let namespace = |place: &Path| fs::read_link(place.join("ns/net")).ok();
        let mut places = pids.iter().map(|&pid| place_of(pid));
        let (place, namespace) = places.find_map(|place| namespace(&place).map(|namespace| (place, namespace)))?;
        Some(self.tables.entry(namespace).or_insert_with(|| SocketTable::read(&place).unwrap_or_default()))
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
    fs::read_dir(place_of(pid).join("fd")).into_iter().flatten().flatten().map(|entry| entry.path())
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
    let on_port = table.listening.iter().filter(|(_, bound)| bound.port() == port);
    !held(pids, on_port.map(|(inode, _)| *inode).collect()).is_empty()
}

/// Whose network an address is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// This process's. A process that has moved to a network of its own is not found in it.
    Ours,
    /// That of the processes, which are all in one.
    Theirs,
}

/// The first of these addresses at which a connection reaches these processes, and never another program.
pub fn answered(pids: &[u32], network: Network, addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let mut tables = SocketTables::default();
    let table = match network {
        Network::Ours => tables.table_of(&[std::process::id()]),
        Network::Theirs => tables.table_of(pids),
    }?;
    let reached: Vec<(SocketAddr, HashSet<u64>)> =
        addresses.iter().map(|address| (*address, table.reached_at(*address))).collect();
    let held = held(pids, reached.iter().flat_map(|(_, sockets)| sockets).copied().collect());
    let is_theirs = |sockets: &HashSet<u64>| !sockets.is_empty() && sockets.is_subset(&held);
    reached.into_iter().find(|(_, sockets)| is_theirs(sockets)).map(|(address, _)| address)
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
        assert_eq!(table.listening, HashMap::from([(4711, SocketAddr::from(([127, 0, 0, 1], 8080)))]));
        assert_eq!(table.connections[&8080], 1);
    }

    #[test]
    fn our_own_sockets_are_found() {
        let own = [std::process::id()];
        let v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        let v6 = TcpListener::bind("[::1]:0").ok();
        let port = v4.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let found = SocketTable::read(&place_of(own[0])).unwrap().of(&own);
        assert!(found.listening.contains(&port), "{found:?}");
        assert!(v6.iter().all(|v6| found.listening.contains(&v6.local_addr().unwrap().port())), "{found:?}");
        assert!(found.connections >= 1, "{found:?}");
        assert!(listens(&own, port));
        drop(v4);
        assert!(!listening(&own).contains(&port) && !listens(&own, port));
    }

    #[test]
    fn a_connection_reaches_the_socket_that_is_bound_most_closely() {
        let socket = |number: u64, bound: &str| (number, bound.parse::<SocketAddr>().unwrap());
        let table = |bound: &[(u64, SocketAddr)]| SocketTable {
            listening: bound.iter().copied().collect(),
            connections: HashMap::new(),
        };
        let all =
            table(&[socket(1, "127.0.0.1:80"), socket(2, "0.0.0.0:80"), socket(3, "[::]:80"), socket(4, "[::1]:81")]);
        let any = table(&[socket(2, "0.0.0.0:80"), socket(3, "[::]:80"), socket(5, "0.0.0.0:80")]);
        let six = table(&[socket(3, "[::]:80"), socket(6, "127.0.0.2:80")]);
        for (table, to, reached) in [
            (&all, "127.0.0.1:80", vec![1]),
            (&all, "[::1]:80", vec![3]),
            (&all, "[::1]:81", vec![4]),
            (&all, "127.0.0.1:81", vec![]),
            (&any, "127.0.0.1:80", vec![2, 5]),
            (&six, "127.0.0.1:80", vec![3]),
        ] {
            assert_eq!(table.reached_at(to.parse().unwrap()), HashSet::from_iter(reached), "{to}");
        }
        for (text, read) in [
            ("0100007F:0050", "127.0.0.1:80"),
            ("00000000000000000000000001000000:0050", "[::1]:80"),
            ("0000000000000000FFFF00000100007F:0050", "127.0.0.1:80"),
        ] {
            assert_eq!(address(text), read.parse().ok(), "{text}");
        }
        assert_eq!(address("0100:0050"), None);
    }

    #[test]
    fn only_its_own_sockets_answer_for_a_process() {
        let own = [std::process::id()];
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let bound = listener.local_addr().unwrap();
        let other = SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], bound.port()));
        for network in [Network::Ours, Network::Theirs] {
            assert_eq!(answered(&own, network, &[other, bound]), Some(bound));
            assert_eq!(answered(&own, network, &[other]), None);
        }
        // The first process of the machine does not hold it.
        assert_eq!(answered(&[1], Network::Ours, &[bound]), None);
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

    #[test]
    fn a_process_without_its_first_thread_listens() {
        let other = crate::proc::tests::WithoutLeader::start();
        assert_eq!(listening(&[other.pid()]), [other.port]);
    }
}
