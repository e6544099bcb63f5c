//! Works in a session that may not exist yet.

use super::{Client, ClientError, Endpoint, parsed, whole};
use crate::config::{environment, keeps_projects};
use crate::failure::Failure;
use crate::{project, terminal};
use clap::{Args, ValueHint};
use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Map, json};
use shellkeep_protocol::{CreateSessionRequest, Session, SessionList};
use std::path::{Path, PathBuf};

/// How many letters may be wrong, swapped, missing or extra, by the number of letters: short names are similar to each
/// other without being typos.
const MOST_WRONG: [usize; 5] = [0, 0, 0, 1, 2];
/// Letters of a name, or of a word in it, from which on a wrong letter is more likely a typo than another name.
const LONG: usize = 4;
/// How many names are compared.
const COMPARED: usize = 1000;

/// How to create a session if it does not exist.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "New session")]
pub struct NewSession {
    /// Save the files of this directory, and start there [default: the project that the current directory is in]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    workspace: Option<PathBuf>,
    /// Start in the current directory, but do not save its files
    #[arg(long, conflicts_with = "workspace")]
    no_workspace: bool,
    /// Start in the session's own directory instead of the current one
    #[arg(long, conflicts_with_all = ["workspace", "no_workspace"])]
    own_directory: bool,
    /// Create the session even if its name is similar to another one
    #[arg(long)]
    create: bool,
    /// Do not tell which files it keeps
    #[arg(skip)]
    is_quiet: bool,
}

impl NewSession {
    /// The same for a command that prints JSON: which files the session keeps is not told beside it.
    pub fn beside_json(&self, json: bool) -> Self {
        Self { is_quiet: json, ..self.clone() }
    }
}

/// Which files a new session keeps.
pub enum Keeps {
    /// Those of this project.
    Project(String),
    /// None but those of its own directory: an agent may not choose.
    NotAllowed,
    /// None but those of its own directory: there is no project, or it holds the daemon's own data.
    Nothing,
    /// Those of its own directory, where it works: its room does not have the directory of the caller.
    OwnDirectory(String),
}

/// Why no files are kept, and what to do.
const NOT_ALLOWED: &str = "an agent's token may not choose which files are kept; ask the host to create the session";
const NO_PROJECT: &str =
    "it is not a project but a directory for many things; start in a project, or use --workspace DIR";

impl Client {
    /// Does something in a session, and creates the session first if it does not exist.
    pub async fn in_session<T>(
        &mut self,
        session: &str,
        new: &NewSession,
        act: impl AsyncFn(&mut Self) -> Result<T, ClientError>,
    ) -> Result<T, Failure> {
        if let Some(workspace) = &new.workspace {
            check_workspace(self, session, workspace).await?;
        }
        let refused = match act(self).await {
            Err(ClientError::Refused(refused)) if refused.problem.code == "session_not_found" => refused,
            done => return Ok(done?),
        };
        if let Some(close) = refused.meant().filter(|_| !new.create) {
            ask_first(session, close, self.flags())?;
        }
        self.make_session(session, new).await?;
        Ok(act(self).await?)
    }

    /// The session whose name is close to one that is not there.
    pub async fn closest_session(&mut self, missing: &str) -> Option<String> {
        let path = format!("/v1/sessions?limit={COMPARED}");
        let response = self.exchange(Method::GET, &path, "application/json", Bytes::new()).await.ok()?.ok()?;
        let list: SessionList = parsed(&whole(response).await.ok()?).ok()?;
        closest(missing, list.sessions.iter().map(|found| found.session_id.as_str())).map(str::to_owned)
    }

