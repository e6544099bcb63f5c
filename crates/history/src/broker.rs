//! A queue of RabbitMQ: messages go in with confirmations, and come out to be acknowledged. The calls block; tasks of a
//! small runtime keep the connection alive meanwhile.

use crate::url::BrokerAddress;
use amqprs::callbacks::ChannelCallback;
use amqprs::channel::{
    BasicAckArguments, BasicConsumeArguments, BasicPublishArguments, BasicQosArguments, Channel,
    ConfirmSelectArguments, ConsumerMessage, QueueDeclareArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::{Ack, BasicProperties, Cancel, CloseChannel, FieldTable, FieldValue, Nack, Return, ShortStr};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;

/// How long connecting may take, and declaring a queue.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a broker may take to confirm what was published. It writes to disk on several machines.
const CONFIRM: Duration = Duration::from_secs(60);

/// After this many seconds without a sign of life, twice, a connection is broken.
const HEARTBEAT: u16 = 10;

/// How often a message may be delivered before the broker drops it. RabbitMQ 4 drops after 20 times; none may be lost.
const DELIVERIES: i64 = i32::MAX as i64;

/// Messages that a consumer gets ahead.
const PREFETCH: u16 = 16;

/// Where messages go that are not ours, behind the name of the queue.
const REJECTED: &str = ".rejected";

/// Why a broker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be reached, or it refused; trying again may help.
    #[error("{reason}")]
    Failed {
        /// What it said.
        reason: String,
    },
    /// It did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Silent(Duration),
}

impl BrokerError {
    fn failed(reason: impl ToString) -> Self {
        Self::Failed { reason: reason.to_string() }
    }
}

impl From<amqprs::error::Error> for BrokerError {
    fn from(error: amqprs::error::Error) -> Self {
        Self::failed(error)
    }
}

/// The tasks of connections.
pub(crate) struct Tasks(Runtime);

impl Tasks {
    pub(crate) fn new() -> io::Result<Self> {
        Builder::new_multi_thread().worker_threads(1).thread_name("amqp").enable_all().build().map(Self)
    }

    /// Lets this thread use brokers.
    pub(crate) fn enter(&self) -> Entered<'_> {
        Entered { handle: self.0.handle().clone(), _guard: self.0.enter() }
    }
}

/// A thread that may use brokers. A connection that is dropped starts a task that closes it, so it is dropped before this.
pub(crate) struct Entered<'a> {
    handle: Handle,
    _guard: EnterGuard<'a>,
}

impl Entered<'_> {
    /// Sleeps for a while, or until `stop` changes; whether it did.
    pub(crate) fn rest(&self, pause: Duration, stop: &mut watch::Receiver<bool>) -> bool {
        self.handle.block_on(async { tokio::time::timeout(pause, stop.changed()).await }).is_ok()
    }
}

/// What a broker says about a channel by itself.
enum Said {
    Confirmed { tag: u64, multiple: bool },
    Refused,
    Returned { reason: String },
    Closed { reason: String },
}

/// Passes on what a broker says. When the connection ends it is dropped, which closes the channel.
struct Listener(UnboundedSender<Said>);

impl Listener {
    fn pass(&self, said: Said) {
        // The other end is gone when the connection is no longer used.
        let _ = self.0.send(said);
    }
}

#[async_trait::async_trait]
impl ChannelCallback for Listener {
    async fn close(&mut self, _: &Channel, close: CloseChannel) -> Result<(), amqprs::error::Error> {
        self.pass(Said::Closed { reason: close.to_string() });
        Ok(())
    }

    async fn cancel(&mut self, _: &Channel, _: Cancel) -> Result<(), amqprs::error::Error> {
        self.pass(Said::Closed { reason: "the queue was deleted".to_owned() });
        Ok(())
    }

    async fn flow(&mut self, _: &Channel, active: bool) -> Result<bool, amqprs::error::Error> {
        Ok(active)
    }

