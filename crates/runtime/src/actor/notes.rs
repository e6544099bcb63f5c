//! What an agent records in its session: events, messages, its own state, and what is typed into a command.

use super::journal::Journal;
use super::message::Answer;
use crate::cluster::told;
use crate::context::SessionContext;
use crate::masking::{SessionMask, check_kept};
use crate::network::Unreached;
use crate::ops::{
    AgentStateSaved, FilesReason, MessageAdded, NewEvent, NewMessage, OpError, Posted, RecordError, SaveAgentState,
};
use crate::output::INLINE_BYTES;
use crate::running::Typed;
use crate::state_file;
use crate::tasks;
use shellkeep_session::{AgentState, Author, ByteString, Content, Event, Message, RunId, SessionId, Timestamp};
use shellkeep_shared::ForkNote;
use shellkeep_store::AppendError;
use std::io;

/// Bytes of one input that are recorded: as much as of an output inside a record. The rest is only counted.
const INPUT_KEPT: usize = INLINE_BYTES;

/// Records events. If the store rejects the first one, none is recorded; their numbers have no gap.
pub(super) async fn post_events(
    journal: &mut Journal,
    events: Vec<NewEvent>,
    author: &Author,
) -> Result<Posted, OpError> {
    let (first_seq, total) = (journal.next_seq(), events.len());
    let mut notices = Vec::new();
    for (index, NewEvent { event_type, data }) in events.into_iter().enumerate() {
        match journal.offer(Event::Noted { event_type, data, author: author.clone() }) {
            Ok(notice) if notices.is_empty() => notices.extend(notice),
            Ok(_) => {}
            Err(error) => return Err(cut_off(&error, index, total, first_seq)),
        }
    }
    notices.extend(journal.settle().await?);
    Ok(Posted { first_seq, last_seq: journal.state().seq, notices })
}

fn cut_off(error: &AppendError, taken: usize, total: usize, first_seq: u64) -> OpError {
    match taken {
        0 => OpError::not_stored(error),
        _ => OpError::Record(RecordError::EventsCutOff { reason: error.into(), taken, total, first_seq }),
    }
}

/// Records what other nodes wrote and is not part of the session. Gives it back when that is shared.
pub(super) async fn record_forks(journal: &mut Journal, forks: Vec<ForkNote>, answer: Answer<Vec<ForkNote>>) {
    for fork in &forks {
        journal.record(told::forked(fork));
    }
    let _ = answer.send(journal.settle().await.map(|_| forks));
}

/// Adds a message to the conversation, with the next number.
pub(super) async fn add_message(
    journal: &mut Journal,
    message: NewMessage,
    author: Author,
) -> Result<MessageAdded, OpError> {
    let seq = journal.next_seq();
    let NewMessage { role, content } = message;
    let seq_id = journal.state().messages + 1;
    let message = Box::new(Message { seq_id, role, content, at: Timestamp::now() });
    let offered = journal.offer(Event::MessageAdded { message, author });
    let on_disk = journal.settle().await?;
    let notice = offered.map_err(|error| OpError::not_stored(&error))?;
    Ok(MessageAdded { seq_id, seq, notices: notice.into_iter().chain(on_disk).collect() })
}

/// A process of the session did not reach a host. The next result says why; that it may not connect to it is recorded.
pub(super) fn unreached(journal: &mut Journal, unreached: Unreached, answer: Answer<()>) {
    journal.tell([unreached.notice()]);
    if let Unreached::NotAllowed { host } = unreached {
        journal.record(Event::NetworkRefused { host });
    }
    let _ = answer.send(Ok(()));
}

/// Records what is about to be typed into a command, and gives it back.
pub(super) async fn typed(journal: &mut Journal, run_id: RunId, typed: Box<Typed>, answer: Answer<Box<Typed>>) {
    record_typed(journal, run_id, &typed).await;
    let _ = answer.send(Ok(typed));
}

/// Records what is typed into a command, before the command can read it. A password that a terminal does not echo is not
/// kept, nor its length.
pub(super) async fn record_typed(journal: &mut Journal, run_id: RunId, typed: &Typed) {
    let mut input = match journal.mask().map(SessionMask::redactor) {
        _ if typed.hidden => Vec::new(),
        Some(redactor) => redactor.redact(&typed.bytes),
        None => typed.bytes[..typed.bytes.len().min(INPUT_KEPT)].to_vec(),
    };
    input.truncate(INPUT_KEPT);
    journal.record(Event::RunInput {
        run_id,
        bytes: (!typed.hidden).then_some(typed.bytes.len() as u64),
        input: ByteString(input),
        hidden: typed.hidden,
        end: typed.end,
        by: typed.typist.by.clone(),
    });
    journal.sync().await;
}

/// Saves the agent's state if the stored one is still the one that the caller expects.
pub(super) async fn save_agent_state(
    ctx: &SessionContext,
    journal: &mut Journal,
    save: SaveAgentState,
    author: Author,
) -> Result<AgentStateSaved, OpError> {
    check_kept(journal.mask(), "agent_state", &save.bytes)?;
    // Lost records are reported first, because that takes a number.
    journal.next_seq();
    let saved = offer_agent_state(ctx, journal, save, author).await;
    let on_disk = journal.settle().await?;
    saved.map(|mut saved| {
        saved.notices.extend(on_disk);
        saved
    })
}

async fn offer_agent_state(
    ctx: &SessionContext,
    journal: &mut Journal,
    save: SaveAgentState,
    author: Author,
) -> Result<AgentStateSaved, OpError> {
    let SaveAgentState { media_type, bytes, expected } = save;
    let current = journal.state().agent_state.as_ref().map(|state| state.version);
    if !expected.holds(current) {
        return Err(OpError::Record(RecordError::VersionConflict { current }));
    }
    let version = journal.state().last_agent_version() + 1;
    let is_large = bytes.len() > INLINE_BYTES;
    let (version, content) = match is_large {
        false => (version, Content::Inline(ByteString(bytes))),
        true => write_agent_state(ctx, journal.id(), version, bytes).await?,
    };
    let state = Box::new(AgentState { version, media_type, content });
    let offered = journal.offer(Event::AgentStateSaved { state, author });
    let notice = offered.map_err(|error| OpError::not_stored(&error))?;
    let notice = match ctx.shared_files() {
        // Another node continues with it, so it is there before the answer.
        Some(files) if is_large && !files.attached(journal.id()).await => notice.or(Some(told::not_copied())),
        _ => notice,
    };
    Ok(AgentStateSaved { version, seq: journal.state().seq, notices: notice.into_iter().collect() })
}

/// Writes a large state to its own file, before the record that names it.
async fn write_agent_state(
    ctx: &SessionContext,
    id: &SessionId,
    version: u64,
    bytes: Vec<u8>,
) -> Result<(u64, Content), OpError> {
    let (directory, durability) = (ctx.data_dir.outputs(id), ctx.durability());
    let written = tasks::blocking(move || {
        let version = state_file::free_version(&directory, version);
        state_file::write(&directory, version, &bytes, durability).map(|content| (version, content))
    });
    let unwritten = |error: io::Error| FilesReason::from(&error).of("cannot write the agent's state");
    written.await?.map_err(|error| OpError::not_stored(unwritten(error)))
}
