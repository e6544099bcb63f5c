//! Prints sessions.

use crate::failure::Failure;
use crate::terminal::{self, Cell, Column, Fields, Table, TableArgs};
use serde_json::Value;
use shellkeep_protocol::state::VariableView;
use shellkeep_protocol::text::Bytes;
use shellkeep_protocol::{Held, NetworkName, SandboxInForce, SandboxName, SandboxSource, Session, StateResponse};
use shellkeep_session::Timestamp;
use shellkeep_terminal::words;
use std::collections::BTreeMap;

/// Sessions, one per row.
pub fn table(sessions: Vec<Session>, args: TableArgs, flags: &str) {
    let columns = [
        Column::id("session"),
        Column::text("agent").if_any(),
        Column::number("shell").if_room(),
        Column::number("seq").if_room(),
        Column::word("last active"),
        Column::text("cwd"),
        Column::word("sandbox").if_any(),
        Column::text("held").if_any(),
    ];
    let rows = sessions.into_iter().map(|session| {
        let sandbox = session.sandbox.filter(|sandbox| *sandbox != SandboxName::None);
        [
            session.session_id.into(),
            Cell::or_dash(session.agent),
            Cell::or_dash(session.shell_pid.map(|pid| pid.to_string())),
            session.seq.to_string().into(),
            Cell::time(&session.last_active_at),
            terminal::path(&session.cwd),
            Cell::or_dash(sandbox.map(|sandbox| sandbox.as_str().to_owned())),
            session.held.as_ref().map_or_else(Cell::dash, held),
        ]
    });
    let when_empty = format!("no sessions; `shellkeep run -s NAME{flags} -- COMMAND` creates one");
    terminal::show(&Table::new(columns, rows.collect()), args, &when_empty);
}

/// Who holds a session, and until when.
fn held(held: &Held) -> Cell {
    let Held { holder, until, .. } = held;
    let left = until.parse::<Timestamp>().map(|until| until.duration_since(Timestamp::now()).as_secs_f64());
    let short = left.map_or_else(|_| holder.clone(), |left| format!("{holder}, {} left", words::span(left)));
    Cell::short(format!("{holder} until {until}"), short)
}

/// Sessions that agents deleted, one per row.
pub fn deleted(sessions: Vec<Session>, args: TableArgs) {
    let columns = [
        Column::id("kept as"),
        Column::text("agent"),
        Column::id("deleted by"),
        Column::word("when"),
        Column::number("seq").if_room(),
    ];
    let rows = sessions.into_iter().map(|session| {
        let (by, at) = session.deleted.map_or((None, None), |deleted| (deleted.by, Some(deleted.at)));
        [
            session.session_id.into(),
            Cell::or_dash(session.agent),
            Cell::or_dash(by),
            at.map_or_else(Cell::dash, |at| Cell::time(&at)),
            session.seq.to_string().into(),
        ]
    });
    terminal::show(&Table::new(columns, rows.collect()), args, "no agent has deleted a session");
}

/// One session, with how it is confined if that is known.
pub fn session(session: &Session, sandbox: Option<&SandboxInForce>) -> Result<(), Failure> {
    if !terminal::is_terminal() {
        return raw(session);
    }
    let shell = match (session.shell_pid, session.generation) {
        (Some(pid), 1) => format!("pid {pid}"),
        (Some(pid), shells) => format!("pid {pid}, number {shells} of this session"),
        (None, _) => "none; the next command starts one".to_owned(),
    };
    let origin = session.forked_from.as_ref();
    let origin = origin.map(|from| format!("{}, after record {}", from.session_id, from.seq));
    let deleted = session.deleted.as_ref();
    let deleted = deleted.map(|deleted| Cell::short(&deleted.at, terminal::moment(&deleted.at)));
    let config = settings(&session.agent_config);
    let fields = Fields::new()
        .with("session", session.session_id.as_str())
        .maybe("agent", session.agent.as_deref())
        .with("directory", terminal::path(&session.cwd))
        .with("workspace", terminal::path(&session.workspace))
        .with("shell", shell)
        .maybe("sandbox", sandbox.map(confined))
        .maybe("secrets", (!session.secrets.is_empty()).then(|| session.secrets.join(", ")))
        .maybe("held", session.held.as_ref().map(held_in_full))
        .with("created", terminal::moment(&session.created_at))
        .with("last active", terminal::moment(&session.last_active_at))
        .with("records", session.seq.to_string())
        .maybe("forked from", origin)
        .maybe("deleted", deleted)
        .maybe("config", (!config.is_empty()).then(|| config.join("\n")));
    terminal::fields(&fields);
    Ok(())
}

/// Who holds a session, until when and why.
fn held_in_full(held: &Held) -> String {
    let reason = held.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let until = held.until.parse::<Timestamp>().map(|until| until.strftime("%H:%M:%S").to_string());
    format!("by {} until {} UTC{reason}", held.holder, until.unwrap_or_else(|_| held.until.clone()))
}

