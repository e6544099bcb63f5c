//! `shellkeep attach`: a prompt in a session. Each line is a run with a terminal, so everything is kept, recorded and can
//! be undone.

mod ahead;
mod editor;
mod lease;
mod prompt;
mod watch;

use super::run::stops::Stop;
use super::run::turn::{Answered, Turn, Waited};
use super::runs::show::how_it_ended;
use crate::cli::DaemonArgs;
use crate::client::{self, Client, ClientError};
use crate::failure::Failure;
use crate::passthrough::{End, Keys, Role, ShownRun, our_size, write};
use crate::terminal;
use ahead::Ahead;
use clap::Args;
use editor::{Editor, Entered};
use lease::Lease;
use prompt::Prompt;
use shellkeep_protocol::{
    NoticeView, ReleaseResponse, RunBy, RunDetail, RunList, RunRequest, RunResponse, RunStatus, Session,
};
use shellkeep_session::SessionId;
use shellkeep_terminal::modes::Modes;
use std::process::ExitCode;
use std::time::Duration;
use watch::Watcher;

/// A command of a person may take as long as one may take at all.
const A_DAY: f64 = 86_400.0;
/// How long to try to reach a daemon that is gone.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the daemon may take to take the session back. One that is stuck must not keep a person who leaves, nor a signal.
const HANDED_BACK: Duration = Duration::from_secs(5);
/// The code of an error that says that somebody else holds the session.
const SESSION_HELD: &str = "session_held";
/// How many earlier commands the up arrow finds.
const RECALLED: usize = 200;

/// Arguments of `attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  shellkeep attach demo
  shellkeep attach demo --reason 'fix the merge'
  shellkeep attach demo --no-hold

Each line is a run of the session, with a terminal: editors, pagers and password prompts work, and `cd`, variables and
files are kept, recorded and can be undone. While you are attached the agent's commands wait; when you leave, its next
result says what you changed. The hold ends two minutes after this program is killed.

If someone else holds the session, you watch what they do; q leaves, and --force takes over.

Keys: Ctrl-D on an empty line, or `exit`, leaves. Ctrl-] leaves while a command runs; the command continues. Ctrl-C
interrupts the command. Ctrl-Z is not passed on.

Exit codes: 0; 1 if the session cannot be attached to; 128+n after signal n.")]
pub struct AttachArgs {
    /// The session
    session: String,
    /// Why you are taking over; shown to callers who wait
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Let the agent's commands run meanwhile
    #[arg(long)]
    no_hold: bool,
    /// End someone else's hold first
    #[arg(long, conflicts_with = "no_hold")]
    force: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub fn execute(args: AttachArgs) -> Result<ExitCode, Failure> {
    client::block_on(attach(args)).map(ExitCode::from)
}

async fn attach(args: AttachArgs) -> Result<u8, Failure> {
    SessionId::parse(&args.session).map_err(|error| Failure::client(format!("SESSION: {error}")))?;
    if !terminal::can_ask() || !terminal::is_terminal() {
        let (session, flags) = (&args.session, args.daemon.as_flags());
        return Err(Failure::client(format!(
            "attach needs a terminal; without one use `shellkeep run -s {session}{flags} -- COMMAND`"
        )));
    }
    let modes = Modes::keep().map_err(Failure::client)?;
    let mut client = Client::open(&args.daemon).await?;
    let session: Session = client.get(&format!("/v1/sessions/{}", args.session)).await?;
    let lease = match args.no_hold {
        true => None,
        false => match take(&mut client, &args).await {
            Err(ClientError::Refused(refused)) if refused.problem.code == SESSION_HELD => {
                terminal::notice(&format!("{refused}. You can watch; q leaves"));
                return Watcher { client, session: &args.session, modes: &modes }.watch().await;
            }
            taken => Some(taken?),
        },
    };
    let prompt = Prompt::new(&args.session, &session.cwd);
    let mut attached = Attached { prompt, args, client, modes, lease, ahead: Ahead::default() };
    attached.greet();
    let done = attached.serve().await;
    attached.leave().await;
    done
}

async fn take(client: &mut Client, args: &AttachArgs) -> Result<Lease, ClientError> {
    match Lease::take(client, &args.session, args.reason.as_deref()).await {
        Err(ClientError::Refused(refused)) if refused.problem.code == SESSION_HELD && args.force => {
            let _: ReleaseResponse = client.delete(&format!("/v1/sessions/{}/hold", args.session)).await?;
            Lease::take(client, &args.session, args.reason.as_deref()).await
        }
        lease => lease,
    }
}

/// What comes after a line.
enum Next {
    Prompt,
    Leave,
    Exit(u8),
}

/// A person in a session.
struct Attached {
    args: AttachArgs,
    client: Client,
    modes: Modes,
    lease: Option<Lease>,
    prompt: Prompt,
    /// What was typed while a command ran, for the next prompt.
    ahead: Ahead,
}

impl Attached {
    fn greet(&self) {
        let agent = match &self.lease {
            Some(lease) => match lease.running() {
                Some(running) => format!(
                    "{} is still running, and your commands wait until it ends: {}",
                    running.run_id,
                    terminal::harmless(&running.command)
                ),
                None => "the agent's commands wait until you leave".to_owned(),
            },
            None => "the agent's commands continue to run".to_owned(),
        };
        terminal::notice(&format!("attached to '{}'; {agent}. Ctrl-D leaves", self.args.session));
    }

