//! What a JSON-RPC message is about, read while its bytes pass by: a message may be as long as 64 MiB, and its id may
//! come last.

use serde_json::Value;

/// How deep the values are that are read: `params.arguments.request_id`.
const DEEPEST: usize = 3;

/// Longest key and value that is read, in bytes. A longer one is none of those that are looked for.
const LONGEST: usize = 1024;

/// What is known of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// Its id as JSON, if it has one.
    pub id: Option<String>,
    /// Its method; a response has none.
    pub method: Option<String>,
    /// The tool that it calls.
    pub tool: Option<String>,
    /// Whether the call has an idempotency key.
    pub has_key: bool,
    /// The id of the request that it cancels, as JSON.
    pub cancels: Option<String>,
}

/// Reads a message in pieces.
#[derive(Debug, Default)]
pub struct Reader {
    found: Envelope,
    depth: usize,
    /// Whether each of the outer levels is an object, and the key that is read in it.
    levels: [Level; DEEPEST],
    /// The key or value that is read now.
    token: Vec<u8>,
    in_string: bool,
    is_escaped: bool,
    /// Whether the next string is a key.
    expects_key: bool,
}

#[derive(Debug, Default)]
struct Level {
    is_object: bool,
    key: Vec<u8>,
}

impl Reader {
    /// Reads the next bytes of the message.
    pub fn read(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    /// What the message turned out to be.
    pub fn finish(mut self) -> Envelope {
        self.end_token();
        self.found
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => {
                    self.in_string = false;
                    self.end_token();
                }
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.end_token();
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.open(byte == b'{'),
            b'}' | b']' => {
                self.end_token();
                self.depth = self.depth.saturating_sub(1);
                self.expects_key = false;
            }
            b',' => {
                self.end_token();
                self.expects_key = self.level().is_some_and(|level| level.is_object);
            }
            b':' => self.expects_key = false,
            b' ' | b'\t' | b'\r' | b'\n' => self.end_token(),
            _ => self.keep(byte),
        }
    }

    fn level(&mut self) -> Option<&mut Level> {
        self.levels.get_mut(self.depth.checked_sub(1)?)
    }

    fn open(&mut self, is_object: bool) {
        self.end_token();
        self.depth += 1;
        self.expects_key = is_object && self.depth <= DEEPEST;
        if let Some(level) = self.level() {
            *level = Level { is_object, key: Vec::new() };
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth <= DEEPEST && self.token.len() <= LONGEST {
            self.token.push(byte);
        }
    }

    /// A key or a value has ended.
    fn end_token(&mut self) {
        let token = std::mem::take(&mut self.token);
        if token.is_empty() {
            return;
        }
        let is_whole = token.len() <= LONGEST;
        if std::mem::take(&mut self.expects_key) {
            if let Some(level) = self.level() {
                level.key = if is_whole { token } else { Vec::new() };
            }
            return;
        }
        if !is_whole {
            return;
        }
        let path: Vec<&[u8]> =
            self.levels.iter().take(self.depth).filter(|level| level.is_object).map(|level| &*level.key).collect();
        if path.len() != self.depth {
            return;
        }
        match path.as_slice() {
            [b"\"id\""] => self.found.id = id(&token),
            [b"\"method\""] => self.found.method = text(&token),
            [b"\"params\"", b"\"name\""] => self.found.tool = text(&token),
            [b"\"params\"", b"\"requestId\""] => self.found.cancels = id(&token),
            [b"\"params\"", b"\"arguments\"", b"\"request_id\""] => self.found.has_key = token != b"null",
            _ => {}
        }
    }
}

/// An id in the one form in which it can be compared.
fn id(token: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(token).ok()?;
    (value.is_number() || value.is_string()).then(|| value.to_string())
}

fn text(token: &[u8]) -> Option<String> {
    serde_json::from_slice(token).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, piece: usize) -> Envelope {
        let mut reader = Reader::default();
        text.as_bytes().chunks(piece).for_each(|bytes| reader.read(bytes));
        reader.finish()
    }

    #[test]
    fn a_message_is_known_however_it_is_written_and_cut() {
        let some = |text: &str| Some(text.to_owned());
        let call = |id: &str, tool: &str| Envelope {
            id: some(id),
            method: some("tools/call"),
            tool: some(tool),
            ..Envelope::default()
        };
        let with_key = |envelope: Envelope| Envelope { has_key: true, ..envelope };
        let long = format!(
            r#"{{"method":"tools/call","params":{{"name":"run_command","arguments":{{"command":"{}"}}}},"id":7}}"#,
            r#"a\"}{,:\\"#.repeat(1000)
        );
        let deep = r#"{"id":1,"method":"tools/call","params":{"_meta":{"a":[{"id":9,"method":"x"}],"name":"y"},
            "arguments":{"x":{"request_id":"k"},"request_id":null},"name":"diff"}}"#;
        let long_key = format!(r#"{{"id":1,"{}":2}}"#, "k".repeat(2 * LONGEST));
        let table = [
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{"id":2,"method":"x"}}"#,
                Envelope { id: some("1"), ..Envelope::default() },
            ),
            (long.as_str(), call("7", "run_command")),
            (deep, call("1", "diff")),
            (
                r#"{ "id" : "a-1" , "method" : "tools/call" , "params" : { "name" : "bash" , "arguments" : { "request_id" : "k" } } }"#,
                with_key(call("\"a-1\"", "bash")),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#,
                Envelope { method: some("notifications/cancelled"), cancels: some("3"), ..Envelope::default() },
            ),
            (r#"[{"id":1,"method":"x"}]"#, Envelope::default()),
            (r#"{"id":null,"method":5}"#, Envelope::default()),
            ("}}]] nonsense \"", Envelope::default()),
            (long_key.as_str(), Envelope { id: some("1"), ..Envelope::default() }),
        ];
        for (text, expected) in table {
            for piece in [1, 3, 1 << 20] {
                assert_eq!(read(text, piece), expected, "{text}");
            }
        }
        assert_eq!(read(r#"{"id":"a\u002d1"}"#, 1).id, some("\"a-1\""), "ids are compared as values");
    }
}
