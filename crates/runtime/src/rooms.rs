//! The rooms of a node: their network, and what the processes of each session share.

use crate::network::{Allowance, Descriptors, Gate, Report, Tenant};
use crate::spare_namespaces::SpareNamespaces;
use crate::sync::lock;
use shellkeep_process::{Fence, Namespaces, NoFence, NoRoom, Preparation, RoomNetwork};
use shellkeep_session::{AllowedHost, Network, SessionId};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use tokio::sync::mpsc;

/// What a room with a list of hosts reads to find its resolver.
const RESOLVER: &str = "nameserver 127.0.0.1\n";

/// What a shell can have before its session is known.
#[derive(Debug)]
pub(crate) struct Ahead {
    pub(crate) preparation: Preparation,
    /// What its room shares, if it is in one then.
    pub(crate) room: Option<Arc<Namespaces>>,
}

/// The rooms of a node.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) network: Network,
    /// Why there are none, if that was found out.
    pub(crate) unavailable: Option<NoRoom>,
    /// The hosts that they may connect to, if there are any.
    pub(crate) gate: Option<Gate>,
    /// What their connections may take of the daemon's descriptors.
    descriptors: Arc<Descriptors>,
    /// What the gate reports, until somebody takes it.
    reports: Mutex<Option<mpsc::Receiver<Report>>>,
    /// What programs inside read to find the gate's resolver.
    resolver: PathBuf,
    /// On which each of them mounts its root.
    pub(crate) root: PathBuf,
    spares: Arc<SpareNamespaces>,
    /// What the processes of each session share, for as long as one of them lives.
    shared: Mutex<HashMap<SessionId, Weak<Namespaces>>>,
}

impl Rooms {
    /// Tries to break out of one, if there is a fence to put into it.
    pub(crate) fn new(network: Network, hosts: &[AllowedHost], fence: Result<&Fence, &NoFence>, data: &Path) -> Self {
        let resolver = data.join("scratch/resolv.conf");
        let root = data.join("scratch/root");
        let has_gate = network == Network::None && !hosts.is_empty();
        let descriptors = Arc::new(Descriptors::of_daemon());
        let gate = has_gate.then(|| Gate::new(hosts.to_vec(), Arc::clone(&descriptors)));
        let written = gate.as_ref().map_or(Ok(()), |_| std::fs::write(&resolver, RESOLVER));
        let proof = fence
            .map_err(|why| NoRoom::Fence(why.clone()))
            .and_then(|fence| fence.prove_room(room_network(network), &data.join("scratch")));
        let written = written.map_err(|error| NoRoom::NotMade(format!("{}: {error}", resolver.display())));
        let made = std::fs::create_dir_all(&root);
        let made = made.map_err(|error| NoRoom::NotMade(format!("{}: {error}", root.display())));
        let (gate, reports) = gate.unzip();
        let (reports, shared) = (Mutex::new(reports), Mutex::default());
        let spares = Arc::new(SpareNamespaces::new(room_network(network)));
        let unavailable = proof.and(written).and(made).err();
        Self { network, unavailable, gate, descriptors, reports, resolver, root, spares, shared }
    }

    /// What their processes read to find a resolver, if not what those outside read.
    pub(crate) fn resolver(&self) -> Option<&Path> {
        self.gate.as_ref().map(|_| self.resolver.as_path())
    }

    /// What they do not reach. Once.
    pub(crate) fn take_reports(&self) -> Option<mpsc::Receiver<Report>> {
        lock(&self.reports).take()
    }

    /// Whether a process of a session joins what is offered to it without starting a program.
    pub(crate) fn joins_at_once(&self) -> bool {
        self.gate.is_none()
    }

    /// The descriptors that connections of a session of this agent, or of none, may take.
    pub(crate) fn allowance(&self, id: &SessionId, agent: Option<&str>) -> Arc<Allowance> {
        self.descriptors.of(Tenant::of(id, agent))
    }

    /// What a shell in a room can have before its session is known.
    pub(crate) fn ahead(&self, fence: &Fence) -> io::Result<Ahead> {
        let namespaces = Arc::new(self.spares.take()?);
        let preparation = fence.room_ahead(&self.root, Arc::clone(&namespaces));
        Ok(Ahead { preparation, room: Some(namespaces) })
    }

    /// What the processes of a session share, if one of them lives.
    pub(crate) fn shared(&self, id: &SessionId) -> Option<Arc<Namespaces>> {
        lock(&self.shared).get(id).and_then(Weak::upgrade)
    }

    /// What the processes of a session of this agent, or of none, share. If none of them lives, what is offered, or new ones.
    pub(crate) fn namespaces(
        &self,
        id: &SessionId,
        agent: Option<&str>,
        offered: Option<Arc<Namespaces>>,
    ) -> io::Result<Arc<Namespaces>> {
        match self.shared(id) {
            Some(namespaces) => Ok(namespaces),
            None => {
                let namespaces = offered.map_or_else(|| self.spares.take().map(Arc::new), Ok)?;
                self.gate.as_ref().map_or(Ok(()), |gate| gate.open(id, agent, &namespaces))?;
                Ok(self.keep(id, namespaces))
            }
        }
    }

    /// Remembers what a session shares, and gives it; that of another process that was quicker comes first.
    pub(crate) fn keep(&self, id: &SessionId, namespaces: Arc<Namespaces>) -> Arc<Namespaces> {
        let mut shared = lock(&self.shared);
        if let Some(other) = shared.get(id).and_then(Weak::upgrade) {
            return other;
        }
        shared.retain(|_, namespaces| namespaces.strong_count() > 0);
        shared.insert(id.clone(), Arc::downgrade(&namespaces));
        namespaces
    }
}

fn room_network(network: Network) -> RoomNetwork {
    match network {
        Network::None => RoomNetwork::Own,
        Network::Full => RoomNetwork::Host,
    }
}
