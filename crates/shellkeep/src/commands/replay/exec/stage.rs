//! The session in which a recording is replayed: new, created like the recorded one, with the files that it started
//! with.

use super::even::replaced;
use crate::client::{Client, ClientError, escaped};
use crate::commands::replay::source::Events;
use crate::commands::replay::target::Target;
use crate::failure::Failure;
use crate::terminal;
use serde::Deserialize;
use serde_json::{Map, Value};
use shellkeep_protocol::{
    Checkpoint, CheckpointCause, CheckpointList, CreateSessionRequest, ForkRequest, ForkResponse, Place, SandboxName,
    Session,
};
use shellkeep_record::player::{EventSource as _, Wanted};
use shellkeep_session::{ByteString, SessionId, ShellState};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// What a session was created with: the same fields in `config_snapshot.json` and in its first event.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    session_id: Option<String>,
    agent_config: Value,
    workspace: ByteString,
    shell: ShellState,
    /// What its commands are confined by here.
    #[serde(skip)]
    sandbox: Option<SandboxName>,
    /// Whether anybody may have written it.
    #[serde(skip)]
    is_file: bool,
}

/// The bits of a mode that `chmod` sets.
const MODE_BITS: u32 = 0o7777;
/// The mode of a session's own workspace.
const OWN_MODE: u32 = 0o700;

/// Fields of the configuration that are not copied, because they would give the new session an agent or another
/// workspace.
const NOT_TAKEN: [&str; 2] = ["workspace", "agent"];

impl Snapshot {
    /// The snapshot of what is replayed.
    pub async fn read(target: &Target, events: &mut Events, client: &mut Client) -> Result<Self, Failure> {
        match target {
            Target::Session(session) => {
                let told: Self = client.get(&format!("/v1/sessions/{session}/config_snapshot")).await?;
                Ok(Self { sandbox: Some(sandbox_of(session, client).await), ..told })
            }
            Target::Path(path) => Self::of_file(path, events),
        }
    }

    /// That of a session's directory, or of an export, which has its first event.
    fn of_file(path: &Path, events: &mut Events) -> Result<Self, Failure> {
        let page = events.page(0, 1, &Wanted::of_type("session_created"), false).map_err(Failure::client)?;
        let first = page.lines.into_iter().next().map(|line| line.data);
        let sandbox = sandbox_of_file(first.as_ref());
        let told: Self = match (fs::read(path.join(shellkeep_record::CONFIG_SNAPSHOT)), first) {
            (Ok(bytes), _) => serde_json::from_slice(&bytes).map_err(Failure::client)?,
            (Err(_), Some(first)) => {
                serde_json::from_value(first).map_err(|error| Failure::client(format!("its beginning: {error}")))?
            }
            (Err(_), None) => return Err(Failure::client("the recording has no first event")),
        };
        Ok(Self { sandbox: Some(sandbox), is_file: true, ..told })
    }

    /// The directory in which the session worked: its own workspace, or the one it was created in.
    pub fn root(&self) -> String {
        let (cwd, workspace) = (self.shell.cwd.to_text(), self.workspace.to_text());
        if Path::new(&*cwd).starts_with(&*workspace) { workspace.into_owned() } else { cwd.into_owned() }
    }

