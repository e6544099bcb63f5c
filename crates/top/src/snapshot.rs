//! One look at the node as plain text, for a pipe or a file.

use super::quotas::{amount, sorted};
use shellkeep_protocol::{LimitChange, Node, Quota, RunningCommand, Service};
use shellkeep_session::Timestamp;
use shellkeep_terminal::words;
use std::fmt::Write as _;

/// Blanks between two columns.
const GAP: usize = 2;

/// The node and its services.
pub fn text(node: &Node, services: &[Service], now: Timestamp) -> String {
    let mut out = String::new();
    for (name, value) in facts(node) {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name:<14}{value}");
    }
    if !node.commands.is_empty() {
        let rows: Vec<Vec<String>> = node.commands.iter().map(command_row).collect();
        section(&mut out, &["FOR", "SESSION", "AGENT", "RUN", "COMMAND"], &rows);
    }
    section(&mut out, &["QUOTA", "USED", "IN FORCE", "CONFIGURED"], &quota_rows(node));
    if !services.is_empty() {
        let rows: Vec<Vec<String>> = services.iter().map(|service| service_row(service, now)).collect();
        section(
            &mut out,
            &["SERVICE", "SESSION", "AGENT", "NAME", "STATUS", "PID", "PORTS", "ACTIVE", "LOG", "RESTARTS"],
            &rows,
        );
    }
    if !node.quotas.changes.is_empty() {
        let rows: Vec<Vec<String>> = node.quotas.changes.iter().map(|change| change_row(change, now)).collect();
        section(&mut out, &["CHANGED", "LIMIT", "FROM", "TO", "REASON"], &rows);
    }
    out
}

fn facts(node: &Node) -> Vec<(&'static str, String)> {
    let count = |number: usize| words::count(number as u64);
    let mut facts = vec![
        ("up", words::span(node.uptime)),
        ("sessions", count(node.sessions)),
        ("shells", format!("{} live, {} spare", count(node.live_shells), count(node.spare_shells))),
        (
            "commands",
            format!(
                "{} so far, {} of {} running, {} waiting of {}",
                words::count(node.commands_total),
                count(node.running),
                count(node.running_limit),
                count(node.waiting),
                words::counted(node.agents_waiting, "agent"),
            ),
        ),
        ("services", count(node.services)),
        ("processes", words::count(node.processes)),
        (
            "memory",
            format!(
                "{} of the daemon, {} of the machine free",
                words::bytes(node.memory),
                words::percent(node.memory_free)
            ),
        ),
        (
            "pressure",
            format!("cpu {}, memory {}", words::percent(node.cpu_pressure), words::percent(node.memory_pressure)),
        ),
    ];
    facts.extend(node.problems.iter().map(|problem| ("degraded", words::clean(problem))));
    facts
}

fn quota_rows(node: &Node) -> Vec<Vec<String>> {
    let row = |(name, quota): (&str, &Quota)| {
        let used = quota.used.map(|used| amount(name, used)).unwrap_or_default();
        vec![name.to_owned(), used, amount(name, quota.limit), amount(name, quota.configured)]
    };
    sorted(&node.quotas.quotas).into_iter().map(row).collect()
}

fn command_row(command: &RunningCommand) -> Vec<String> {
    vec![
        words::span(command.seconds).replace(' ', ""),
        command.session_id.clone(),
        command.agent.clone().unwrap_or_default(),
        command.run_id.clone(),
        command.command.trim_end().to_owned(),
    ]
}

fn service_row(service: &Service, now: Timestamp) -> Vec<String> {
    let ports: Vec<String> = service.ports.iter().map(u16::to_string).collect();
    vec![
        service.service_id.clone(),
        service.session_id.clone(),
        service.agent.clone().unwrap_or_default(),
        service.name.clone(),
        service.status.as_str().to_owned(),
        service.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        ports.join(","),
        words::ago(now, &service.last_active_at),
        words::bytes(service.log_bytes),
        service.restarts.to_string(),
    ]
}

fn change_row(change: &LimitChange, now: Timestamp) -> Vec<String> {
    vec![
        words::ago(now, &change.at),
        change.limit.clone(),
        words::count(change.from),
        words::count(change.to),
        change.reason.clone(),
    ]
}

/// A blank line, a heading and rows, in columns as wide as they need. What is empty is a dash, so that there are always
/// as many words.
fn section(out: &mut String, heading: &[&str], rows: &[Vec<String>]) {
    let mut lines = vec![heading.iter().map(|&word| word.to_owned()).collect::<Vec<String>>()];
    lines.extend(rows.iter().map(|row| row.iter().map(|word| cell(word)).collect()));
    let width = |place: usize| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0) + GAP;
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    out.push('\n');
    for line in lines {
        let padded: String = line.iter().zip(&widths).map(|(word, width)| format!("{word:<width$}")).collect();
        let _ = writeln!(out, "{}", padded.trim_end());
    }
}

fn cell(word: &str) -> String {
    if word.is_empty() { "-".to_owned() } else { words::clean(word) }
}
