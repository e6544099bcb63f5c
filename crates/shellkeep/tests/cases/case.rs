//! A case: steps in one session, and what each must answer. Every case runs twice, on a fresh session and on one that is
//! hibernated between its steps, because a session must not show whether its shell is still the same. Some
//! run in each sandbox too, and all with `SHELLKEEP_SOAK`.

use crate::support::{Daemon, Reply, bash, soak};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Steps in one session.
pub struct Case {
    pub name: String,
    pub steps: Vec<Step>,
    /// A word that the notice after a hibernation must hold, where something is lost by nature (a job, a descriptor).
    pub loses: Option<&'static str>,
}

/// A command and what is expected of it.
pub struct Step {
    request: Value,
    stdout: Text,
    stderr: Text,
    exit_code: Option<i64>,
    status: &'static str,
    notices: Notices,
    /// Another expectation for a session that was hibernated before this step.
    stdout_after_sleep: Option<String>,
    /// Another expectation in a sandbox.
    stdout_confined: Option<String>,
}

/// What a stream must hold.
enum Text {
    Is(Vec<u8>),
    Contains(String),
    /// The same as `bash -c` in an empty directory gives.
    LikeBash,
    Any,
}

enum Notices {
    None,
    /// At least one of these codes.
    OneOf(&'static [&'static str]),
    Any,
}

/// A case with a name.
pub fn case(name: impl Into<String>, steps: impl IntoIterator<Item = Step>) -> Case {
    Case { name: name.into(), steps: steps.into_iter().collect(), loses: None }
}

/// A command that is expected to succeed silently, until told otherwise.
pub fn step(command: impl Into<String>) -> Step {
    request(json!({"command": command.into()}))
}

/// The same with more fields.
pub fn request(request: Value) -> Step {
    Step {
        request,
        stdout: Text::Is(Vec::new()),
        stderr: Text::Is(Vec::new()),
        exit_code: Some(0),
        status: "exited",
        notices: Notices::None,
        stdout_after_sleep: None,
        stdout_confined: None,
    }
}

/// A command that must do as `bash -c` does: output, errors, status.
pub fn like_bash(command: impl Into<String>) -> Step {
    step(command).like_bash_does()
}

impl Case {
    /// Something small is lost with the shell (`$!`, `PIPESTATUS`); a notice is allowed and not asked for.
    pub fn may_say_so(self) -> Self {
        self.loses("")
    }

    pub fn loses(mut self, word: &'static str) -> Self {
        self.loses = Some(word);
        self
    }
}

impl Step {
    pub fn like_bash_does(mut self) -> Self {
        (self.stdout, self.stderr, self.exit_code) = (Text::LikeBash, Text::LikeBash, None);
        self
    }

    pub fn out(mut self, text: impl AsRef<[u8]>) -> Self {
        self.stdout = Text::Is(text.as_ref().to_vec());
        self
    }

    pub fn out_has(mut self, text: &str) -> Self {
        self.stdout = Text::Contains(text.to_owned());
        self
    }

    pub fn out_after_sleep(mut self, text: &str) -> Self {
        self.stdout_after_sleep = Some(text.to_owned());
        self
    }

    pub fn out_confined(mut self, text: &str) -> Self {
        self.stdout_confined = Some(text.to_owned());
        self
    }

    pub fn err(mut self, text: &str) -> Self {
        self.stderr = Text::Is(text.as_bytes().to_vec());
        self
    }

    pub fn err_has(mut self, text: &str) -> Self {
        self.stderr = Text::Contains(text.to_owned());
        self
    }

    pub fn any_out(mut self) -> Self {
        self.stdout = Text::Any;
        self
    }

    pub fn any_err(mut self) -> Self {
        self.stderr = Text::Any;
        self
    }

    pub fn code(mut self, code: i64) -> Self {
        self.exit_code = Some(code);
        self
    }

    pub fn any_code(mut self) -> Self {
        self.exit_code = None;
        self
    }

    pub fn status(mut self, status: &'static str) -> Self {
        self.status = status;
        self
    }

    pub fn notice(mut self, codes: &'static [&'static str]) -> Self {
        self.notices = Notices::OneOf(codes);
        self
    }

    pub fn any_notice(mut self) -> Self {
        self.notices = Notices::Any;
        self
    }

    fn command(&self) -> &str {
        self.request["command"].as_str().expect("a step has a command")
    }
}

/// One case of a table in so many runs in each sandbox.
const CONFINED_EVERY: usize = 10;

/// The sandboxes that a case of a table runs in.
fn sandboxes(index: usize) -> &'static [&'static str] {
    if soak() > 1 || index.is_multiple_of(CONFINED_EVERY) { &["none", "fence", "room"] } else { &["none"] }
}

/// Runs every case both ways and reports all that went wrong, not only the first.
pub fn check(cases: Vec<Case>) {
    let daemon = Daemon::start();
    let count = cases.len();
    assert!(count > 0, "a table without cases");
    let mut failures = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        for (sandbox, sleeps) in sandboxes(index).iter().flat_map(|sandbox| [(sandbox, false), (sandbox, true)]) {
            let way = if sleeps { "hibernated in between" } else { "on one shell" };
            for failure in run(&daemon, case, sandbox, sleeps) {
                failures.push(format!("{} ({sandbox}, {way}): {failure}", case.name));
            }
        }
    }
    let log = daemon.log();
    assert!(
        failures.is_empty(),
        "{} of {count} cases:\n{}\n\nthe daemon's log:\n{log}",
        failures.len(),
        failures.join("\n")
    );
}

