//! Checks all services periodically, and stops idle ones.

use super::{Order, ServiceStop, Services, Supervised};
use crate::ops::STOP_GRACE;
use crate::tasks;
use shellkeep_process::ports::SocketTables;
use shellkeep_process::proc::Stat;
use shellkeep_process::service::log::ServiceLog;
use shellkeep_session::Timestamp;
use shellkeep_session::service::Sample;
use std::time::Duration;

/// Checks every service once, and stops those that were idle for `idle`. Returns how many it stopped.
pub(crate) async fn look(services: &Services, now: Timestamp, idle: Option<Duration>) -> usize {
    let looked = services.with_members(services.list(|_| true)).await;
    let sampling = tasks::blocking(move || {
        let mut tables = SocketTables::default();
        for (seen, members) in &looked {
            seen.activity().take(sample(seen, members, &mut tables), now);
        }
        looked
    });
    let Ok(looked) = sampling.await else { return 0 };
    let Some(idle) = idle else { return 0 };
    let mut stopped = 0;
    for (seen, _) in looked {
        let quiet = Duration::try_from(now.duration_since(seen.activity().last_active)).unwrap_or_default();
        if quiet >= idle && seen.facts().stamps.is_some() {
            stopped += 1;
            seen.tell(Order::Stop { grace: STOP_GRACE, reason: ServiceStop::Idle(quiet) }).await;
        }
    }
    stopped
}

fn sample(seen: &Supervised, members: &[Stat], tables: &mut SocketTables) -> Sample {
    let pids: Vec<u32> = members.iter().map(|stat| stat.pid).collect();
    Sample {
        log_end: ServiceLog::at(&seen.directory).bounds().map_or(0, |(_, end)| end),
        cpu_ticks: members.iter().map(|stat| stat.cpu_ticks).sum(),
        processes: members.len(),
        connections: tables.of(&pids).connections,
    }
}
