//! What people ask most, ready to be asked.

use crate::database::{Database, DatabaseError, Dialect, Found, Value};
use shellkeep_session::Timestamp;

/// The questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Messages of a session, in their order.
    Messages,
    /// Commands, newest first.
    Commands,
    /// Commands that failed, newest first.
    Failed,
    /// How often tools were called, and how long they took.
    Tools,
    /// Tokens that model calls used, by agent.
    Tokens,
    /// Sessions that have not been used for some days.
    Idle,
    /// Sessions, last used first.
    Sessions,
    /// Everything that is recorded of a session, in order.
    Records,
}

/// What an answer is limited to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    pub session: Option<String>,
    pub agent: Option<String>,
    /// Text that must occur.
    pub text: Option<String>,
    pub since: Option<Timestamp>,
    /// At least this many days without use.
    pub days: Option<u64>,
    /// At most this many rows.
    pub limit: u64,
}

/// Conditions and their values.
#[derive(Default)]
struct Where {
    conditions: Vec<String>,
    values: Vec<Value>,
}

impl Where {
    fn and(mut self, condition: &str, value: Option<Value>) -> Self {
        if let Some(value) = value {
            self.conditions.push(condition.to_owned());
            self.values.push(value);
        }
        self
    }

    fn sql(&self) -> String {
        match self.conditions.as_slice() {
            [] => String::new(),
            conditions => format!("WHERE {}", conditions.join(" AND ")),
        }
    }
}

/// Asks a question.
pub fn ask(database: &mut dyn Database, question: Question, filter: &Filter) -> Result<Found, DatabaseError> {
    let limits = filter.limits(question, database.dialect());
    let (select, rest) = statement(question, database.dialect());
    let sql = format!("SELECT {select} {} {rest} LIMIT {}", limits.sql(), filter.limit);
    database.query(&sql, &limits.values)
}

/// What is selected and from where, and what follows the conditions.
fn statement(question: Question, dialect: Dialect) -> (String, &'static str) {
    let commands = "started_at, session_id, agent, by_token, run_id, status, exit_code, duration_us, command";
    let (select, rest) = match question {
        Question::Messages => {
            ("session_id, seq_id, at, role, content FROM sk_v_messages", "ORDER BY session_id, seq_id")
        }
        Question::Commands => return (format!("{commands} FROM sk_v_commands"), "ORDER BY started_at DESC"),
        Question::Failed => return (format!("{commands} FROM sk_v_failed_commands"), "ORDER BY started_at DESC"),
        Question::Tools => (
            "tool, COUNT(*) AS calls, COUNT(CASE WHEN failed THEN 1 END) AS failed, AVG(duration) AS mean, \
             MAX(duration) AS longest FROM sk_v_tool_calls",
            "GROUP BY tool ORDER BY calls DESC, tool",
        ),
        Question::Tokens => return (tokens(dialect), "GROUP BY agent ORDER BY input_tokens DESC, agent"),
        Question::Idle => {
            ("session_id, agent, node, last_active_at, idle_days FROM sk_v_idle_sessions", "ORDER BY last_active_at")
        }
        Question::Sessions => (
            "session_id, agent, node, created_at, last_active_at, seq, ended_at, deleted_at FROM sk_sessions",
            "ORDER BY last_active_at DESC",
        ),
        Question::Records => ("session_id, seq, at, type, line FROM sk_records", "ORDER BY session_id, seq"),
    };
    (select.to_owned(), rest)
}

/// Sums of what may not be a number: frameworks write what they like there.
fn tokens(dialect: Dialect) -> String {
    let sum = |column: &str| match dialect {
        Dialect::Postgres => {
            format!("SUM(CASE WHEN {column} ~ '^[0-9]{{1,15}}$' THEN {column}::bigint ELSE 0 END)::bigint AS {column}")
        }
        Dialect::Mysql => format!(
            "CAST(SUM(CASE WHEN {column} REGEXP '^[0-9]{{1,15}}$' THEN CAST({column} AS UNSIGNED) ELSE 0 END) AS UNSIGNED) \
             AS {column}"
        ),
    };
    let sums = ["input_tokens", "output_tokens", "total_tokens"].map(sum).join(", ");
    format!("agent, COUNT(*) AS calls, {sums} FROM sk_v_llm_calls")
}

impl Filter {
    fn limits(&self, question: Question, dialect: Dialect) -> Where {
        let text = |column: &str| match dialect {
            Dialect::Postgres => format!("{column}::text LIKE ?"),
            Dialect::Mysql => format!("CAST({column} AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin LIKE ?"),
        };
        let (since, like) = match question {
            Question::Messages => ("at >= ?", text("content")),
            Question::Commands | Question::Failed => ("started_at >= ?", text("command")),
            Question::Tools => ("at >= ?", text("tool")),
            Question::Tokens => ("at >= ?", text("agent")),
            Question::Idle | Question::Sessions => ("last_active_at >= ?", text("session_id")),
            Question::Records => ("at >= ?", text("line")),
        };
        let pattern = self.text.as_ref().map(|text| Value::text(format!("%{}%", escaped(text))));
        let has_agent = question != Question::Records;
        Where::default()
            .and("session_id = ?", self.session.as_ref().map(Value::text))
            .and("agent = ?", self.agent.as_ref().filter(|_| has_agent).map(Value::text))
            .and(since, self.since.map(Value::time))
            .and(&like, pattern)
            .and("idle_days >= ?", self.days.filter(|_| question == Question::Idle).map(Value::count))
    }
}

/// A text in which `%`, `_` and the escape mean themselves.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}
