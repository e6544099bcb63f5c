//! History through a real RabbitMQ, into a real PostgreSQL and a real MariaDB: everything that was answered is in the
//! tables, once and in order, whatever was killed, and in whatever order and how often the broker delivers.

use crate::databases::Server;
use crate::history::{Answers, KINDS, Random, caught_up, compare, texts, work};
use crate::rabbit::{Rabbit, mix};
use crate::read_back::{is_verified, node, proven};
use crate::support::{Daemon, Settings, soak};
use serde_json::json;
use shellkeep_poll::{pass, until};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The queue that the daemon writes to, and those that are read into each database.
const QUEUES: (&str, [&str; 2]) = ("written", ["postgres", "mariadb"]);

/// Consumers of each database.
const CONSUMERS: usize = 2;

const SESSIONS: [&str; 3] = ["a", "b", "c"];

/// A running `shellkeep history consume`. Dropping it kills it.
pub struct Consumer {
    command: Command,
    child: Child,
}

impl Consumer {
    pub fn start(from: &str, into: &str) -> Self {
        Self::with(from, into, &[], Stdio::null())
    }

    /// One with more variables of its environment, whose messages go to `stderr`.
    pub fn with(from: &str, into: &str, variables: &[(&str, &str)], stderr: Stdio) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        command.args(["history", "consume"]).env("SHELLKEEP_HISTORY", from).env("SHELLKEEP_HISTORY_INTO", into);
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let child = command.spawn().expect("it is built");
        Self { command, child }
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    fn restart(&mut self) {
        self.child = self.command.spawn().expect("it is built");
    }

    /// Waits until it ends by itself; its exit code.
    pub fn end(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sets a flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn is_degraded(daemon: &Daemon) -> Option<String> {
    let ready = daemon.get("/readyz").json();
    (ready["status"] == "degraded").then(|| ready["reasons"][0].as_str().unwrap_or_default().to_owned())
}

/// What can be killed. Databases and consumers have numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Daemon,
    Broker,
    Database(usize),
    Consumer(usize),
}

/// What is killed at the same moment.
struct Outage {
    parts: Vec<Part>,
    /// How long they are away. A long time is for broker and databases: nobody is answered without a daemon.
    length: Duration,
}

/// One round: everything is killed once, in a random order and in random company. In the first round broker and databases
/// are away together, for a second, or a minute in a long run.
fn round(number: usize, random: &mut Random) -> Vec<Outage> {
    let consumers = (0..KINDS.len() * CONSUMERS).map(Part::Consumer);
    let behind = [Part::Broker, Part::Database(0), Part::Database(1)];
    let mut parts: Vec<Part> = consumers.chain([Part::Daemon]).collect();
    if number > 0 {
        parts.extend(behind);
    }
    random.shuffle(&mut parts);
    let mut outages = Vec::new();
    while !parts.is_empty() {
        let count = parts.len().min(1 + random.below(3) as usize);
        let length = Duration::from_millis(random.below(400));
        outages.push(Outage { parts: parts.drain(..count).collect(), length });
    }
    if number == 0 {
        let length = Duration::from_secs(if soak() > 1 { 60 } else { 1 });
        outages.insert(random.below(outages.len() as u64 + 1) as usize, Outage { parts: behind.to_vec(), length });
    }
    outages
}

/// Everything that a record goes through.
struct Pipeline<'a> {
    daemon: &'a RwLock<Daemon>,
    rabbit: &'a mut Rabbit,
    databases: &'a mut [Server; 2],
    consumers: Vec<Consumer>,
}

impl Pipeline<'_> {
    fn kill(&mut self, part: Part) {
        match part {
            Part::Daemon => self.daemon.write().expect("it runs").kill(),
            Part::Broker => self.rabbit.kill(),
            Part::Database(number) => self.databases[number].kill(),
            Part::Consumer(number) => self.consumers[number].kill(),
        }
    }

    fn restart(&mut self, part: Part) {
        match part {
            Part::Daemon => self.daemon.write().expect("it runs").restart(),
            Part::Broker => self.rabbit.restart(),
            Part::Database(number) => self.databases[number].restart(),
            Part::Consumer(number) => self.consumers[number].restart(),
        }
    }

    fn interrupt(&mut self, Outage { mut parts, length }: Outage, random: &mut Random) {
        parts.iter().for_each(|part| self.kill(*part));
        if parts.contains(&Part::Broker) && !parts.contains(&Part::Daemon) {
            let reason = until("the daemon reports it", || is_degraded(&self.daemon.read().expect("it runs")));
            assert!(reason.contains("history broker amqp://127.0.0.1") && !reason.contains("guest"), "{reason}");
        }
        pass(length);
        random.shuffle(&mut parts);
        parts.into_iter().for_each(|part| self.restart(part));
    }
}

