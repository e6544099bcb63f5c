//! What is measured, one file per figure.

mod against;
mod create;
mod crowd;
mod files;
mod fork;
mod greedy;
mod history;
mod hops;
mod hostile;
mod limits;
mod mcp;
mod nodes;
mod output;
mod record;
mod rungs;
mod scale;
mod spawn;
mod token_holder;
mod wake;
mod warm;

use crate::fallible::Fallible;
use crate::peers;
use crate::report::Report;
use crate::setup::Setup;

/// Measures something and adds it to the report.
type Figure = fn(&Setup, &mut Report) -> Fallible<()>;

/// Every figure by name, in the order of the table. The peers come last: they are compared with what came before.
pub const ALL: [(&str, Figure); 20] = [
    ("warm", warm::measure),
    ("hops", hops::measure),
    ("against", against::measure),
    ("mcp", mcp::measure),
    ("spawn", spawn::measure),
    ("fork", fork::measure),
    ("wake", wake::measure),
    ("rungs", rungs::measure),
    ("output", output::measure),
    ("record", record::measure),
    ("history", history::measure),
    ("nodes", nodes::measure),
    ("files", files::measure),
    ("crowd", crowd::measure),
    ("create", create::measure),
    ("greedy", greedy::measure),
    ("hostile", hostile::measure),
    ("limits", limits::measure),
    ("scale", scale::measure),
    ("peers", peers::measure),
];