fn run(daemon: &Daemon, case: &Case, sandbox: &str, sleeps: bool) -> Vec<String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let session = format!("case{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut created = json!({"session_id": session, "sandbox": sandbox});
    if sandbox == "none" {
        // A sandbox has only its workspace.
        let home = daemon.directory().join(&session);
        std::fs::create_dir(&home).expect("a directory for the case");
        created["cwd"] = json!(home);
    }
    daemon.create_with(created);
    let (mut failures, mut said) = (Vec::new(), String::new());
    for (index, step) in case.steps.iter().enumerate() {
        let slept = sleeps && index > 0;
        if slept {
            daemon.hibernate(&session);
        }
        let reply = daemon.run(&session, step.request.clone());
        said += &reply.notice_text().to_lowercase();
        let now = Now { is_confined: sandbox != "none", slept, loss: case.loses.is_some() && slept };
        for failure in step.compare(&reply, &now) {
            failures.push(format!("step {index} `{}`: {failure}", shorten(step.command())));
        }
    }
    if let Some(word) = case.loses.filter(|word| sleeps && !said.contains(word)) {
        failures.push(format!("no notice names the lost {word}: {said:?}"));
    }
    daemon.destroy(&session);
    failures
}

/// How a step was run.
struct Now {
    is_confined: bool,
    /// The session was hibernated before it.
    slept: bool,
    /// Something was lost by that.
    loss: bool,
}

impl Step {
    fn compare(&self, reply: &Reply, now: &Now) -> Vec<String> {
        let mut failures = Vec::new();
        let oracle = matches!(self.stdout, Text::LikeBash) || matches!(self.stderr, Text::LikeBash);
        let expected = oracle.then(|| {
            let home = tempfile::tempdir().expect("a directory for the oracle");
            // A sandbox gives its session a directory for temporary files.
            let variables = [("TMPDIR", home.path())];
            bash::run_with(self.command(), home.path(), if now.is_confined { &variables } else { &[] })
        });
        let stdout = match (&self.stdout_after_sleep, &self.stdout_confined) {
            (Some(text), _) if now.slept => Text::Is(text.as_bytes().to_vec()),
            (_, Some(text)) if now.is_confined => Text::Is(text.as_bytes().to_vec()),
            _ => self.stdout.resolve(expected.as_ref().map(|outcome| outcome.stdout.clone())),
        };
        let stderr = self.stderr.resolve(expected.as_ref().map(|outcome| outcome.stderr.clone()));
        failures.extend(stdout.mismatch("stdout", &reply.stdout()));
        failures.extend(stderr.mismatch("stderr", &reply.stderr()));
        let code = self.exit_code.or(expected.map(|outcome| outcome.exit_code));
        if code.is_some() && reply.exit_code() != code {
            failures.push(format!("exit code {:?}, expected {code:?}", reply.exit_code()));
        }
        if reply.status() != self.status {
            failures.push(format!("status {:?}, expected {:?}", reply.status(), self.status));
        }
        // After a loss by nature the notice is looked for once in the whole case, not in each step.
        if !now.loss && !self.notices.allow(&reply.notice_codes()) {
            failures.push(format!("notices {:?} {:?}", reply.notice_codes(), reply.notice_text()));
        }
        failures
    }
}

impl Notices {
    fn allow(&self, codes: &[&str]) -> bool {
        match self {
            Notices::None => codes.is_empty(),
            Notices::OneOf(wanted) => wanted.iter().any(|code| codes.contains(code)),
            Notices::Any => true,
        }
    }
}

impl Text {
    fn resolve(&self, oracle: Option<Vec<u8>>) -> Text {
        match self {
            Text::Is(bytes) => Text::Is(bytes.clone()),
            Text::Contains(text) => Text::Contains(text.clone()),
            Text::LikeBash => Text::Is(oracle.unwrap_or_default()),
            Text::Any => Text::Any,
        }
    }

    fn mismatch(&self, stream: &str, got: &[u8]) -> Option<String> {
        let shown = shorten(&String::from_utf8_lossy(got));
        match self {
            Text::Is(bytes) => {
                let wanted = shorten(&String::from_utf8_lossy(bytes));
                let same = bytes == got || bash::same_errors(bytes) == bash::same_errors(got);
                (!same).then(|| format!("{stream} {shown:?}, expected {wanted:?}"))
            }
            Text::Contains(text) => {
                let found = String::from_utf8_lossy(got).contains(text.as_str());
                (!found).then(|| format!("{stream} {shown:?} does not hold {text:?}"))
            }
            Text::LikeBash | Text::Any => None,
        }
    }
}

fn shorten(text: &str) -> String {
    const LIMIT: usize = 400;
    if text.chars().count() <= LIMIT {
        text.to_owned()
    } else {
        format!("{}…", text.chars().take(LIMIT).collect::<String>())
    }
}
