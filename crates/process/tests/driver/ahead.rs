//! A shell that was prepared before its session was known is like one that was not, as far as a command can see, and is given
//! to no session with another sandbox.

use super::zygote::{PROBES, answer, has_groups};
use super::{Fixture, run};
use shellkeep_process::*;
use std::path::PathBuf;
use std::sync::Arc;

/// What a command can find out about its sandbox, besides.
const SANDBOX_PROBES: &[&str] = &[
    "grep -E '^(Seccomp|Seccomp_filters|NoNewPrivs|Cap|NSpid)' /proc/$$/status",
    "cut -d ' ' -f 5- /proc/self/mountinfo | sed 's/ - / /; s/master:[0-9]* //' | sort",
    "ls -la / /dev /proc/1/ns | sed 's/:\\[.*//; s/^\\(..........\\) *[0-9]* /\\1 /; s/ [A-Z][a-z][a-z] [ 0-9].*:[0-9][0-9] / /'; set -- /proc/[0-9]*; [ $PPID != 0 ] || echo $#",
    "pwd -P; echo $PWD; cd /; pwd; ls",
    "touch /x; mkdir /tmp/x && touch /tmp/x/y && ls -R /tmp; df /tmp | wc -l; : > /dev/null; ls /dev/shm; unshare -Ur true",
];

/// The directories of a session, and a fence for it.
struct Place {
    directory: tempfile::TempDir,
    fence: Fence,
}

impl Place {
    fn new() -> Self {
        // Not below /tmp, which a room has its own of.
        let above = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).canonicalize().unwrap();
        let directory = tempfile::tempdir_in(above).unwrap();
        for name in ["data", "root", "workspace", "home", "tmp", "rescue"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let fence = Fence::new(&FenceSpec { data: directory.path().join("data"), ..FenceSpec::default() }).unwrap();
        Self { directory, fence }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn confinement(&self, room: Option<Arc<Namespaces>>) -> Confinement {
        let paths = ["workspace", "home", "tmp", "rescue"].map(|name| self.at(name));
        let [workspace, home, tmp, rescue] = &paths;
        let own = Own { workspace, home, tmp, rescue };
        match room {
            None => self.fence.around(own).unwrap(),
            Some(room) => self.fence.room(own, RoomSpec { root: &self.at("root"), resolver: None }, room).unwrap(),
        }
    }

    fn preparation(&self, room: Option<Arc<Namespaces>>) -> Preparation {
        match room {
            None => self.fence.ahead(),
            Some(room) => self.fence.room_ahead(&self.at("root"), room),
        }
    }

    async fn restore(&self, shell: &mut LiveShell, room: Option<Arc<Namespaces>>) -> std::io::Result<()> {
        let restored = shell.restore_confined(self.confinement(room), &self.at("rescue"), &[]).await;
        restored.map(|problems| assert_eq!(problems, []))
    }
}

fn namespaces() -> Arc<Namespaces> {
    Arc::new(Namespaces::new(RoomNetwork::Own).unwrap())
}

/// A shell that is no session yet.
async fn bare(fixture: &Fixture) -> LiveShell {
    let name = fixture.next_name();
    fixture.zygote.shell(fixture.scratch.path().join(&name), fixture.factory.cage(&name)).await.unwrap()
}

#[tokio::test]
async fn a_prepared_shell_looks_like_one_that_was_not() {
    let fixture = Fixture::new();
    if !has_groups(&fixture) {
        return;
    }
    for is_room in [false, true] {
        for probe in PROBES.iter().chain(SANDBOX_PROBES) {
            // Each of them leaves files.
            let (place, other) = (Place::new(), Place::new());
            let [room, other_room] = [namespaces(), namespaces()].map(|room| is_room.then_some(room));
            let (mut prepared, mut not) = (bare(&fixture).await, bare(&fixture).await);
            prepared.confine_ahead(place.preparation(room.clone())).await.unwrap();
            place.restore(&mut prepared, room).await.unwrap();
            other.restore(&mut not, other_room).await.unwrap();
            let neutral = |text: String, place: &Place| text.replace(place.directory.path().to_str().unwrap(), "PLACE");
            let ahead = neutral(answer(&mut prepared, probe).await, &place);
            assert_eq!(ahead, neutral(answer(&mut not, probe).await, &other), "room: {is_room}: {probe}");
        }
    }
}

#[tokio::test]
async fn a_prepared_shell_is_for_no_other_sandbox() {
    let (fixture, place) = (Fixture::new(), Place::new());
    let room = namespaces();
    for prepared_for in [None, Some(&room)] {
        let other_room = namespaces();
        for becomes in [None, Some(&room), Some(&other_room)] {
            let mut shell = bare(&fixture).await;
            shell.confine_ahead(place.preparation(prepared_for.cloned())).await.unwrap();
            let is_same = prepared_for.map(Arc::as_ptr) == becomes.map(Arc::as_ptr);
            let restored = place.restore(&mut shell, becomes.cloned()).await;
            match restored {
                Ok(()) => assert!(is_same && run(&mut shell, "true").await.report().status == 0),
                Err(error) => assert!(!is_same && error.to_string().contains("another sandbox"), "{error}"),
            }
        }
        let mut shell = bare(&fixture).await;
        shell.confine_ahead(place.preparation(prepared_for.cloned())).await.unwrap();
        let error = shell.restore(&[]).await.unwrap_err();
        assert!(error.to_string().contains("another sandbox"), "{error}");
    }
}

/// What cannot be brought in is named, as when the whole room is entered at once.
#[tokio::test]
async fn a_directory_that_is_gone_is_named() {
    let (fixture, place) = (Fixture::new(), Place::new());
    for is_prepared in [true, false] {
        let (room, mut shell) = (namespaces(), bare(&fixture).await);
        if is_prepared {
            shell.confine_ahead(place.preparation(Some(Arc::clone(&room)))).await.unwrap();
        }
        let confinement = place.confinement(Some(room));
        std::fs::remove_dir(place.at("home")).unwrap();
        let error = shell.restore_confined(confinement, &place.at("rescue"), &[]).await.unwrap_err();
        std::fs::create_dir(place.at("home")).unwrap();
        let expected = format!("an entry of its root directory ({})", place.at("home").display());
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
