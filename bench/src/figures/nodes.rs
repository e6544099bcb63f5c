//! Nodes that share a store in Redis: what that costs a command, what a session costs in Redis, and what it costs to go
//! through another node or to move there. Redis and all nodes are on this machine, and take their processor time from the
//! same cores.

mod command;
mod dormant;
mod forward;
mod moved;
mod start;

use crate::fallible::Fallible;
use crate::report::Report;
use crate::setup::Setup;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    command::latency(setup, report)?;
    command::crowd(setup, report)?;
    command::three(setup, report)?;
    forward::measure(setup, report)?;
    moved::measure(setup, report)?;
    dormant::measure(setup, report)
}
