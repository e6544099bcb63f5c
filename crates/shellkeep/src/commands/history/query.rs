//! `shellkeep history query`: ready questions, and SQL for the rest.

use crate::config::{Layer, Settings, environment};
use crate::failure::{CANNOT_START, Failure};
use crate::terminal::{self, Cell, Column, Table, TableArgs};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser as _};
use clap::{Args, ValueHint};
use serde_json::{Map, Value as Json, json};
use shellkeep_history::questions::{self, Question, QuestionFilter};
use shellkeep_history::{Found, Value, schema};
use shellkeep_session::{Timestamp, typed_time};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `history query`.
#[derive(Debug, Args)]
#[command(
    after_help = "The database is named by --history, SHELLKEEP_HISTORY, or `history` in the configuration file. With --history, other
users of this machine can see the password in the list of processes; SHELLKEEP_HISTORY does not show it.
--sql runs one statement that may not change anything. docs/history.md describes the tables and views. Times are UTC.

Examples:
  shellkeep history query failed --agent ann --since today     failed commands of an agent today
  shellkeep history query commands --contains 'git push'       who ran it
  shellkeep history query messages -s thread_ann_1             messages of a thread
  shellkeep history query tools --since 7d                     durations by tool
  shellkeep history query tokens --since 2026-11-01 --csv      tokens spent, for a spreadsheet
  shellkeep history query idle --days 30 --json | jq -r '.rows[].session_id'
  shellkeep history query --sql \"SELECT agent, COUNT(*) FROM sk_v_commands GROUP BY agent\"

Exit codes: 0 done, 1 not done (the database cannot be reached, the query failed), 2 wrong usage."
)]
pub struct QueryArgs {
    /// What to ask
    #[arg(value_name = "QUESTION", value_parser = question(), required_unless_present = "sql")]
    question: Option<Question>,
    /// Run this SQL statement instead
    #[arg(long, value_name = "SQL", conflicts_with_all = ["question", "session", "agent", "contains", "since", "days", "limit"])]
    sql: Option<String>,
    /// Only of this session
    #[arg(short, long, value_name = "SESSION")]
    session: Option<String>,
    /// Only of this agent
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// Only with this text: in the message, the command, the name of the tool, agent or session, or the record
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,
    /// Only since this time: today, 2h, 7d, 2026-11-16, 2026-11-16 16:36
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// Only sessions that nobody has used for this many days (for the question idle)
    #[arg(long, value_name = "N")]
    days: Option<u64>,
    /// Maximum number of rows
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    limit: u64,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV with a header
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    table: TableArgs,
    /// The database [env: SHELLKEEP_HISTORY]
    #[arg(long, value_name = "URL")]
    history: Option<String>,
    /// Read this configuration file [default: $XDG_CONFIG_HOME/shellkeep/config.toml, if it exists]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
}

fn question() -> impl clap::builder::TypedValueParser<Value = Question> {
    let named = |question: Question| PossibleValue::new(question.name()).help(question.about());
    PossibleValuesParser::new(Question::ALL.map(named)).try_map(|name| Question::parse(&name).ok_or("no such question"))
}

fn time(text: &str) -> Result<Timestamp, String> {
    let text = if text == "today" { "today 00:00" } else { text };
    let at = text.parse().ok().or_else(|| typed_time::parse(text, Timestamp::now()));
    at.ok_or_else(|| format!("write a time such as today, {}", typed_time::EXAMPLES))
}

pub fn execute(args: QueryArgs) -> Result<ExitCode, Failure> {
    if args.days.is_some() && args.question != Some(Question::Idle) {
        let message = "--days is for the question idle; for others use --since, as in `--since 7d`";
        return Err(Failure::new(CANNOT_START, message));
    }
    let found = find(&args)?;
    if args.json {
        terminal::json(&json!({"rows": as_json(&found, args.question.and_then(Question::json_column))}))?;
    } else if args.csv {
        terminal::text(&as_csv(&found));
    } else {
        terminal::show(&as_table(&found), args.table, "no rows");
    }
    Ok(ExitCode::SUCCESS)
}