    async fn serve(&mut self) -> Result<u8, Failure> {
        let mut editor = Editor::new(self.earlier().await).map_err(Failure::client)?;
        loop {
            let entered;
            (editor, entered) = self.enter(editor).await?;
            let line = match entered {
                Entered::Line(line) => line,
                Entered::Interrupted => continue,
                Entered::End => return Ok(0),
                Entered::Signalled(number) => return Ok(128 + number),
            };
            match line.trim() {
                "" => continue,
                "exit" | "logout" => return Ok(0),
                _ => {}
            }
            match self.run(line).await? {
                Next::Prompt => {}
                Next::Leave => return Ok(0),
                Next::Exit(code) => return Ok(code),
            }
        }
    }

    /// Reads the next line: one that was typed ahead, or one that is typed now.
    async fn enter(&mut self, mut editor: Editor) -> Result<(Editor, Entered), Failure> {
        match self.ahead.next_line() {
            Some(line) => {
                write(format!("{}{line}\r\n", self.prompt.text()).as_bytes());
                editor.remember(&line);
                Ok((editor, Entered::Line(line)))
            }
            None => editor.read(self.prompt.text(), self.ahead.take()).await.map_err(Failure::client),
        }
    }

    /// What was run here before, oldest first. Without it, the up arrow finds nothing.
    async fn earlier(&mut self) -> Vec<String> {
        let path = format!("/v1/sessions/{}/runs?limit={RECALLED}", self.args.session);
        let runs = self.client.get::<RunList>(&path).await.map(|list| list.runs).unwrap_or_default();
        runs.into_iter().rev().map(|run| run.command).filter(|command| !command.contains('\n')).collect()
    }

    async fn run(&mut self, command: String) -> Result<Next, Failure> {
        self.refresh().await?;
        let request = RunRequest {
            command,
            timeout: Some(A_DAY),
            max_output: Some(0),
            request_id: Some(uuid::Uuid::new_v4().to_string()),
            tty: Some(true),
            tty_size: our_size(),
            hold: self.lease.as_ref().map(|lease| lease.hold_id().to_owned()),
            by: Some(RunBy::Person),
            ..RunRequest::default()
        };
        let turn = Turn {
            endpoint: self.client.endpoint().clone(),
            session: self.args.session.clone(),
            request_id: request.request_id.clone().unwrap_or_default(),
            hold: request.hold.clone(),
        };
        let path = format!("/v1/sessions/{}/run", self.args.session);
        let keys = Keys::of_terminal()?;
        let asked = async { Ok(self.client.post_events(&path, &request).await) };
        let events = match turn.wait(asked).await? {
            Waited::Left(Stop::Interrupt) => return Ok(Next::Prompt),
            Waited::Left(stop) => return Ok(Next::Exit(stop.code())),
            Waited::Answered(Answered { stopped: Some(stop), .. }) if stop != Stop::Interrupt => {
                return Ok(Next::Exit(stop.code()));
            }
            Waited::Answered(Answered { answer: Ok(events), .. }) => events,
            Waited::Answered(Answered { answer: Err(ClientError::Broken(_)), .. }) => {
                self.reconnect(None).await?;
                terminal::notice("that command was not run, or its outcome is unknown; look before you repeat it");
                return Ok(Next::Prompt);
            }
            Waited::Answered(Answered { answer: Err(refused), .. }) => return self.refused(refused).await,
        };
        let endpoint = self.client.endpoint().clone();
        let role = Role::Drives { hold: request.hold };
        let shown = ShownRun { endpoint: &endpoint, session: &self.args.session, modes: &self.modes, role };
        match shown.drive(&keys, events).await? {
            End::Result { result, unsent } => {
                self.ahead.add(result.unread_input.as_deref().unwrap_or_default().as_bytes());
                self.ahead.add(&unsent);
                self.finished(&result);
            }
            End::Signalled(number) => return Ok(Next::Exit(128 + number)),
            End::Broken { run_id } => self.reconnect(run_id.as_deref()).await?,
            End::Left { run_id } => {
                terminal::notice(&format!(
                    "{run_id} continues: `shellkeep runs output {} {run_id} -f{}` follows it",
                    self.args.session,
                    self.args.daemon.as_flags()
                ));
                return Ok(Next::Leave);
            }
        }
        Ok(Next::Prompt)
    }

