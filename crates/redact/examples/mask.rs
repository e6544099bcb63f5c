//! Masks what comes on stdin, to try rules on real text: `… | cargo run --release -p shellkeep-redact --example mask`. With
//! `--list`, it lists what it found instead, a line each: the rule, the place, and the text around it.
#![allow(clippy::unwrap_used, reason = "an example says what went wrong by panicking")]

use shellkeep_redact::{Config, Redactor};
use std::io::{Read, Write};

/// Bytes shown before and behind what was found.
const AROUND: usize = 30;

fn main() {
    let redactor = Redactor::new(&Config::default()).unwrap();
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).unwrap();
    let mut out = std::io::stdout().lock();
    if std::env::args().nth(1).is_none_or(|argument| argument != "--list") {
        return out.write_all(&redactor.redact(&text)).unwrap();
    }
    for finding in redactor.find(&text) {
        let (start, end) = (finding.range.start, finding.range.end);
        let around = &text[start.saturating_sub(AROUND)..text.len().min(end + AROUND)];
        let shown: String = String::from_utf8_lossy(around).replace(char::is_control, "·");
        writeln!(out, "{}\t{start}..{end}\t{shown}", finding.rule).unwrap();
    }
}
