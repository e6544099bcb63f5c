//! A real RabbitMQ for tests, with its data in a temporary directory and an epmd of its own.

use crate::history::Random;
use crate::support::skip;
use amqprs::callbacks::ChannelCallback;
use amqprs::channel::{BasicAckArguments, BasicGetArguments, BasicPublishArguments, Channel, ConfirmSelectArguments};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::error::Error;
use amqprs::{Ack, BasicProperties, Cancel, CloseChannel, Nack, Return};
use shellkeep_poll::pass;
use shellkeep_servers::{ServerProcess, free_port};
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long it may take until it accepts connections: Erlang loads a thousand files, and recovers its queues.
const STARTED: Duration = Duration::from_secs(100);

/// The account that Debian's package makes.
const ACCOUNT: &str = "rabbitmq";

/// The script of the package that does not change the user itself.
const PROGRAM: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// A running broker.
pub struct Rabbit {
    broker: ServerProcess,
    address: SocketAddr,
    distribution: SocketAddr,
    /// Knows under which port the broker is. It outlives a kill of the broker.
    _epmd: ServerProcess,
    names: SocketAddr,
}

impl Rabbit {
    /// Starts one without queues; nothing if it is not installed, which is a failure in CI.
    pub fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            skip("RabbitMQ is not installed (Debian: rabbitmq-server)");
            return None;
        }
        let process = || ServerProcess::new(ACCOUNT).expect("a directory");
        let port = || free_port().expect("a free port");
        let (broker, mut epmd, names) = (process(), process(), port());
        let plugins = broker.home().join("enabled_plugins");
        fs::write(&plugins, "[].\n").expect("a file");
        broker.give(&plugins).expect("we are root");
        let mut command = epmd.program(Path::new("epmd"));
        command.args(["-address", "127.0.0.1", "-port", &names.port().to_string()]);
        epmd.start(STARTED, command, || TcpStream::connect(names).is_ok()).expect("Erlang has it");
        let mut rabbit = Self { broker, address: port(), distribution: port(), _epmd: epmd, names };
        rabbit.restart();
        Some(rabbit)
    }

    /// The URL of a queue.
    pub fn url(&self, queue: &str) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}?queue={queue}", self.address.port())
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.broker.kill().expect("it ends");
    }

    /// Starts it again, after killing it if it runs.
    pub fn restart(&mut self) {
        let (address, runtime) = (self.address, runtime());
        let answers =
            || TcpStream::connect(address).is_ok() && runtime.block_on(async { open(address.port()).await.is_some() });
        self.broker.start(STARTED, self.command(), answers).expect("it starts");
    }

    fn command(&self) -> Command {
        let home = self.broker.home();
        let mut command = self.broker.program(Path::new(PROGRAM));
        let path = |name: &str| home.join(name);
        let paths: [(&str, PathBuf); 6] = [
            ("HOME", home.clone()),
            ("RABBITMQ_MNESIA_BASE", path("mnesia")),
            ("RABBITMQ_LOG_BASE", path("log")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", path("enabled_plugins")),
            ("RABBITMQ_CONF_ENV_FILE", path("none")),
            ("RABBITMQ_CONFIG_FILE", path("none")),
        ];
        command.envs(paths);
        command.env("RABBITMQ_NODENAME", format!("shellkeep{}@localhost", self.address.port()));
        command.env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
        command.env("RABBITMQ_NODE_PORT", self.address.port().to_string());
        command.env("RABBITMQ_DIST_PORT", self.distribution.port().to_string());
        command.env("ERL_EPMD_PORT", self.names.port().to_string());
        // One thread, which does not spin when it is idle; and no shell between us and it.
        command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 1:1 +sbwt none");
        command.env("RUNNING_UNDER_SYSTEMD", "true");
        command
    }

    /// Puts a message into a queue that is there, and waits until the broker has it.
    pub fn publish(&self, queue: &str, body: &[u8]) {
        self.publish_all(queue, &[body.to_vec()]);
    }

    /// The same with several, one after another.
    pub fn publish_all(&self, queue: &str, bodies: &[Vec<u8>]) {
        let published = runtime().block_on(async {
            let (_connection, channel, mut confirms) = open(self.port()).await?;
            channel.confirm_select(ConfirmSelectArguments::default()).await.ok()?;
            for body in bodies {
                publish(&channel, queue, body.clone()).await?;
                confirms.recv().await?;
            }
            Some(())
        });
        published.expect("it is confirmed");
    }

    /// What is in a queue, oldest first. It stays there.
    pub fn messages(&self, queue: &str) -> Vec<Vec<u8>> {
        self.read(queue, false)
    }

    /// What is in a queue, oldest first. It is gone from there.
    pub fn take(&self, queue: &str) -> Vec<Vec<u8>> {
        self.read(queue, true)
    }

    fn read(&self, queue: &str, takes: bool) -> Vec<Vec<u8>> {
        let found = runtime().block_on(async {
            // What is not acknowledged goes back when the connection ends.
            let (connection, channel, _confirms) = open(self.port()).await?;
            let mut found = Vec::new();
            while let Some((got, _, body)) = channel.basic_get(BasicGetArguments::new(queue)).await.ok()? {
                if takes {
                    channel.basic_ack(BasicAckArguments::new(got.delivery_tag(), false)).await.ok()?;
                }
                found.push(body);
            }
            // It has answered what was sent before, acknowledgements included.
            connection.close().await.ok()?;
            Some(found)
        });
        found.expect("there is such a queue")
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads")
}

/// Passes on which messages are confirmed; closed when the channel is, or when one is not accepted.
struct Confirms(Option<UnboundedSender<(u64, bool)>>);

#[async_trait::async_trait]
impl ChannelCallback for Confirms {
    async fn close(&mut self, _: &Channel, _: CloseChannel) -> Result<(), Error> {
        self.0 = None;
        Ok(())
    }
    async fn cancel(&mut self, _: &Channel, _: Cancel) -> Result<(), Error> {
        self.0 = None;
        Ok(())
    }
    async fn flow(&mut self, _: &Channel, active: bool) -> Result<bool, Error> {
        Ok(active)
    }
    async fn publish_ack(&mut self, _: &Channel, ack: Ack) {
        if let Some(confirms) = &self.0 {
            let _ = confirms.send((ack.delivery_tag(), ack.mutiple()));
        }
    }
    async fn publish_nack(&mut self, _: &Channel, _: Nack) {
        self.0 = None;
    }
    async fn publish_return(&mut self, _: &Channel, _: Return, _: BasicProperties, _: Vec<u8>) {
        self.0 = None;
    }
}

async fn open(port: u16) -> Option<(Connection, Channel, UnboundedReceiver<(u64, bool)>)> {
    let arguments = OpenConnectionArguments::new("127.0.0.1", port, "guest", "guest");
    let connection = tokio::time::timeout(Duration::from_secs(5), Connection::open(&arguments)).await.ok()?.ok()?;
    let channel = connection.open_channel(None).await.ok()?;
    let (sender, confirms) = unbounded_channel();
    channel.register_callback(Confirms(Some(sender))).await.ok()?;
    Some((connection, channel, confirms))
}

async fn publish(channel: &Channel, queue: &str, body: Vec<u8>) -> Option<()> {
    let properties = BasicProperties::default().with_persistence(true).finish();
    let arguments = BasicPublishArguments::new("", queue).mandatory(true).finish();
    channel.basic_publish(properties, body, arguments).await.ok()
}

/// Moves what is in a queue to others as no queue does: in another order, and some of it twice. Ends when `is_over` says
/// so; waits for a broker that is gone.
pub fn mix(port: u16, from: &str, to: &[&str], random: &mut Random, mut is_over: impl FnMut() -> bool) -> usize {
    let runtime = runtime();
    let mut moved = 0;
    while !is_over() {
        let mixed = runtime.block_on(async {
            let (_connection, channel, mut confirms) = open(port).await?;
            channel.confirm_select(ConfirmSelectArguments::default()).await.ok()?;
            let mut published = 0;
            loop {
                let mut taken = Vec::new();
                while taken.len() < 8 {
                    let Some((got, _, body)) = channel.basic_get(BasicGetArguments::new(from)).await.ok()? else {
                        break;
                    };
                    taken.push((got.delivery_tag(), body));
                }
                if taken.is_empty() {
                    return Some(0);
                }
                random.shuffle(&mut taken);
                let again = taken[random.below(taken.len() as u64) as usize].clone();
                let first = published + 1;
                for (_, body) in taken.iter().chain([&again]) {
                    for queue in to {
                        publish(&channel, queue, body.clone()).await?;
                        published += 1;
                    }
                }
                let mut open: BTreeSet<u64> = (first..=published).collect();
                while !open.is_empty() {
                    match confirms.recv().await? {
                        (tag, true) => open = open.split_off(&(tag + 1)),
                        (tag, false) => drop(open.remove(&tag)),
                    }
                }
                for (tag, _) in &taken {
                    channel.basic_ack(BasicAckArguments::new(*tag, false)).await.ok()?;
                }
                moved += taken.len();
            }
        });
        if mixed.is_none_or(|count: usize| count == 0) {
            pass(Duration::from_millis(50));
        }
    }
    moved
}
