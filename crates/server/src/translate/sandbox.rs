//! How a session is confined, for the caller.

use shellkeep_protocol as wire;
use shellkeep_runtime::{SandboxSource, SandboxView};
use shellkeep_session::{Network, Sandbox};
use std::path::PathBuf;

/// A sandbox by its name.
pub fn named_sandbox(name: wire::SandboxName) -> Sandbox {
    match name {
        wire::SandboxName::None => Sandbox::None,
        wire::SandboxName::User => Sandbox::User,
        wire::SandboxName::Fence => Sandbox::Fence,
        wire::SandboxName::Room => Sandbox::Room,
    }
}

/// The name of a sandbox.
pub fn sandbox_name(sandbox: Sandbox) -> wire::SandboxName {
    match sandbox {
        Sandbox::None => wire::SandboxName::None,
        Sandbox::User => wire::SandboxName::User,
        Sandbox::Fence => wire::SandboxName::Fence,
        Sandbox::Room => wire::SandboxName::Room,
    }
}

/// How a session is confined.
pub fn sandbox(view: SandboxView) -> wire::SandboxInForce {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let (home, tmp, read, write) = match view.places {
        Some(places) => (Some(places.home), Some(places.tmp), places.read, places.write),
        None => (None, None, Vec::new(), Vec::new()),
    };
    wire::SandboxInForce {
        session_id: view.session_id.into(),
        sandbox: sandbox_name(view.sandbox),
        set_by: match view.set_by {
            SandboxSource::Node => wire::SandboxSource::Node,
            SandboxSource::Session => wire::SandboxSource::Session,
        },
        unavailable: view.unavailable,
        missing: view.missing.into_iter().map(str::to_owned).collect(),
        network: view.network.map(|network| match network {
            Network::None => wire::NetworkName::None,
            Network::Full => wire::NetworkName::Full,
        }),
        hosts: view.hosts.iter().map(ToString::to_string).collect(),
        home: home.map(text),
        tmp: tmp.map(text),
        read: read.into_iter().map(text).collect(),
        write: write.into_iter().map(text).collect(),
    }
}
