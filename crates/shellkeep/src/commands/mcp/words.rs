//! What a client is told about a request that the daemon did not answer. The reader is a model. Pure, so that tests are
//! tables.

use super::envelope::Envelope;
use serde_json::{Value, json};

/// JSON-RPC's code of an internal error. The codes of its own that MCP has mean other things.
const INTERNAL_ERROR: i64 = -32603;

/// Tools that change nothing.
const READ_ONLY: &[&str] = &["read_output", "list_services", "list_checkpoints", "diff", "read_screen"];

/// A request that waits for its answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    method: String,
    tool: Option<String>,
    has_key: bool,
}

impl Asked {
    /// What a message asks for, and its id; `None` if it is no request.
    pub fn of(message: Envelope) -> Option<(String, Self)> {
        let Envelope { id: Some(id), method: Some(method), tool, has_key, .. } = message else { return None };
        Some((id, Self { method, tool, has_key }))
    }

    /// Whether this is the client's handshake.
    pub fn is_hello(&self) -> bool {
        self.method == "initialize"
    }

    /// The daemon had the request, or most of it, when it went away.
    pub fn lost(&self) -> String {
        let (became, next) = match (self.method.as_str(), self.tool.as_deref()) {
            ("tools/call", Some(tool)) if READ_ONLY.contains(&tool) => ("Nothing was changed", "Call again"),
            ("tools/call", _) if self.has_key => (
                "Whether the command ran is unknown; it does not run on its own again",
                "Call again with the same request_id: nothing runs twice, and you get the result, or are told that it \
                 was lost",
            ),
            ("tools/call", Some("run_command")) => (
                "Whether the command ran is unknown, and it was not repeated",
                "Check what it did before you repeat it; the next command's notices say what was lost. A call with a \
                 request_id can be repeated safely",
            ),
            ("tools/call", Some("bash")) => (
                "Whether the command ran is unknown, and it was not repeated",
                "Check what it did before you repeat it; the next command's notices say what was lost",
            ),
            ("tools/call", Some("start_service" | "stop_service")) => {
                ("Whether it took effect is unknown", "Look with list_services before you repeat it")
            }
            ("tools/call", _) => ("Whether it took effect is unknown", "Check that before you repeat it"),
            ("initialize", _) => ("There is no handshake", "Initialize again"),
            _ => ("It was not answered", "Ask again"),
        };
        format!("the shellkeep daemon went away during this request. {became}. {next} (connection_lost)")
    }

    /// The daemon went away while the request was sent.
    pub fn cut() -> String {
        let became = "the shellkeep daemon went away before it had all of this request";
        format!("{became}. Nothing was done. Ask again (connection_lost)")
    }

    /// There is no daemon to send it to.
    pub fn unsent(reason: &str) -> String {
        format!(
            "this request did not reach the shellkeep daemon, and nothing was done: {reason}. The session is kept; ask \
             again later (connection_lost)"
        )
    }
}

/// An error as a line.
pub fn refusal(id: &str, words: &str) -> String {
    let id: Value = serde_json::from_str(id).unwrap_or_default();
    let error = json!({"code": INTERNAL_ERROR, "message": words, "data": {"code": "connection_lost"}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, tool: Option<&str>, has_key: bool) -> Asked {
        Asked { method: method.to_owned(), tool: tool.map(str::to_owned), has_key }
    }

    #[test]
    fn a_model_learns_what_became_of_its_call_and_what_to_do() {
        let call = "tools/call";
        for (asked, expected) in [
            (asked(call, Some("run_command"), true), "Call again with the same request_id"),
            (asked(call, Some("run_command"), false), "Check what it did before you repeat it"),
            (asked(call, Some("bash"), false), "Check what it did before you repeat it"),
            (asked(call, Some("read_output"), false), "Nothing was changed. Call again ("),
            (asked(call, Some("start_service"), false), "Look with list_services"),
            (asked(call, Some("rewind"), false), "Whether it took effect is unknown"),
            (asked(call, None, false), "Whether it took effect is unknown"),
            (asked("tools/list", None, false), "Ask again"),
        ] {
            assert!(asked.lost().contains(expected), "{asked:?}: {}", asked.lost());
        }
        assert!(!asked(call, Some("bash"), false).lost().contains("request_id"), "the classic tool has none");
    }

    #[test]
    fn an_id_stays_what_it_was() {
        for id in ["7", "\"a-1\""] {
            assert!(refusal(id, "x").contains(&format!("\"id\":{id}")), "{}", refusal(id, "x"));
        }
    }
}
