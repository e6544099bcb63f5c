//! What the page says, and that nothing recorded can become a part of it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use super::*;
use crate::export::patch::{Patch, Patches};
use proptest::prelude::*;
use serde_json::json;

fn line(seq: u64, event_type: &str, data: Value) -> Line {
    let timestamp = Timestamp::from_second(1_767_323_045 + i64::try_from(seq).unwrap()).unwrap();
    Line { seq, event_type: event_type.to_owned(), timestamp, data, ..Line::default() }
}

fn run(seq: u64, command: &str, output: &str, stderr: &str, code: i64) -> Line {
    let data = json!({"tool_name": "run_command", "parameters": {"command": command}, "output": output, "error": null,
        "duration": 0.25, "run_id": format!("r{seq}"), "status": "exited", "exit_code": code, "stderr": stderr,
        "stdout_bytes": output.len(), "stderr_bytes": stderr.len(), "cwd": "/w"});
    line(seq, "tool_call", data)
}

fn page(lines: Vec<Line>, most_events: usize) -> String {
    let options = Options { most_events, ..Options::new("demo") };
    let last = lines.last().map_or(0, |line| line.seq);
    let about = About { last, intact: true, verdict: "all lines are whole".to_owned(), nonce: "abc123".to_owned() };
    let mut out = Vec::new();
    write(lines.into_iter().map(Ok), &about, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The tags of a page, as a browser's parser would see them: everything between `<` and `>`, outside of style and script,
/// whose content ends at their end tags only.
fn tags(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = rest[start + 1..end].to_owned();
        rest = &rest[end + 1..];
        let name = tag.split([' ', '\n']).next().unwrap().to_ascii_lowercase();
        if name == "style" || name == "script" {
            let close = rest.find(&format!("</{name}")).expect("it is closed");
            rest = &rest[close..];
        }
        found.push(tag);
    }
    found
}

const KNOWN: [&str; 24] = [
    "!doctype", "html", "head", "meta", "title", "style", "body", "h1", "p", "span", "b", "div", "input", "output",
    "main", "details", "summary", "time", "i", "pre", "h4", "footer", "script", "code",
];

fn assert_only_ours(page: &str) {
    for tag in tags(page) {
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
        assert!(KNOWN.contains(&name), "a tag that is not ours: <{tag}>");
        // What is in quotes is a value; what is left are the names of attributes.
        let names: String = tag.split('"').step_by(2).collect();
        assert!(tag.matches('"').count().is_multiple_of(2), "a value that does not end: <{tag}>");
        assert!(!names.contains(" on"), "a handler: <{tag}>");
        assert!(!names.contains("src=") && !names.contains("href="), "something from elsewhere: <{tag}>");
    }
    assert_eq!(tags(page).iter().filter(|tag| tag.starts_with("script")).count(), 1, "one script, ours");
}

#[test]
fn what_was_recorded_cannot_become_a_part_of_the_page() {
    let evil =
        "</script><img src=x onerror=alert(1)><script>alert(2)</script>\"'><svg/onload=alert(3)></pre></details>&lt;";
    let mut lines = vec![
        line(1, "session_created", json!({"agent": evil, "cwd": evil})),
        run(2, evil, evil, evil, 1),
        line(3, "user_input", json!({"message": evil, evil: evil})),
        line(4, evil, json!({"error": evil, "nested": {evil: [evil]}})),
        line(5, "run_started", json!({"command": evil})),
    ];
    lines[1].data["notices"] = json!([{"code": "x", "message": evil}]);
    let text = page(lines, 100);
    assert_only_ours(&text);
    assert!(text.contains("&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;"), "it can be read, though");
    assert!(!text.contains("<img") && !text.contains("<svg"));
}

proptest! {
    #[test]
    fn nor_can_anything_else(evil in "([<>\"'&/ =a-z]|script|\u{1b}\\[[0-9;]{0,8}m|\u{1b}|\n){0,60}") {
        let lines = vec![run(1, &evil, &evil, &evil, 0), line(2, &evil, json!({evil.clone(): evil}))];
        assert_only_ours(&page(lines, 100));
    }
}

#[test]
fn it_is_alone_in_the_world() {
    let text = page(vec![run(1, "make", "ok\n", "", 0)], 100);
    for outside in ["http://", "https://", "//cdn", "@import", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.contains("default-src 'none'"));
    assert!(text.contains("<script nonce=\"abc123\">"));
    assert!(text.contains("<div class=\"bar\" hidden>"), "without the script there is nothing that does nothing");
}

#[test]
fn colours_times_and_ends_are_to_be_seen() {
    let lines = vec![
        run(1, "make", "\u{1b}[31mred\u{1b}[0m 10%\r\u{1b}[31mred\u{1b}[0m 99%\n", "oops", 2),
        run(500, "true", "", "", 0),
    ];
    let text = page(lines, 100);
    assert!(text.contains("<span style=\"color:#c53030\">red</span> 99%"), "{text}");
    assert!(!text.contains("10%"), "overwritten");
    assert!(text.contains("<pre class=\"err\">oops</pre>"));
    assert!(text.contains("class=\"e k-tool bad\" id=\"e1\"") && text.contains(">exit 2<"));
    assert!(text.contains("250 ms"));
    assert!(text.contains("· 8 min 19 s later ·"));
    assert!(text.contains("+8:19.0"));
    let reversed = look(Style { reversed: true, bold: true, ..Style::default() });
    assert_eq!(reversed, " class=\"b\" style=\"color:var(--term);background:var(--front)\"");
}

/// A patch for every checkpoint.
struct Always(Patch);

impl Patches for Always {
    fn of_checkpoint(&self, _: &Line) -> Option<Patch> {
        Some(self.0.clone())
    }
}

#[test]
fn a_command_is_one_row_with_its_files_and_their_differences() {
    let mut end = run(4, "make", "ok\n", "", 0);
    end.data["run_id"] = json!("r2");
    let files = json!({"name": "c1", "commit": "abc", "cause": {"tool": {"run_id": "r2"}}, "added": 1, "changed": 2});
    let lines = vec![
        line(2, "run_started", json!({"run_id": "r2", "command": "make"})),
        line(3, "run_input", json!({"run_id": "r2", "input": "y"})),
        end,
        line(5, "checkpoint_created", files),
        line(6, "run_started", json!({"run_id": "r6", "command": "sleep 9"})),
        line(7, "checkpoint_created", json!({"name": "c2", "cause": "manual", "added": 1})),
    ];
    let text = "diff --git a/x b/x\n@@ -1 +1 @@\n-<b>\u{1b}[31mold\n+\tsecret=hunter2hunter2\n".to_owned();
    let patches = Always(Patch { text, is_cut: true });
    let shown = |masker: Option<&crate::mask::Masker>| {
        let options = Options { patches: Some(&patches), masker, ..Options::new("demo") };
        let about = About { last: 7, intact: true, verdict: String::new(), nonce: "abc123".to_owned() };
        let mut out = Vec::new();
        write(lines.clone().into_iter().map(Ok), &about, &options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let text = shown(None);
    assert_only_ours(&text);
    let rows: Vec<&str> = text.split("<details").skip(1).collect();
    assert_eq!(rows.len(), 4, "input, end with its files, checkpoint by hand, the command that runs: {text}");
    assert!(rows[1].contains("id=\"e4\"") && rows[1].contains("<span class=\"files\">+1 ~2</span>"), "{}", rows[1]);
    for row in [rows[1], rows[2]] {
        assert!(row.contains("<span class=\"out\">-&lt;b&gt;old</span>"), "{row}");
        assert!(row.contains("<span class=\"in\">+    secret=hunter2hunter2</span>"), "{row}");
        assert!(row.contains("… larger files are left out"), "{row}");
    }
    assert!(rows[3].contains("$ sleep 9"), "{}", rows[3]);
    let redactor = shellkeep_redact::Redactor::new(&shellkeep_redact::Config::default()).unwrap();
    let masked = shown(Some(&crate::mask::Masker::new(redactor)));
    assert!(!masked.contains("hunter2hunter2") && masked.contains("changed files"), "{masked}");
}

#[test]
fn what_is_too_much_is_left_out_and_said() {
    let text = page((1..=30).map(|seq| run(seq, "true", "", "", 0)).collect(), 10);
    assert_eq!(text.matches("<details").count(), 10);
    assert!(text.contains("The first 10 events are shown. The rest, up to number 30, is left out"));
    let whole = page((1..=10).map(|seq| run(seq, "true", "", "", 0)).collect(), 10);
    assert!(!whole.contains("left out"));
    let large = "é".repeat(MOST_FIELD);
    let text = page(vec![run(1, "cat", &large, "", 0)], 10);
    assert!(text.contains(&format!("… {MOST_FIELD} of {} bytes are left out", 2 * MOST_FIELD)), "half of it is");
}