    fn finished(&mut self, result: &RunResponse) {
        self.prompt.after(result);
        for NoticeView { message, .. } in &result.notices {
            terminal::notice(message);
        }
    }

    /// The daemon did not run a command. If our hold is over, we say so once and take it again.
    async fn refused(&mut self, refused: ClientError) -> Result<Next, Failure> {
        terminal::notice(&refused.to_string());
        let is_over = matches!(&refused, ClientError::Refused(why) if why.problem.code == "hold_over");
        if is_over {
            self.lease = Some(take(&mut self.client, &self.args).await?);
            terminal::notice("you hold the session again; enter the command again");
        }
        Ok(Next::Prompt)
    }

    /// A new connection: the last one may still be busy with the end of a stream, and its daemon may be gone.
    async fn refresh(&mut self) -> Result<(), Failure> {
        match self.client.another().await {
            Ok(client) => self.client = client,
            Err(_) => self.reconnect(None).await?,
        }
        Ok(())
    }

    /// Waits for a daemon, and says what became of a run.
    async fn reconnect(&mut self, run_id: Option<&str>) -> Result<(), Failure> {
        terminal::notice("the daemon is gone; waiting for it");
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let path = format!("/v1/sessions/{}", self.args.session);
        let session: Session = loop {
            match Client::open(&self.args.daemon).await {
                Ok(client) => {
                    self.client = client;
                    // A daemon that is about to end may still have accepted the connection.
                    match self.client.get(&path).await {
                        Ok(session) => break session,
                        Err(ClientError::Broken(_)) if tokio::time::Instant::now() < deadline => {
                            tokio::time::sleep(PAUSE).await;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(failure) if tokio::time::Instant::now() > deadline => return Err(failure),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        if let Some(lease) = &mut self.lease
            && lease.extend(&mut self.client).await.is_err()
        {
            *lease = take(&mut self.client, &self.args).await?;
        }
        self.prompt = Prompt::new(&self.args.session, &session.cwd);
        let Some(run_id) = run_id else { return Ok(()) };
        let path = format!("/v1/sessions/{}/runs/{run_id}", self.args.session);
        let run = self.client.get::<RunDetail>(&path).await.map(|detail| detail.run);
        let words = match run {
            Ok(run) => {
                let ended = how_it_ended(run.status, run.exit_code, run.signal.as_deref());
                let kept = if run.status == RunStatus::Lost { ". The session is as it was before it" } else { "" };
                format!("{run_id} {ended}{kept}")
            }
            Err(error) => error.to_string(),
        };
        terminal::notice(&format!("the daemon is back; {words}"));
        Ok(())
    }

    /// Hands the session back.
    async fn leave(&mut self) {
        let Some(lease) = self.lease.take() else { return terminal::notice("detached") };
        let release = async {
            if let Ok(client) = self.client.another().await {
                self.client = client;
            }
            lease.release(&mut self.client).await
        };
        match tokio::time::timeout(HANDED_BACK, release).await {
            Ok(Ok(Some(notice))) => terminal::notice(&format!("handed back; the agent will read: {notice}")),
            Ok(Ok(None)) => terminal::notice("handed back"),
            Ok(Err(error)) => terminal::notice(&format!("the hold ends within two minutes: {error}")),
            Err(_) => terminal::notice("the daemon does not answer; the hold ends within two minutes"),
        }
    }
}