/// How a session is confined.
pub fn sandbox(sandbox: &SandboxInForce) -> Result<(), Failure> {
    if !terminal::is_terminal() {
        return raw(sandbox);
    }
    let list = |values: &[String]| (!values.is_empty()).then(|| values.join("\n"));
    let fields = Fields::new()
        .with("session", sandbox.session_id.as_str())
        .with("sandbox", confined(sandbox))
        .maybe("unavailable", sandbox.unavailable.as_deref())
        .maybe("not stopped", list(&sandbox.missing))
        .maybe("network", sandbox.network.map(network))
        .maybe("connects to", list(&sandbox.hosts))
        .maybe("home", sandbox.home.as_deref())
        .maybe("writes", list(&sandbox.write))
        .maybe("reads", list(&sandbox.read));
    terminal::fields(&fields);
    Ok(())
}

fn network(network: NetworkName) -> &'static str {
    match network {
        NetworkName::None => "none, only its own loopback",
        NetworkName::Full => "that of the machine",
    }
}

/// The sandbox and who set it, in a few words.
fn confined(sandbox: &SandboxInForce) -> String {
    let name = sandbox.sandbox.as_str();
    match (sandbox.sandbox, sandbox.set_by) {
        (SandboxName::None, _) | (_, SandboxSource::Session) => name.to_owned(),
        (_, SandboxSource::Node) => format!("{name}, set for all sessions"),
    }
}

/// The state of a session's shell.
pub fn state(state: &StateResponse) -> Result<(), Failure> {
    if !terminal::is_terminal() {
        return raw(state);
    }
    let list = |values: &[String]| (!values.is_empty()).then(|| values.join(" "));
    let pairs = |values: &BTreeMap<String, String>| {
        let lines: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    let own: Vec<String> = state
        .variables
        .iter()
        .filter(|(name, _)| !state.env.contains_key(*name))
        .map(|(name, variable)| format!("{name}={}", value(variable)))
        .collect();
    let functions: Vec<String> = state.functions.keys().cloned().collect();
    let fields = Fields::new()
        .with("directory", terminal::path(&state.cwd))
        .with("exit code", state.status.to_string())
        .maybe("umask", state.umask.as_deref())
        .maybe("set -o", list(&state.options.set))
        .maybe("shopt", list(&state.options.shopt))
        .maybe("functions", list(&functions))
        .maybe("aliases", pairs(&state.aliases))
        .maybe("traps", pairs(&state.traps))
        .maybe("disabled", list(&state.disabled_builtins))
        .maybe("exported", pairs(&state.env))
        .maybe("variables", (!own.is_empty()).then(|| own.join("\n")));
    terminal::fields(&fields);
    Ok(())
}

/// A variable as a `declare` command.
fn value(variable: &VariableView) -> String {
    if let Some(value) = &variable.value {
        return shown(value);
    }
    if let Some(elements) = &variable.array {
        let elements: Vec<String> =
            elements.iter().map(|(index, value)| format!("[{index}]={}", shown(value))).collect();
        return format!("({})", elements.join(" "));
    }
    if let Some(map) = &variable.map {
        let elements: Vec<String> = map.iter().map(|(key, value)| format!("[{key}]={}", shown(value))).collect();
        return format!("({})", elements.join(" "));
    }
    String::new()
}

fn shown(value: &Bytes) -> String {
    match value {
        Bytes::Text(text) => text.clone(),
        Bytes::Binary { base64 } => format!("(base64 {base64})"),
    }
}

/// The leaves of a JSON object, one per line: `agent.program = python3`.
fn settings(config: &Value) -> Vec<String> {
    fn gather(name: &str, value: &Value, lines: &mut Vec<String>) {
        let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| gather(&below(key), value, lines)),
            Value::Array(items) => {
                lines.push(format!("{name} = {}", items.iter().map(bare).collect::<Vec<_>>().join(" ")));
            }
            other => lines.push(format!("{name} = {}", bare(other))),
        }
    }
    let mut lines = Vec::new();
    if !config.is_null() {
        gather("", config, &mut lines);
    }
    lines
}

/// For a program: every field of the JSON, one per line.
fn raw(value: &impl serde::Serialize) -> Result<(), Failure> {
    let Value::Object(fields) = serde_json::to_value(value).map_err(Failure::client)? else { return Ok(()) };
    let text = |value: &Value| match value {
        Value::Object(map) => {
            map.iter().map(|(name, value)| format!("{name}={}", bare(value))).collect::<Vec<_>>().join("\n")
        }
        other => bare(other),
    };
    for (name, value) in &fields {
        terminal::line(format!("{name}\t{}", terminal::harmless(&text(value))));
    }
    Ok(())
}

fn bare(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