    /// The session's name, if it is known.
    pub fn name(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Where the shell started, relative to the root.
    fn start(&self) -> PathBuf {
        let cwd = self.shell.cwd.to_text();
        Path::new(&*cwd).strip_prefix(self.root()).map(Path::to_owned).unwrap_or_default()
    }

    /// A name with the length of the recorded session's, if that is long enough: paths inside programs then keep their
    /// lengths, and the files can be compared.
    fn new_name(&self, recorded: &str) -> String {
        let random = Uuid::new_v4().simple().to_string();
        let name = format!("replay-{random}");
        let length = if recorded.len() >= 12 { recorded.len().min(name.len()) } else { 19 };
        name[..length].to_owned()
    }

    fn request(&self, name: String, old: &str, new: Option<&str>) -> CreateSessionRequest {
        let moved = |value: String| match new.and_then(|new| replaced(value.as_bytes(), old.as_bytes(), new.as_bytes()))
        {
            Some(moved) => String::from_utf8_lossy(&moved).into_owned(),
            None => value,
        };
        let usable = |name: &str| {
            !name.is_empty()
                && name.bytes().enumerate().all(|(place, byte)| {
                    byte == b'_' || byte.is_ascii_alphabetic() || (place > 0 && byte.is_ascii_digit())
                })
        };
        let env: BTreeMap<String, String> = self
            .shell
            .environment()
            .into_iter()
            .filter(|(name, _)| usable(name))
            .map(|(name, value)| (name, moved(value)))
            .collect();
        let config = match &self.agent_config {
            Value::Object(map) => map
                .iter()
                .filter(|(name, _)| !NOT_TAKEN.contains(&name.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            _ => Map::new(),
        };
        CreateSessionRequest {
            session_id: Some(name),
            env: Some(env),
            config: Some(config),
            sandbox: self.sandbox.filter(|sandbox| *sandbox != SandboxName::None),
            ..CreateSessionRequest::default()
        }
    }
}

/// What the commands of a session are confined by: they must not be by less when the host runs them. Of a deleted one it is not
/// told.
async fn sandbox_of(session: &SessionId, client: &mut Client) -> SandboxName {
    let told = client.get::<Session>(&format!("/v1/sessions/{session}")).await;
    told.ok().and_then(|session| session.sandbox).unwrap_or(SandboxName::Fence)
}

/// The same for a recording in a file, from its first event. Whoever had the file may have changed that, so it is a fence at least.
fn sandbox_of_file(first: Option<&Value>) -> SandboxName {
    match first.and_then(|data| data.get("sandbox")).and_then(Value::as_str) {
        Some("room") => SandboxName::Room,
        _ => SandboxName::Fence,
    }
}

/// Creates the session. Where there is no fence, the commands of a file are confined by what there is.
async fn create(mut request: CreateSessionRequest, is_file: bool, client: &mut Client) -> Result<Session, ClientError> {
    let looser: &[Option<SandboxName>] =
        if is_file && request.sandbox == Some(SandboxName::Fence) { &[Some(SandboxName::User), None] } else { &[] };
    for next in looser {
        match client.post::<_, Session>("/v1/sessions", &request).await {
            Err(ClientError::Refused(refused)) if refused.problem.code == "sandbox_unavailable" => {
                request.sandbox = *next;
            }
            made => return made,
        }
    }
    if is_file && request.sandbox.is_none() {
        terminal::notice(
            "this machine has no fence: the commands of the file run in the sandbox that the daemon gives to your own sessions",
        );
    }
    client.post("/v1/sessions", &request).await
}

/// The files that a replay starts with.
pub enum Start {
    /// A copy of this directory.
    Directory(PathBuf),
    /// Those that a session started with, as this checkpoint has them.
    Saved { session: String, checkpoint: String },
    /// None: nothing was there, or nothing was saved.
    Nothing,
}

impl Start {
    /// The files that were there before the record `first`, if they were saved: `from` if it is given.
    pub async fn find(target: &Target, from: Option<PathBuf>, first: u64, client: &mut Client) -> Self {
        if let Some(from) = from {
            return Self::Directory(from);
        }
        let Target::Session(session) = target else { return Self::Nothing };
        // A session without checkpoints is replayed as it always was, from an empty directory.
        let list = client.get::<CheckpointList>(&format!("/v1/sessions/{session}/checkpoints?limit=1")).await;
        let saved = list.ok().and_then(|list| list.checkpoints.into_iter().next());
        match saved.filter(|saved| is_beginning(saved, first)) {
            Some(saved) => Self::Saved { session: session.to_string(), checkpoint: saved.checkpoint_id },
            None => Self::Nothing,
        }
    }
}

/// Whether a checkpoint has the files as they were before the record `first`, and there were some.
fn is_beginning(checkpoint: &Checkpoint, first: u64) -> bool {
    let has_files = match checkpoint.cause {
        CheckpointCause::Base => checkpoint.added > 0,
        // It is compared with the checkpoint that was forked, so its numbers say nothing.
        CheckpointCause::Fork => true,
        _ => false,
    };
    has_files && checkpoint.kept && !checkpoint.overtaken && checkpoint.covers < first
}

pub struct Stage {
    pub session: String,
    /// The directory of the recorded session.
    pub old_root: String,
    /// The directory of the new one.
    pub new_root: String,
    /// Whether it started with the saved files of the recorded session.
    pub has_saved_files: bool,
}

impl Stage {
    /// Creates the session with its files.
    pub async fn set(snapshot: &Snapshot, recorded: &str, start: &Start, client: &mut Client) -> Result<Self, Failure> {
        let name = snapshot.new_name(recorded);
        let old_root = snapshot.root();
        if let Start::Saved { session, checkpoint } = start
            && let Some(session) = forked(client, session, checkpoint, &name).await
        {
            // A fork starts in the directory in which the session started.
            let Session { session_id, workspace, .. } = session;
            return Ok(Self { session: session_id, old_root, new_root: workspace, has_saved_files: true });
        }
        // Workspaces of one daemon are siblings, so the path of the new one is known in advance.
        let workspace = snapshot.workspace.to_text().into_owned();
        let guess = Path::new(&workspace).parent().map(|parent| parent.join(&name).display().to_string());
        let request = snapshot.request(name, &old_root, guess.as_deref());
        let Session { session_id, workspace, .. } = create(request, snapshot.is_file, client).await?;
        let stage = Self { session: session_id, old_root, new_root: workspace, has_saved_files: false };
        let prepared = stage.prepare(snapshot, start, client).await;
        match prepared {
            Ok(()) => Ok(stage),
            Err(failure) => {
                stage.clear(client).await;
                Err(failure)
            }
        }
    }

    async fn prepare(&self, snapshot: &Snapshot, start: &Start, client: &mut Client) -> Result<(), Failure> {
        let root = Path::new(&self.new_root);
        if let Start::Directory(from) = start {
            if !root.parent().is_some_and(Path::is_dir) {
                return Err(Failure::client("--from: the daemon's workspaces are not on this machine"));
            }
            copy(from, root).map_err(|error| Failure::client(format!("--from: {error}")))?;
        }
        // `ls -la` shows the mode of the directory itself.
        let mut words: Vec<String> =
            mode_of(&self.old_root).map(|mode| format!("chmod {mode:o} .")).into_iter().collect();
        let start = snapshot.start();
        if start != Path::new("") {
            let quoted = start.display().to_string().replace('\'', r"'\''");
            words.push(format!("mkdir -p -- '{quoted}' && cd -- '{quoted}'"));
        }
        if !words.is_empty() {
            let request = serde_json::json!({"command": words.join("; ")});
            client.post::<_, Value>(&format!("/v1/sessions/{}/run", self.session), &request).await?;
        }
        Ok(())
    }

    /// Removes the session and its files.
    pub async fn clear(&self, client: &mut Client) {
        // A session that cannot be deleted can be found by its name.
        let _ = client.delete::<()>(&format!("/v1/sessions/{}", escaped(&self.session))).await;
    }

    /// A recorded command as it is run here.
    pub fn here(&self, command: &str) -> String {
        if self.old_root.len() <= 1 {
            return command.to_owned();
        }
        command.replace(&self.old_root, &self.new_root)
    }
}

/// The mode of the directory in which the recorded session worked, as it is now, if a new workspace has another one.
fn mode_of(root: &str) -> Option<u32> {
    let mode = fs::metadata(root).ok().filter(fs::Metadata::is_dir)?.permissions().mode() & MODE_BITS;
    (mode != OWN_MODE).then_some(mode)
}

/// A fork of the session at a checkpoint; `None` if it cannot be forked there, for example because it worked outside its
/// workspace.
async fn forked(client: &mut Client, session: &str, checkpoint: &str, name: &str) -> Option<Session> {
    let request = ForkRequest {
        at: Some(Place::from(checkpoint)),
        session_id: Some(name.to_owned()),
        user_id: None,
        share_files: None,
    };
    let forked = client.post::<_, ForkResponse>(&format!("/v1/sessions/{session}/fork"), &request).await;
    forked.ok().map(|forked| forked.session)
}

/// Copies a directory's contents: files with their permissions and times, links as links.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        let here = from.join(&directory);
        let entries = fs::read_dir(&here).map_err(|error| named(&here, &error))?;
        for entry in entries {
            let path = directory.join(entry?.file_name());
            let (source, target) = (from.join(&path), to.join(&path));
            let metadata = source.symlink_metadata()?;
            let done = if metadata.is_dir() {
                open.push(path);
                fs::create_dir_all(&target).and_then(|()| fs::set_permissions(&target, metadata.permissions()))
            } else if metadata.is_symlink() {
                symlink(fs::read_link(&source)?, &target)
            } else if metadata.is_file() {
                // Times are kept for `make`.
                fs::copy(&source, &target).and_then(|_| {
                    let times = fs::FileTimes::new().set_modified(metadata.modified()?);
                    fs::File::options().append(true).open(&target).and_then(|file| file.set_times(times))
                })
            } else {
                // A pipe or a socket is useless without its process.
                Ok(())
            };
            done.map_err(|error| named(&source, &error))?;
        }
    }
    Ok(())
}

fn named(path: &Path, error: &std::io::Error) -> std::io::Error {
    std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The name of the recorded session, as used in its workspace's path.
pub fn recorded_name(target: &Target, snapshot: &Snapshot, events: &Events) -> String {
    match target {
        Target::Session(session) => SessionId::as_str(session).to_owned(),
        Target::Path(_) => {
            let workspace = snapshot.workspace.to_text();
            let last = Path::new(&*workspace).file_name().map(|name| name.to_string_lossy().into_owned());
            snapshot.name().map(str::to_owned).or(last).unwrap_or_else(|| events.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(workspace: &str, cwd: &str) -> Snapshot {
        let shell = ShellState { cwd: cwd.into(), ..ShellState::default() };
        Snapshot { workspace: workspace.into(), shell, ..Snapshot::default() }
    }

    #[test]
    fn where_a_session_worked_is_known() {
        let own = snapshot("/d/workspaces/a", "/d/workspaces/a");
        assert_eq!((own.root().as_str(), own.start()), ("/d/workspaces/a", PathBuf::new()));
        let below = snapshot("/d/workspaces/a", "/d/workspaces/a/src/x");
        assert_eq!((below.root().as_str(), below.start()), ("/d/workspaces/a", PathBuf::from("src/x")));
        let elsewhere = snapshot("/d/workspaces/a", "/home/me/project");
        assert_eq!((elsewhere.root().as_str(), elsewhere.start()), ("/home/me/project", PathBuf::new()));
        let neighbour = snapshot("/d/workspaces/a", "/d/workspaces/ab");
        assert_eq!(neighbour.root(), "/d/workspaces/ab");
    }

    #[test]
    fn the_commands_of_a_file_are_behind_a_fence_at_least() {
        for (told, expected) in [
            (r#"{}"#, SandboxName::Fence),
            (r#"{"sandbox": "none"}"#, SandboxName::Fence),
            (r#"{"sandbox": "user"}"#, SandboxName::Fence),
            (r#"{"sandbox": 7}"#, SandboxName::Fence),
            (r#"{"sandbox": "room"}"#, SandboxName::Room),
        ] {
            assert_eq!(sandbox_of_file(Some(&serde_json::from_str(told).unwrap())), expected, "{told}");
        }
        assert_eq!(sandbox_of_file(None), SandboxName::Fence);
    }

    #[test]
    fn a_new_name_is_as_long_as_the_old_one_where_it_can_be() {
        let any = Snapshot::default();
        assert_eq!(any.new_name("build-project-1").len(), "build-project-1".len());
        assert_eq!(any.new_name("a").len(), 19);
        assert_eq!(any.new_name(&"x".repeat(128)).len(), 39);
        assert_ne!(any.new_name("build-project-1"), any.new_name("build-project-1"));
    }

    #[test]
    fn files_are_copied_as_they_are() {
        let home = tempfile::tempdir().unwrap();
        let (from, to) = (home.path().join("from"), home.path().join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::write(from.join("bin/run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.join("bin/run"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("bin/run", from.join("link")).unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("link")).unwrap(), b"#!/bin/sh\n");
        let (old, new) = (fs::metadata(from.join("bin/run")).unwrap(), fs::metadata(to.join("bin/run")).unwrap());
        assert_eq!(new.permissions().mode() & 0o777, 0o755);
        assert_eq!(old.modified().unwrap(), new.modified().unwrap());
        assert!(copy(&home.path().join("nowhere"), &to).is_err());
    }
}