    async fn publish_ack(&mut self, _: &Channel, ack: Ack) {
        self.pass(Said::Confirmed { tag: ack.delivery_tag(), multiple: ack.mutiple() });
    }

    async fn publish_nack(&mut self, _: &Channel, _: Nack) {
        self.pass(Said::Refused);
    }

    async fn publish_return(&mut self, _: &Channel, returned: Return, _: BasicProperties, _: Vec<u8>) {
        self.pass(Said::Returned { reason: returned.reply_text().clone() });
    }
}

/// A connection to the broker, with its queue.
pub(crate) struct Broker<'a> {
    within: &'a Entered<'a>,
    queue: String,
    channel: Channel,
    connection: Connection,
    said: UnboundedReceiver<Said>,
    /// Messages that were published on this channel.
    published: u64,
}

impl<'a> Broker<'a> {
    /// Connects, and makes the queue if it is not there.
    pub(crate) fn open(within: &'a Entered<'a>, address: &BrokerAddress) -> Result<Self, BrokerError> {
        let (sender, mut said) = mpsc::unbounded_channel();
        let opening = async {
            let BrokerAddress { host, port, user, password, vhost, queue } = address;
            let mut arguments = OpenConnectionArguments::new(host, *port, user, password);
            arguments.virtual_host(vhost).heartbeat(HEARTBEAT).connection_name("shellkeep");
            let connection = Connection::open(&arguments).await?;
            let channel = connection.open_channel(None).await?;
            channel.register_callback(Listener(sender)).await?;
            declare(&channel, queue).await?;
            channel.confirm_select(ConfirmSelectArguments::default()).await?;
            Ok::<_, BrokerError>((connection, channel))
        };
        let opened = within.handle.block_on(async { tokio::time::timeout(CONNECT, opening).await });
        let (connection, channel) = match opened {
            Ok(Ok(opened)) => opened,
            // The reason for which a channel was closed says more than that it was.
            Ok(Err(error)) => return Err(closed(&mut said).unwrap_or(error)),
            Err(_) => return Err(BrokerError::Silent(CONNECT)),
        };
        Ok(Self { within, queue: address.queue.clone(), channel, connection, said, published: 0 })
    }

    /// Puts messages into the queue, and waits until the broker has confirmed all of them.
    pub(crate) fn publish(&mut self, messages: Vec<Vec<u8>>) -> Result<(), BrokerError> {
        let queue = self.queue.clone();
        self.publish_to(&queue, messages)
    }

    fn publish_to(&mut self, queue: &str, messages: Vec<Vec<u8>>) -> Result<(), BrokerError> {
        let first = self.published + 1;
        let publishing = async {
            for message in messages {
                let mut properties = BasicProperties::default();
                properties.with_persistence(true).with_content_type("application/x-ndjson").with_app_id("shellkeep");
                let mut arguments = BasicPublishArguments::new("", queue);
                arguments.mandatory(true);
                self.channel.basic_publish(properties, message, arguments).await?;
                self.published += 1;
            }
            confirmed((first..=self.published).collect(), &mut self.said).await
        };
        let done = self.within.handle.block_on(async { tokio::time::timeout(CONFIRM, publishing).await });
        done.unwrap_or(Err(BrokerError::Silent(CONFIRM)))
    }

    /// Whether the connection is still there.
    pub(crate) fn check(&mut self) -> Result<(), BrokerError> {
        if let Some(error) = closed(&mut self.said) {
            return Err(error);
        }
        if self.connection.is_open() && self.channel.is_open() { Ok(()) } else { Err(lost()) }
    }

    /// Begins to receive what is in the queue.
    pub(crate) fn consume(self) -> Result<Deliveries<'a>, BrokerError> {
        let beginning = async {
            self.channel.basic_qos(BasicQosArguments::new(0, PREFETCH, false)).await?;
            let arguments = BasicConsumeArguments::new(&self.queue, "");
            Ok::<_, BrokerError>(self.channel.basic_consume_rx(arguments).await?.1)
        };
        let begun = self.within.handle.block_on(async { tokio::time::timeout(CONNECT, beginning).await });
        let incoming = begun.unwrap_or(Err(BrokerError::Silent(CONNECT)))?;
        Ok(Deliveries { broker: self, incoming })
    }
}

