//! A run in the background, until its end.

use super::message::Message;
use crate::context::SessionContext;
use crate::running::{RunEvent, Running};
use crate::services::Room;
use shellkeep_session::SessionId;
use std::sync::Arc;

/// Drives a run in the background; its end comes back as a message.
pub(super) async fn drive(ctx: Arc<SessionContext>, id: SessionId, mut running: Running, Room(counted): Room) {
    loop {
        match running.step().await {
            RunEvent::Ended(ended) => {
                running.write_out().await;
                ctx.sync_files(running.cell.files()).await;
                if let Some(counted) = counted {
                    counted.end().await;
                }
                let end = Message::Detached { running: Box::new(running), ended };
                return ctx.registry.deliver_for_certain(&id, end).await;
            }
            RunEvent::Typed(typed) => {
                let run_id = running.cell.start.run_id.clone();
                let recorded = ctx.registry.ask(&id, |answer| Message::Typed { run_id, typed, answer }).await;
                // Input that was not recorded is not sent.
                if let Ok(typed) = recorded {
                    running.type_in(*typed);
                }
            }
            RunEvent::Continue | RunEvent::Detach => {}
        }
    }
}
