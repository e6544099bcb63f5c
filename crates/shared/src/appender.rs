//! The task that appends: it runs where the sessions' tasks do, so a record reaches the tier, and its answer them, without
//! another thread. It appends while there is a pipe; everything else is the ship's thread's, which also makes the pipe.

use crate::LEASE;
use crate::lanes::Shared;
use crate::tier::{Append, Appended, Pipe, PipeError};
use std::sync::Arc;
use std::time::Instant;

/// A turn of the task.
struct Turn {
    shared: Arc<Shared>,
    number: u64,
    /// None once the turn has ended.
    pipe: Option<Box<dyn Pipe>>,
    appends: Vec<Append>,
}

enum Next {
    Append(Turn),
    Wait,
    End,
}

/// Appends until the ship is closed.
pub(crate) async fn run(shared: Arc<Shared>) {
    let _task = Task(Arc::clone(&shared));
    loop {
        match next(&shared) {
            Next::Append(turn) => turn.take().await,
            Next::Wait => shared.to_append.notified().await,
            Next::End => return,
        }
    }
}

fn next(shared: &Arc<Shared>) -> Next {
    let mut lanes = shared.lanes();
    if lanes.closing.is_some() {
        return Next::End;
    }
    if lanes.down.is_some() || !lanes.turns.is_for_task() {
        return Next::Wait;
    }
    let appends = lanes.ready();
    match if appends.is_empty() { None } else { lanes.turns.begin_task() } {
        Some((number, pipe)) => Next::Append(Turn { shared: Arc::clone(shared), number, pipe: Some(pipe), appends }),
        None => Next::Wait,
    }
}

impl Turn {
    async fn take(mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        let begun = Instant::now();
        let answers = pipe.append(&self.appends, LEASE).await;
        let shared = Arc::clone(&self.shared);
        self.end(begun, answers);
        if let Some(call) = shared.settled.get() {
            call();
        }
    }

    fn end(&mut self, begun: Instant, answers: Result<Vec<Appended>, PipeError>) {
        let Some(pipe) = self.pipe.take() else { return };
        let mut lanes = self.shared.lanes();
        let (answers, pipe) = match answers {
            Ok(answers) => (answers, Ok(pipe)),
            Err(error) => (Vec::new(), Err(error)),
        };
        if !lanes.turns.end_task(self.number, pipe) {
            return;
        }
        let mut is_for_thread = !lanes.turns.has_pipe();
        for (append, answer) in self.appends.iter().zip(answers) {
            if let Some(news) = lanes.appended(append, begun, answer) {
                let _ = self.shared.news.send(news);
            }
            is_for_thread |= lanes.is_for_thread(&append.session_id);
        }
        lanes.clean(&self.appends);
        if is_for_thread || lanes.turns.is_wanted() || lanes.can_pack() {
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Only if it was not awaited to its end.
        self.end(Instant::now(), Err(PipeError::Broken { reason: "the node is stopping".to_owned() }));
    }
}

/// Whoever offers records must not wait for a task that is gone.
struct Task(Arc<Shared>);

impl Drop for Task {
    fn drop(&mut self) {
        let mut lanes = self.0.lanes();
        lanes.has_appender = false;
        lanes.turns.drop_pipe();
        self.0.work.notify_one();
    }
}