async fn declare(channel: &Channel, queue: &str) -> Result<(), BrokerError> {
    let name = |text: &str| ShortStr::try_from(text).map_err(|_| BrokerError::failed("a name is too long"));
    let mut table = FieldTable::new();
    table.insert(name("x-queue-type")?, FieldValue::from("quorum"));
    table.insert(name("x-delivery-limit")?, FieldValue::l(DELIVERIES));
    let mut arguments = QueueDeclareArguments::durable_client_named(queue);
    channel.queue_declare(arguments.arguments(table).finish()).await?;
    Ok(())
}

/// Waits until all messages with these numbers are confirmed.
async fn confirmed(mut open: BTreeSet<u64>, said: &mut UnboundedReceiver<Said>) -> Result<(), BrokerError> {
    while !open.is_empty() {
        match said.recv().await.ok_or_else(lost)? {
            Said::Confirmed { tag, multiple: true } => open = open.split_off(&(tag + 1)),
            Said::Confirmed { tag, multiple: false } => drop(open.remove(&tag)),
            Said::Refused => return Err(BrokerError::failed("the broker refused a message")),
            Said::Returned { reason } | Said::Closed { reason } => return Err(BrokerError::failed(reason)),
        }
    }
    Ok(())
}

/// Why the channel was closed, if it was.
fn closed(said: &mut UnboundedReceiver<Said>) -> Option<BrokerError> {
    while let Ok(said) = said.try_recv() {
        if let Said::Closed { reason } = said {
            return Some(BrokerError::failed(reason));
        }
    }
    None
}

fn lost() -> BrokerError {
    BrokerError::failed("the connection was lost")
}

/// A message from the queue. The broker delivers it again unless it is acknowledged.
pub(crate) struct Delivery {
    tag: u64,
    pub body: Vec<u8>,
}

/// What comes out of the queue.
pub(crate) struct Deliveries<'a> {
    broker: Broker<'a>,
    incoming: UnboundedReceiver<ConsumerMessage>,
}

impl Deliveries<'_> {
    /// The next message; nothing if none came for a while, or if `stop` changed.
    pub(crate) fn next(
        &mut self,
        most: Duration,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Option<Delivery>, BrokerError> {
        let Self { broker, incoming } = self;
        let next = async {
            tokio::select! {
                _ = stop.changed() => Ok(None),
                message = incoming.recv() => message.map(Some).ok_or_else(lost),
                said = broker.said.recv() => Err(match said {
                    Some(Said::Closed { reason }) => BrokerError::failed(reason),
                    _ => lost(),
                }),
            }
        };
        let next = broker.within.handle.block_on(async { tokio::time::timeout(most, next).await });
        let Ok(message) = next else { return broker.check().map(|()| None) };
        let Some(message) = message? else { return Ok(None) };
        let (Some(deliver), Some(body)) = (message.deliver, message.content) else { return Ok(None) };
        Ok(Some(Delivery { tag: deliver.delivery_tag(), body }))
    }

    /// The message is where it belongs.
    pub(crate) fn done(&self, delivery: &Delivery) -> Result<(), BrokerError> {
        let acknowledged = self.broker.channel.basic_ack(BasicAckArguments::new(delivery.tag, false));
        Ok(self.broker.within.handle.block_on(acknowledged)?)
    }

    /// Moves a message that cannot be read to another queue, for people to look at. Returns the name of that queue.
    pub(crate) fn set_aside(&mut self, delivery: &Delivery) -> Result<String, BrokerError> {
        let queue = format!("{}{REJECTED}", self.broker.queue);
        self.broker.within.handle.block_on(declare(&self.broker.channel, &queue))?;
        self.broker.publish_to(&queue, vec![delivery.body.clone()])?;
        self.done(delivery)?;
        Ok(queue)
    }
}