fn find(args: &QueryArgs) -> Result<Found, Failure> {
    let flags = Layer { history: args.history.clone(), ..Layer::default() };
    let url = Settings::load(flags, args.config.as_deref(), &environment)?.history.value;
    if url.is_empty() {
        let message = "no history database is configured; pass --history URL, or set SHELLKEEP_HISTORY, or `history` in \
                       the configuration file";
        return Err(Failure::client(message));
    }
    let mut database = shellkeep_history::open(&url).map_err(Failure::client)?;
    match (&args.sql, args.question) {
        (Some(sql), _) => questions::read_only(&mut *database, sql).map_err(Failure::client),
        (None, Some(question)) => {
            schema::check(&mut *database).map_err(Failure::client)?;
            let filter = QuestionFilter {
                session: args.session.clone(),
                agent: args.agent.clone(),
                contains: args.contains.clone(),
                since: args.since,
                days: args.days,
                limit: args.limit,
            };
            questions::ask(&mut *database, question, &filter).map_err(Failure::client)
        }
        (None, None) => Err(Failure::new(CANNOT_START, "name a question, or pass --sql")),
    }
}

/// Each row by its columns. JSON in a column is shown as such.
fn as_json(found: &Found, json_column: Option<&str>) -> Vec<Map<String, Json>> {
    let value = |(column, value): (&String, &Value)| {
        let shown = match value {
            Value::Null => Json::Null,
            Value::Int(number) => json!(number),
            Value::Float(number) => json!(number),
            Value::Text(text) if json_column == Some(column) => serde_json::from_str(text).unwrap_or(json!(text)),
            other => json!(as_text(other)),
        };
        (column.clone(), shown)
    };
    found.rows.iter().map(|row| found.columns.iter().zip(row).map(value).collect()).collect()
}

/// Lines as RFC 4180 has them.
fn as_csv(found: &Found) -> String {
    let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let header = found.columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",");
    let line = |row: &Vec<Value>| row.iter().map(|value| quoted(&as_text(value))).collect::<Vec<_>>().join(",");
    std::iter::once(header).chain(found.rows.iter().map(line)).map(|line| line + "\r\n").collect()
}

/// A value as text; bytes that are not text as PostgreSQL writes them.
fn as_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().fold("\\x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
        },
        Value::Time(_) => value.as_time().map_or_else(String::new, |at| at.to_string()),
    }
}

fn as_table(found: &Found) -> Table {
    let column = |(place, name): (usize, &String)| {
        let values = || found.rows.iter().map(|row| &row[place]).filter(|value| **value != Value::Null);
        let all = |is: fn(&Value) -> bool| values().next().is_some() && values().all(is);
        match name.as_str() {
            "session_id" => Column::id("session"),
            "run_id" => Column::word("run").if_room(),
            "by_token" => Column::id("token").if_room(),
            "node" => Column::id("node").if_room(),
            "agent" => Column::id("agent"),
            "started_at" | "at" | "last_active_at" => Column::word("when"),
            "exit_code" => Column::number("exit"),
            name if all(|value| matches!(value, Value::Int(_) | Value::Float(_))) => Column::number(name.to_owned()),
            name if all(|value| matches!(value, Value::Time(_))) => Column::word(name.to_owned()).if_room(),
            name => Column::text(name.to_owned()),
        }
    };
    let cell = |value: &Value| match value {
        Value::Null => Cell::dash(),
        Value::Float(number) => Cell::short(number.to_string(), format!("{number:.3}")),
        Value::Time(_) => Cell::time(&as_text(value)),
        other => Cell::new(as_text(other)),
    };
    let columns = found.columns.iter().enumerate().map(column).collect();
    Table::of_columns(columns, found.rows.iter().map(|row| row.iter().map(cell).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        let row = |command: &str, code: Value| vec![Value::text("s"), code, Value::text(command), Value::Float(0.25)];
        let columns = ["session_id", "exit_code", "command", "seconds"].map(str::to_owned).into();
        Found { columns, rows: vec![row("echo \"a, b\"", Value::Int(2)), row("true", Value::Null)] }
    }

    #[test]
    fn rows_become_csv_and_json() {
        let csv = "session_id,exit_code,command,seconds\r\ns,2,\"echo \"\"a, b\"\"\",0.25\r\ns,,true,0.25\r\n";
        assert_eq!(as_csv(&found()), csv);
        let rows = as_json(&found(), None);
        assert_eq!(rows[1]["exit_code"], Json::Null);
        assert_eq!(rows[0]["command"], "echo \"a, b\"");
        assert_eq!(as_text(&Value::Bytes(vec![0xff, 0])), "\\xff00");
    }

    #[test]
    fn a_table_fits_a_terminal() {
        let mut found = found();
        found.rows[0][2] = Value::text("x".repeat(300));
        let text = as_table(&found).aligned(Some(80), false);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.starts_with("SESSION  EXIT  COMMAND"), "{text}");
    }
}