    async fn make_session(&mut self, session: &str, new: &NewSession) -> Result<(), Failure> {
        let here = std::env::current_dir().ok();
        let text = |path: PathBuf| path.into_os_string().into_string().ok();
        let mut create =
            CreateSessionRequest { session_id: Some(session.to_owned()), ..CreateSessionRequest::default() };
        if let Some(workspace) = &new.workspace {
            create.config = Some(workspace_config(&crate::cli::directory("--workspace", workspace)?));
        } else if !new.own_directory {
            create.cwd = here.and_then(text);
        }
        let wants_project = create.cwd.is_some() && !new.no_workspace && keeps_projects_of(&self.endpoint);
        let project = if wants_project { self.project() } else { None };
        let is_project = project.is_some();
        match self.create_in(project, &create).await? {
            Keeps::OwnDirectory(directory) => tell_elsewhere(session, &create, &directory),
            _ if new.is_quiet => {}
            Keeps::Project(project) => tell(session, &project, self.flags()),
            Keeps::NotAllowed => tell_nothing_kept(session, &create, NOT_ALLOWED),
            Keeps::Nothing if wants_project && !is_project => tell_nothing_kept(session, &create, NO_PROJECT),
            Keeps::Nothing => {}
        }
        Ok(())
    }

    /// The project that the current directory is in, if the daemon is on this machine and the configuration allows it.
    pub fn project(&self) -> Option<String> {
        let here = std::env::current_dir().ok().filter(|_| keeps_projects_of(&self.endpoint))?;
        project::of(&here, &environment)?.into_os_string().into_string().ok()
    }

    /// Creates a session that saves the files of a project, if it can. One whose room does not have the directory that the
    /// caller happens to be in starts in its own.
    pub async fn create_in(
        &mut self,
        project: Option<String>,
        create: &CreateSessionRequest,
    ) -> Result<Keeps, ClientError> {
        let mut keeps = Keeps::Nothing;
        if let Some(project) = project {
            let with_project = CreateSessionRequest { config: Some(workspace_config(&project)), ..create.clone() };
            match self.post::<_, Session>("/v1/sessions", &with_project).await {
                Ok(_) => return Ok(Keeps::Project(project)),
                Err(ClientError::Refused(refused)) if refused.problem.code == "not_allowed" => {
                    keeps = Keeps::NotAllowed
                }
                Err(ClientError::Refused(refused)) if refused.problem.code == "bad_workspace" => {}
                Err(error) => return Err(error),
            }
        }
        match self.post::<_, Session>("/v1/sessions", create).await {
            Err(ClientError::Refused(refused)) if refused.problem.code == "cwd_not_in_room" => {
                let create = CreateSessionRequest { cwd: None, ..create.clone() };
                let session: Session = self.post("/v1/sessions", &create).await?;
                Ok(Keeps::OwnDirectory(session.workspace))
            }
            made => made.map(|_| keeps),
        }
    }
}

/// Whether the files of projects are kept, if the daemon is on this machine.
fn keeps_projects_of(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Unix { .. }) && keeps_projects(&environment)
}

