//! One agent is at every limit at once: a fork bomb, an allocation of 10 GB, a disk filler, and many connections and
//! requests beside them. What another agent's commands take meanwhile, each of which must do what it should. Both have
//! tokens, so both are confined as agents are by default.

use super::token_holder::TokenHolder;
use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::{self, Client};
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::{Rounds, digits};
use serde_json::json;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const TARGET: Target = Target::RatioAtMost(2.0);
const LIVE_SHELLS: usize = 50;
/// What each agent may have.
const LIMITS: [(&str, &str); 5] = [
    ("SHELLKEEP_PROCESSES_PER_AGENT", "60"),
    ("SHELLKEEP_SESSION_PROCESSES", "40"),
    ("SHELLKEEP_MEMORY_BYTES_PER_AGENT", "134217728"),
    ("SHELLKEEP_SESSIONS_PER_AGENT", "5"),
    ("SHELLKEEP_FILES_PER_SESSION", "2000"),
];
/// So many processes of the greedy agent are as good as all that it may have: some end and are started again.
const AT_THE_LIMIT: u64 = 55;
/// How often it is tried to get there, how often it is looked at in between, and when.
const TRIES: usize = 30;
const LOOKS: usize = 100;
const LOOK: Duration = Duration::from_millis(20);
/// What the greedy agent runs, each in a session of its own. The disk filler starts no process after the first, so that it
/// is not stopped for another limit.
const BOMBS: [(&str, &str); 3] = [
    ("disk", "mkfifo never; for i in {1..3000}; do printf %020000d 0 > f$i; done; read -r -t 300 <> never"),
    ("memory", "while :; do head -c 10G /dev/zero | tail -c 20G | wc -c; done"),
    ("fork", "bomb() { bomb | bomb & }; bomb; wait"),
];
/// The sessions that take whatever processes are left, and how.
const SLEEPERS: [&str; 2] = ["sleepers", "others"];
const SLEEP: &str = "for i in {1..100}; do sleep 300 & done; wait";
/// Connections with a request whose answer is not read.
const CONNECTIONS: usize = 1000;
/// Threads that send requests.
const SENDERS: usize = 4;
/// The modest agent's commands before the attack, and at least so many during it.
const COMMANDS: usize = 200;
/// What it runs: a number is counted in the shell, goes through a pipe, and is written to a file.
const COUNT: &str = "n=$((n + 1)); echo $n | cat; echo $n >>counted";

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let (mut alone, mut beside) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.greedy_rounds {
        let daemon = Daemon::start_with(&setup.program, &setup.bash, LIVE_SHELLS, &LIMITS)?;
        let mut host = Client::connect(&daemon.socket())?;
        let mut modest = Modest::new(&daemon, &mut host)?;
        let greedy = TokenHolder::new(&daemon, &mut host, "greedy", SLEEPERS[0])?;
        modest.count()?;
        alone.push((0..COMMANDS).map(|_| modest.count()).collect::<Fallible<Vec<_>>>()?);
        let waiting = meet_all_limits(&greedy)?;
        let ask = greedy.request("GET", "/v1/sessions", "", "");
        let held = (0..CONNECTIONS).map(|_| greedy.throw(&ask)).collect::<Fallible<Vec<UnixStream>>>()?;
        beside.push(modest.count_beside(&greedy, setup.effort.greedy)?);
        drop((held, waiting));
        modest.prove()?;
    }
    let what = format!(
        "a command of one agent while another is at every limit (fork bomb, 10 GB of memory, disk, {} connections, {} requests), against before",
        digits(CONNECTIONS as f64),
        digits(setup.effort.greedy as f64),
    );
    report.row(Row::latency(what, alone.middle(), beside.middle(), TARGET));
    Ok(())
}

/// Starts everything that meets a limit, and waits until the agent is at that of its processes. Gives the connections of
/// commands that may still wait for their turn.
fn meet_all_limits(greedy: &TokenHolder) -> Fallible<Vec<UnixStream>> {
    let body = |command: &str| json!({ "command": command, "blocking": false, "timeout": 300 });
    let path = |session: &str| format!("/v1/sessions/{session}/run");
    for (session, command) in BOMBS {
        let session = greedy.create(session)?;
        greedy.ask("POST", &path(&session), &body(command))?;
    }
    let second = greedy.create(SLEEPERS[1])?;
    let sleepers = [SLEEPERS[0], &second].map(|id| greedy.request("POST", &path(id), "", &body(SLEEP).to_string()));
    let mut waiting = Vec::new();
    for _ in 0..TRIES {
        // They fail while the fork bomb has all processes, which then ends; while they run, the next ones wait.
        for request in &sleepers {
            waiting.push(greedy.throw(request)?);
        }
        for _ in 0..LOOKS {
            let quotas = greedy.ask("GET", "/v1/quotas", &json!(null))?;
            let used = quotas["quotas"]["processes_per_agent"]["used"].as_u64();
            if used.is_some_and(|used| used >= AT_THE_LIMIT) {
                return Ok(waiting);
            }
            std::thread::sleep(LOOK);
        }
    }
    Err("the greedy agent did not get to its limit of processes".into())
}

/// The agent that is not to notice.
struct Modest<'a> {
    agent: TokenHolder<'a>,
    client: Client,
    request: Vec<u8>,
    counted: usize,
}

impl<'a> Modest<'a> {
    fn new(daemon: &'a Daemon, host: &mut Client) -> Fallible<Self> {
        let agent = TokenHolder::new(daemon, host, "modest", "s")?;
        let request = agent.request("POST", &agent.path("run"), "", &json!({ "command": COUNT }).to_string());
        Ok(Self { agent, client: Client::connect(&daemon.socket())?, request, counted: 0 })
    }

    fn count(&mut self) -> Fallible<Duration> {
        let start = Instant::now();
        let body = self.client.call(&self.request)?;
        let elapsed = start.elapsed();
        http::check(body)?;
        self.counted += 1;
        Ok(elapsed)
    }

    /// Counts while the other agent sends as many requests, or more until there are enough commands to speak of.
    fn count_beside(&mut self, greedy: &TokenHolder, requests: usize) -> Fallible<Vec<Duration>> {
        let (sent, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| {
                    while sent.fetch_add(1, Ordering::Relaxed) < requests || !enough.load(Ordering::Relaxed) {
                        // Some are refused.
                        let _ = greedy.ask("GET", "/v1/sessions", &json!(null));
                    }
                });
            }
            let mut times = Vec::new();
            let counted = loop {
                match self.count() {
                    Ok(time) => times.push(time),
                    Err(error) => break Err(error),
                }
                if times.len() >= COMMANDS && sent.load(Ordering::Relaxed) >= requests {
                    break Ok(times);
                }
            };
            // Also after an error: the senders would go on for ever.
            enough.store(true, Ordering::Relaxed);
            counted
        })
    }

    /// Nothing of it is lost.
    fn prove(&mut self) -> Fallible<()> {
        let test = format!("[[ $n == {0} && $(wc -l <counted) == {0} ]]", self.counted);
        let body = json!({ "command": test }).to_string();
        let request = self.agent.request("POST", &self.agent.path("run"), "", &body);
        Ok(http::check(self.client.call(&request)?)?)
    }
}
