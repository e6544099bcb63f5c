//! The order in which a client on stdio sent its commands. The SDK serves each request in a task of its own, so without
//! this, two that are sent together would start in any order; in a shell, `cd` comes before `make`.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;

/// Tools whose calls start a command in the session's shell.
const COMMANDS: &[&str] = &["run_command", "bash"];

/// How many commands may wait for those before them: as many as wait in a session. Each holds its request in memory.
const MOST_WAITING: usize = 256;

/// The commands of a connection that have not started.
#[derive(Default)]
pub struct Order {
    waiting: Arc<watch::Sender<BTreeSet<u64>>>,
    next: u64,
}

/// A command's position among them. It is free when this is dropped, so that a call that is refused holds up nobody.
pub struct QueuePosition {
    number: u64,
    /// How many waited when it was given.
    before: usize,
    waiting: Arc<watch::Sender<BTreeSet<u64>>>,
}

impl Order {
    /// Gives a message that starts a command the next position. Its handler finds it in the extensions.
    pub fn mark(&mut self, message: &mut ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(message) = message else { return };
        let ClientRequest::CallToolRequest(call) = &mut message.request else { return };
        if COMMANDS.contains(&call.params.name.as_ref()) {
            call.extensions.insert(self.position());
        }
    }

    fn position(&mut self) -> Arc<QueuePosition> {
        let (number, before) = (self.next, self.waiting.borrow().len());
        self.next += 1;
        self.waiting.send_modify(|waiting| {
            waiting.insert(number);
        });
        Arc::new(QueuePosition { number, before, waiting: Arc::clone(&self.waiting) })
    }
}

impl QueuePosition {
    /// How many wait already, if they are too many.
    pub fn too_many(&self) -> Option<usize> {
        (self.before >= MOST_WAITING).then_some(self.before)
    }

    /// Returns when all that were sent before have started, or never will.
    pub async fn reached(&self) {
        let mut waiting = self.waiting.subscribe();
        // Fails only without a sender, and there is one here.
        let _ = waiting.wait_for(|waiting| waiting.first().is_none_or(|first| *first >= self.number)).await;
    }

    /// The command has started.
    pub fn leave(&self) {
        self.waiting.send_modify(|waiting| {
            waiting.remove(&self.number);
        });
    }
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn is_reached(position: &QueuePosition) -> bool {
        tokio::time::timeout(Duration::from_millis(1), position.reached()).await.is_ok()
    }

    #[tokio::test]
    async fn a_command_waits_for_those_before_it() {
        let mut order = Order::default();
        let (first, second, third) = (order.position(), order.position(), order.position());
        assert!(is_reached(&first).await && !is_reached(&second).await && !is_reached(&third).await);
        drop(second);
        assert!(!is_reached(&third).await, "the first has not started");
        first.leave();
        assert!(is_reached(&third).await);
    }

    #[test]
    fn no_more_wait_than_in_a_session() {
        let mut order = Order::default();
        let mut waiting: Vec<_> = (0..MOST_WAITING).map(|_| order.position()).collect();
        assert!(waiting.iter().all(|position| position.too_many().is_none()));
        assert_eq!(order.position().too_many(), Some(MOST_WAITING));
        waiting.pop();
        assert_eq!(order.position().too_many(), None);
    }

    #[test]
    fn only_commands_have_positions() {
        let mut order = Order::default();
        for (tool, expected) in [("run_command", true), ("bash", true), ("read_output", false)] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}"}}}}"#);
            let mut message: ClientJsonRpcMessage = serde_json::from_str(&line).unwrap();
            order.mark(&mut message);
            let JsonRpcMessage::Request(message) = message else { panic!("{line}") };
            let ClientRequest::CallToolRequest(call) = message.request else { panic!("{line}") };
            assert_eq!(call.extensions.get::<Arc<QueuePosition>>().is_some(), expected, "{tool}");
        }
    }
}