/// Rejects a workspace that differs from that of an existing session.
async fn check_workspace(client: &mut Client, session: &str, wanted: &Path) -> Result<(), Failure> {
    match client.get::<Session>(&format!("/v1/sessions/{session}")).await {
        Ok(found) => other_workspace(&found, wanted, client.flags()).map_or(Ok(()), Err),
        Err(ClientError::Refused(refused)) if refused.problem.code == "session_not_found" => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn workspace_config(path: &str) -> Map<String, serde_json::Value> {
    Map::from_iter([("workspace".to_owned(), json!(path))])
}

fn tell(session: &str, project: &str, flags: &str) {
    terminal::hint(&format!(
        "session '{session}' keeps the files of {project}: see `shellkeep checkpoints {session}{flags}`; --no-workspace \
         turns this off"
    ));
}

/// Asks a person who may have mistyped the name of a session. A script cannot be asked: a name that is most likely
/// mistyped is refused, and of another its log says what happened.
fn ask_first(session: &str, close: &str, flags: &str) -> Result<(), Failure> {
    if !terminal::can_ask() {
        if is_mistyped(session, close) {
            return Err(Failure::client(format!(
                "there is no session '{session}'; did you mean '{close}'? Nothing was run; use `-s {close}`, or pass \
                 --create to create '{session}'"
            )));
        }
        similar_exists(session, close, flags);
        return Ok(());
    }
    let question = format!("there is no session '{session}', but there is '{close}'. Create '{session}'?");
    if terminal::confirmed(&question)? {
        return Ok(());
    }
    Err(Failure::client(format!("nothing was run; use `-s {close}`, or --create to create '{session}'")))
}

/// Says that a new session has nearly the name of another.
pub fn similar_exists(session: &str, close: &str, flags: &str) {
    terminal::notice(&format!(
        "session '{session}' is new; did you mean '{close}'? If so, remove the new one with `shellkeep sessions rm \
         {session}{flags}`"
    ));
}

fn tell_nothing_kept(session: &str, create: &CreateSessionRequest, why: &str) {
    let here = create.cwd.as_deref().unwrap_or_default();
    terminal::hint(&format!(
        "session '{session}' works in {here}, but keeps no files there, so undo cannot restore them: {why}"
    ));
}

/// Says where a session works that cannot be where its caller is.
pub fn tell_elsewhere(session: &str, create: &CreateSessionRequest, directory: &str) {
    let here = create.cwd.as_deref().unwrap_or_default();
    terminal::notice(&format!(
        "session '{session}' works in its own directory, {directory}: it is in a room, which does not have {here}; to let \
         it work there, ask the host to create the session with --workspace"
    ));
}

/// Why an existing session cannot have this workspace; `None` if it already has it.
pub fn other_workspace(session: &Session, wanted: &Path, flags: &str) -> Option<Failure> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if real(Path::new(&session.workspace)) == real(wanted) {
        return None;
    }
    let Session { session_id: name, workspace, .. } = session;
    Some(Failure::client(format!(
        "session '{name}' exists and keeps the files of {workspace}; a session's workspace cannot be changed. Leave out \
         --workspace, choose another name, or remove the session with `shellkeep sessions rm {name}{flags}`"
    )))
}

/// The name that the user may have meant.
fn closest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // Names that differ only in their numbers differ on purpose.
    let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let meant = letters(wanted);
    let most_wrong = MOST_WRONG[meant.chars().count().min(MOST_WRONG.len() - 1)];
    let others = names.filter(|name| *name != wanted && letters(name) != meant);
    let rated = others.map(|name| (strsim::osa_distance(wanted, name), name));
    rated.filter(|(wrong, _)| *wrong <= most_wrong).min().map(|(_, name)| name)
}

/// Whether one letter is wrong, missing or extra, or two are swapped, in a name that is otherwise the other. Names that
/// differ in their last letter, such as `test-a` and `test-b`, differ on purpose, and so do names that differ in a short
/// word, such as `job-a-1` and `job-b-1`.
fn is_mistyped(session: &str, close: &str) -> bool {
    let common = session.chars().zip(close.chars()).take_while(|(one, other)| one == other).count();
    let longest = session.chars().count().max(close.chars().count());
    let is_typed = longest >= LONG && common + 1 < longest && !differ_in_short_word(session, close);
    is_typed && strsim::osa_distance(session, close) == 1
}

fn differ_in_short_word(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    let is_short = |(one, other): (&&str, &&str)| one != other && one.len().max(other.len()) < LONG;
    one.len() == other.len() && one.iter().zip(&other).any(is_short)
}

/// The letters of a name, without what separates them: digits, dashes, dots.
fn words(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_refused_only_what_is_most_likely_mistyped() {
        for (session, close) in
            [("dmeo", "demo"), ("deno", "demo"), ("emo", "demo"), ("build--1", "build-1"), ("biuld-1", "build-1")]
        {
            assert!(is_mistyped(session, close), "{session}");
        }
        for (session, close) in [
            ("demos", "demo"),
            ("test-a", "test-b"),
            ("anm", "ann"),
            ("blue", "clues"),
            ("job-a-1", "job-b-1"),
            ("cat1", "bat1"),
            ("run-ann-7", "run-anm-7"),
        ] {
            assert!(!is_mistyped(session, close), "{session}");
        }
    }

    #[test]
    fn a_mistyped_name_is_recognised_and_a_new_one_is_not() {
        let names = ["demo", "build-1", "notes", "ann", "p1"];
        for (wanted, meant) in [
            ("dmeo", Some("demo")),
            ("demos", Some("demo")),
            ("biuld-1", Some("build-1")),
            ("build-2", None),
            ("build-17", None),
            ("release", None),
            ("anm", Some("ann")),
            ("nan", Some("ann")),
            ("amm", None),
            ("a", None),
            ("q1", None),
            ("pa", None),
            ("demo", None),
        ] {
            assert_eq!(closest(wanted, names.into_iter()), meant, "{wanted}");
        }
    }
}
