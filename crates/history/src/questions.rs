//! What people ask most, as queries that are ready to use, and any other query in a read-only transaction.

use crate::database::{Database, DatabaseError, Dialect, Found, Value};
use shellkeep_session::Timestamp;

/// The questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Messages,
    Commands,
    Failed,
    Tools,
    Tokens,
    Idle,
    Sessions,
    Records,
}

impl Question {
    pub const ALL: [Self; 8] = [
        Self::Messages,
        Self::Commands,
        Self::Failed,
        Self::Tools,
        Self::Tokens,
        Self::Idle,
        Self::Sessions,
        Self::Records,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Commands => "commands",
            Self::Failed => "failed",
            Self::Tools => "tools",
            Self::Tokens => "tokens",
            Self::Idle => "idle",
            Self::Sessions => "sessions",
            Self::Records => "records",
        }
    }

    /// What it lists.
    pub fn about(self) -> &'static str {
        match self {
            Self::Messages => "messages of a session, in order",
            Self::Commands => "who ran which command, newest first",
            Self::Failed => "commands that failed, newest first",
            Self::Tools => "calls, failures and durations of each tool",
            Self::Tokens => "tokens that model calls used, by agent",
            Self::Idle => "sessions that nobody uses, longest first",
            Self::Sessions => "sessions, last used first",
            Self::Records => "everything that was recorded, in order",
        }
    }

    /// The question of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.name() == name)
    }

    /// The column with JSON in it, if there is one.
    pub fn json_column(self) -> Option<&'static str> {
        match self {
            Self::Messages => Some("content"),
            Self::Records => Some("line"),
            Self::Commands | Self::Failed | Self::Tools | Self::Tokens | Self::Idle | Self::Sessions => None,
        }
    }
}

/// What an answer is limited to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QuestionFilter {
    pub session: Option<String>,
    pub agent: Option<String>,
    /// Text that must occur: in the message, the command, the tool's name, the record.
    pub contains: Option<String>,
    pub since: Option<Timestamp>,
    /// At least this many days without use.
    pub days: Option<u64>,
    /// At most this many rows.
    pub limit: u64,
}

/// Asks a question.
pub fn ask(database: &mut dyn Database, question: Question, filter: &QuestionFilter) -> Result<Found, DatabaseError> {
    let Query { select, from, time, text, rest } = query(question, database.dialect());
    let mut conditions: Vec<String> = Vec::new();
    let mut values = Vec::new();
    let pattern = filter.contains.as_ref().map(|text| Value::text(format!("%{}%", escaped(text))));
    let parts = [
        ("session_id = ?".to_owned(), filter.session.as_ref().map(Value::text)),
        ("agent = ?".to_owned(), filter.agent.as_ref().map(Value::text)),
        (format!("{time} >= ?"), filter.since.map(Value::time)),
        (like(database.dialect(), text), pattern),
        ("idle_days >= ?".to_owned(), filter.days.filter(|_| question == Question::Idle).map(Value::count)),
    ];
    for (condition, value) in parts {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value);
        }
    }
    let conditions = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    let sql = format!("SELECT {select} FROM {from} {conditions} {rest} LIMIT {}", filter.limit);
    database.query(&sql, &values)
}

/// Runs one statement that may not change anything.
pub fn read_only(database: &mut dyn Database, sql: &str) -> Result<Found, DatabaseError> {
    // For the session: a statement that ends the transaction could change something after it.
    match database.dialect() {
        Dialect::Postgres => database.run("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")?,
        Dialect::Mysql => database.run("SET SESSION TRANSACTION READ ONLY")?,
    }
    database.query(sql.trim().trim_end_matches(';'), &[])
}

/// The parts of a query.
struct Query {
    select: String,
    from: &'static str,
    /// The column that `since` compares.
    time: &'static str,
    /// The column that `contains` searches.
    text: &'static str,
    /// What follows the conditions.
    rest: &'static str,
}

fn query(question: Question, dialect: Dialect) -> Query {
    let seconds = match dialect {
        Dialect::Postgres => "duration_us / 1e6::double precision AS seconds",
        Dialect::Mysql => "duration_us / 1e6 AS seconds",
    };
    let commands = || format!("started_at, session_id, agent, by_token, run_id, status, exit_code, {seconds}, command");
    let (select, from, time, text, rest) = match question {
        Question::Messages => (
            "session_id, seq_id, at, role, content".to_owned(),
            "sk_v_messages",
            "at",
            "content",
            "ORDER BY session_id, seq_id",
        ),
        Question::Commands => (commands(), "sk_v_commands", "started_at", "command", "ORDER BY started_at DESC"),
        Question::Failed => (commands(), "sk_v_failed_commands", "started_at", "command", "ORDER BY started_at DESC"),
        Question::Tools => (
            "tool, COUNT(*) AS calls, COUNT(CASE WHEN failed THEN 1 END) AS failed, AVG(duration) AS mean_seconds, \
             MAX(duration) AS longest"
                .to_owned(),
            "sk_v_tool_calls",
            "at",
            "tool",
            "GROUP BY tool ORDER BY calls DESC, tool",
        ),
        Question::Tokens => {
            (tokens(dialect), "sk_v_llm_calls", "at", "agent", "GROUP BY agent ORDER BY input_tokens DESC, agent")
        }
        Question::Idle => (
            "session_id, agent, node, last_active_at, idle_days".to_owned(),
            "sk_v_idle_sessions",
            "last_active_at",
            "session_id",
            "ORDER BY last_active_at",
        ),
        Question::Sessions => (
            "session_id, agent, node, last_active_at, seq, created_at, ended_at, deleted_at".to_owned(),
            "sk_sessions",
            "last_active_at",
            "session_id",
            "ORDER BY last_active_at DESC",
        ),
        Question::Records => (
            "session_id, seq, at, type, line".to_owned(),
            "(SELECT r.session_id, s.agent, r.seq, r.at, r.type, r.line FROM sk_records r \
             LEFT JOIN sk_sessions s ON s.session_id = r.session_id) records",
            "at",
            "line",
            "ORDER BY session_id, seq",
        ),
    };
    Query { select, from, time, text, rest }
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
    format!("agent, COUNT(*) AS calls, {sums}")
}

/// Whether a column of any type has a text in it.
fn like(dialect: Dialect, column: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("{column}::text LIKE ?"),
        Dialect::Mysql => format!("CAST({column} AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin LIKE ?"),
    }
}

/// A text in which `%`, `_` and the escape mean themselves.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_found_by_its_name() {
        for question in Question::ALL {
            assert_eq!(Question::parse(question.name()), Some(question));
        }
        assert_eq!(Question::parse("everything"), None);
    }

    #[test]
    fn a_text_is_searched_as_it_is() {
        assert_eq!(escaped(r"100%_\"), r"100\%\_\\");
    }
}