/// Two sessions with one name, one after another, which reordering must not confuse.
fn use_a_name_twice(daemon: &Daemon) {
    daemon.create_with(json!({"session_id": "again", "agent": "ann"}));
    daemon.sh("again", "echo first");
    daemon.destroy("again");
    daemon.create_with(json!({"session_id": "again", "agent": "bob"}));
    daemon.sh("again", "echo second; echo session");
}

fn both_are_told_apart(server: &Server) {
    let commands = "SELECT agent, command FROM sk_v_commands WHERE session_id LIKE 'again%' ORDER BY agent";
    until("both sessions of one name are there", || (texts(server, commands).len() == 2).then_some(()));
    assert_eq!(texts(server, commands), ["ann echo first", "bob echo second; echo session"]);
    let names = texts(server, "SELECT session_id FROM sk_sessions WHERE session_id LIKE 'again%' ORDER BY agent");
    assert!(names[0].starts_with("again~") && names[1] == "again", "{names:?}");
}

/// Daemon, broker, consumers and databases are killed at random moments under load, and the messages are shuffled and
/// doubled on their way. Afterwards the tables are what was answered.
#[test]
fn nothing_is_missing_or_double_through_a_broker() {
    let mut random = Random::new();
    let (rabbit, servers) = std::thread::scope(|scope| {
        let servers = KINDS.map(|kind| scope.spawn(move || Server::start(kind)));
        (Rabbit::start(), servers.map(|server| server.join().expect("it starts")))
    });
    let (Some(mut rabbit), [Some(postgres), Some(mariadb)]) = (rabbit, servers) else { return };
    let mut databases = [postgres, mariadb];
    let settings = Settings::default().env("SHELLKEEP_HISTORY", &rabbit.url(QUEUES.0)).env("SHELLKEEP_NODE", "n1");
    let daemon = RwLock::new(Daemon::with(settings));
    let mut consumers = Vec::new();
    for (queue, database) in QUEUES.1.iter().zip(&databases) {
        consumers.extend((0..CONSUMERS).map(|_| Consumer::start(&rabbit.url(queue), &database.url())));
    }
    use_a_name_twice(&daemon.read().expect("it runs"));
    for session in SESSIONS {
        daemon.read().expect("it runs").create(session);
    }
    let (stop, is_over, port) = (AtomicBool::new(false), AtomicBool::new(false), rabbit.port());
    let (begun, [mut mixing, mut rounds]) = (Instant::now(), [(); 2].map(|()| random.split()));
    let answers: Vec<Answers> = std::thread::scope(|scope| {
        // The threads end, whatever fails here.
        let _ends = [Ends(&stop), Ends(&is_over)];
        let mixer = scope.spawn(|| mix(port, QUEUES.0, &QUEUES.1, &mut mixing, || is_over.load(Ordering::Relaxed)));
        for database in &databases {
            caught_up(database, &daemon.read().expect("it runs"), "again");
        }
        // RabbitMQ writes the names of new queues to its disk half a second later, and cannot use them again without.
        pass(Duration::from_secs(2));
        let threads = SESSIONS.map(|session| scope.spawn(|| work(&daemon, session, &stop)));
        let mut pipeline = Pipeline { daemon: &daemon, rabbit: &mut rabbit, databases: &mut databases, consumers };
        let mut kills = 0;
        for outage in (0..soak()).flat_map(|number| round(number, &mut rounds)) {
            // Nothing is waited for: the moment of the kill varies.
            pass(Duration::from_millis(random.below(500)));
            kills += outage.parts.len();
            pipeline.interrupt(outage, &mut random);
        }
        pass(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        let answers = threads.map(|thread| thread.join().expect("it worked")).into();
        let ready = || (is_degraded(&daemon.read().expect("it runs")).is_none()).then_some(());
        until("the daemon is ready again", ready);
        for database in pipeline.databases.iter() {
            let sessions = SESSIONS.iter().chain([&"again"]);
            sessions.clone().for_each(|session| proven(database, &daemon.read().expect("it runs"), session));
            // What proves them came the same way. A signature may overtake lines that another consumer writes, so they are
            // waited for while the consumers run.
            let reader = node(database, "reader");
            sessions.for_each(|session| is_verified(&reader, session));
        }
        is_over.store(true, Ordering::Relaxed);
        println!("{} messages shuffled, {kills} kills", mixer.join().expect("it worked"));
        answers
    });
    let daemon = daemon.into_inner().expect("it runs");
    for (kind, database) in KINDS.iter().zip(&databases) {
        let compared =
            SESSIONS.iter().zip(&answers).map(|(session, answers)| compare(database, &daemon, session, answers));
        let runs: usize = compared.sum();
        println!("{kind:?}: {runs} answered runs compared in {:?}", begun.elapsed());
        assert!(runs > 0);
        assert_eq!(database.text("SELECT COUNT(*) FROM sk_superseded"), "0");
        assert_eq!(database.text("SELECT COUNT(*) FROM sk_runs WHERE command IS NULL OR status = 'running'"), "0");
        both_are_told_apart(database);
    }
}

/// A message that is not ours is moved to another queue, and those behind it are written. One that a newer program wrote
/// stays where it is, and the consumer ends.
#[test]
fn a_message_that_cannot_be_read_is_set_aside_and_a_newer_one_is_left() {
    let (Some(rabbit), Some(server)) = (Rabbit::start(), Server::start(KINDS[0])) else { return };
    let url = rabbit.url("q");
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_HISTORY", &url));
    let mut consumer = Consumer::with(&url, &server.url(), &[], Stdio::piped());
    let mut stderr = BufReader::new(consumer.child.stderr.take().expect("it is piped"));
    daemon.create("s");
    caught_up(&server, &daemon, "s");

    rabbit.publish("q", b"hello");
    let mut line = String::new();
    while !line.contains("moved to the queue q.rejected") {
        line.clear();
        assert!(stderr.read_line(&mut line).expect("it is text") > 0, "the consumer ended");
    }
    assert!(line.contains("a message was not written by shellkeep"), "{line}");
    assert_eq!(rabbit.messages("q.rejected"), [b"hello"]);
    daemon.sh("s", "echo behind it");
    caught_up(&server, &daemon, "s");
    let scrubbed = daemon.post("/v1/sessions/s/scrub", &json!({"secret": "behind it"})).json();
    assert_eq!(scrubbed["not_reached"], json!(["broker_messages", "consumer_database"]), "{scrubbed}");
    caught_up(&server, &daemon, "s");

    let newer = json!({"version": 99, "source": "j", "node": "n"}).to_string();
    rabbit.publish("q", newer.as_bytes());
    assert_eq!(consumer.child.wait().expect("it ends").code(), Some(1));
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("it is text");
    assert!(said.contains("a message has version 99") && said.contains("use a newer shellkeep"), "{said}");
    // A proof that the daemon sent meanwhile may be behind it.
    let left = rabbit.messages("q");
    assert!(left.iter().any(|message| message == newer.as_bytes()), "{left:?}");
}

/// What cannot work is said at once, with what to do.
#[test]
fn a_consumer_refuses_what_it_cannot_do() {
    for (from, into, says) in [
        ("postgres://h/d", "postgres://h/d", "use amqp://USER:PASSWORD@HOST:PORT/VHOST?queue=NAME"),
        ("amqp://h?x=1", "postgres://h/d", "a parameter that is not queue"),
        ("amqp://h", "amqp://h", "it is a broker; name a database"),
        ("amqp://h", "sqlite://x", "use postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
        let refused = command.args(["history", "consume", "--from", from, "--into", into]).output().expect("it runs");
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(1) && error.contains(says), "{from} {into}: {error}");
        assert!(!error.contains("written"), "nothing was tried: {error}");
    }
}
