//! A run as text for a model: notices first, then its output, then its status if that matters. Pure, so that tests are
//! tables.

use super::plain::plain;
use shellkeep_protocol::text::encode;
use shellkeep_runtime::{RunView, StreamView};
use shellkeep_session::{Notice, NoticeCode, RunStatus};
use std::fmt::Write as _;

/// Bytes of each stream that a tool's answer carries; head and tail are kept. About 8,000 tokens: what a model can
/// handle at once. `read_output` reads the rest.
pub const MODEL_OUTPUT: usize = 30_000;

/// The style of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Streams are separate, and the text names the tools to continue with.
    Full,
    /// As `Full`, for a command with a terminal.
    Terminal,
    /// Like the classic tool: output, then error output.
    Classic,
}

impl Style {
    /// Whether the model knows more than the classic tool.
    pub fn names_tools(self) -> bool {
        self != Self::Classic
    }
}

/// A run as text.
pub fn run(view: &RunView, notices: &[Notice], style: Style) -> String {
    let mut text = notices_in_words(notices);
    let stdout = readable(&view.stdout);
    let stderr = readable(&view.stderr);
    paragraph(&mut text, &stdout);
    if style.names_tools() && !stderr.is_empty() {
        paragraph(&mut text, "[stderr]");
    }
    paragraph(&mut text, &stderr);
    if let Some(late) = &view.background_output {
        paragraph(&mut text, "[output of earlier background jobs]");
        paragraph(&mut text, &plain(&late.to_text()));
    }
    if style.names_tools() {
        for (name, stream) in [("stdout", &view.stdout), ("stderr", &view.stderr)] {
            if stream.truncated {
                paragraph(&mut text, &truncation(name, stream, view.run_id.as_str()));
            }
        }
    }
    paragraph(&mut text, &ending(view, style));
    if let Some(cwd) = view.changes.cwd.as_ref().filter(|_| style.names_tools()) {
        paragraph(&mut text, &format!("[cwd {cwd}]"));
    }
    if text.is_empty() {
        text.push_str("(no output)");
    }
    text
}

/// Notices, one per line.
pub fn notices_in_words(notices: &[Notice]) -> String {
    let mut text = String::new();
    // The timeout is described at the end, with the tools to use.
    for notice in notices.iter().filter(|notice| notice.code != NoticeCode::TimedOut) {
        paragraph(&mut text, &format!("[notice] {}", notice.message));
    }
    text
}

/// A run's status, if it matters.
pub fn ending(view: &RunView, style: Style) -> String {
    let id = &view.run_id;
    let signal = view.signal.as_ref().map(|signal| format!(", by signal {signal}")).unwrap_or_default();
    let code = view.exit_code.map(|code| format!("exit code {code}{signal}")).unwrap_or_default();
    match view.status {
        RunStatus::Exited if view.exit_code == Some(0) => String::new(),
        RunStatus::Exited if style == Style::Classic || view.changes.cwd.is_some() => format!("[{code}]"),
        RunStatus::Exited => format!("[{code}; cwd {}]", view.cwd.to_text()),
        RunStatus::TimedOut => format!(
            "[timed out after {:.1} s and was killed; its output so far and the session's state are kept. {}]",
            view.duration.as_secs_f64(),
            match style {
                Style::Full | Style::Terminal => "Set a longer timeout, or use blocking=false; for a server use start_service",
                Style::Classic => "Run it in the background with &, and its output redirected to a file",
            }
        ),
        RunStatus::Interrupted => format!("[interrupted, {code}; the session keeps its state]"),
        RunStatus::Running if style == Style::Terminal => format!(
            "[running as {id} on a terminal; look at it with read_screen(id=\"{id}\"), type with \
             send_keys(id=\"{id}\", keys=[\"text\", \"Enter\"]), interrupt it with send_keys(id=\"{id}\", \
             keys=[\"C-c\"])]"
        ),
        RunStatus::Running => format!(
            "[running as {id}; wait for more with read_output(id=\"{id}\", wait=30), type into it with \
             send_input(id=\"{id}\"), interrupt it with signal(id=\"{id}\")]"
        ),
        RunStatus::Lost => {
            "[lost: the daemon died while this command ran, so its result is unknown. It was not run again; check what it \
             did before you repeat it]"
                .to_owned()
        }
    }
}

/// A run's status, for a request by id.
pub fn standing(view: &RunView) -> String {
    let id = &view.run_id;
    match view.status {
        RunStatus::Running => format!("[{id} is still running]"),
        RunStatus::Exited => format!("[{id} has ended, exit code {}]", view.exit_code.unwrap_or_default()),
        RunStatus::TimedOut => format!("[{id} timed out after {:.1} s and was killed]", view.duration.as_secs_f64()),
        RunStatus::Interrupted => format!("[{id} was interrupted, exit code {}]", view.exit_code.unwrap_or_default()),
        RunStatus::Lost => ending(view, Style::Full),
    }
}

/// Adds text on its own line.
pub fn paragraph(text: &mut String, more: &str) {
    if more.is_empty() {
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

fn truncation(name: &str, stream: &StreamView, id: &str) -> String {
    let mut text = format!("[{name} has {} bytes; above are its head and tail. ", stream.total);
    let selector = if name == "stdout" { String::new() } else { format!(", stream=\"{name}\"") };
    let head = stream.head;
    let _ = write!(
        text,
        "Read the rest with read_output(id=\"{id}\"{selector}, offset={head}), or search it with grep=\"…\"]"
    );
    text
}

fn readable(stream: &StreamView) -> String {
    plain(&encode(stream.bytes.clone()).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shellkeep_session::{Changes, RunId};
    use std::time::Duration;

    fn view(stdout: &str, stderr: &str, status: RunStatus, exit_code: Option<i32>) -> RunView {
        let stream = |text: &str| StreamView { bytes: text.into(), total: text.len() as u64, ..StreamView::default() };
        RunView {
            run_id: RunId::from_seq(7),
            seq: 7,
            status,
            exit_code,
            signal: None,
            stdout: stream(stdout),
            stderr: stream(stderr),
            duration: Duration::from_millis(1500),
            cwd: "/w".into(),
            changes: Changes::default(),
            background_output: None,
            unread_input: Vec::new(),
            notices: Vec::new(),
            by: None,
        }
    }

    #[test]
    fn what_a_model_reads() {
        let done = RunStatus::Exited;
        let table = [
            (view("hi\n", "", done, Some(0)), "hi\n"),
            (view("", "", done, Some(0)), "(no output)"),
            (view("a", "b\n", done, Some(3)), "a\n[stderr]\nb\n[exit code 3; cwd /w]"),
            (view("\u{1b}[31mred\u{1b}[0m\n", "", done, Some(0)), "red\n"),
            (
                view("", "", RunStatus::Interrupted, Some(130)),
                "[interrupted, exit code 130; the session keeps its state]",
            ),
        ];
        for (view, expected) in table {
            assert_eq!(run(&view, &[], Style::Full), expected);
        }
        assert_eq!(run(&view("a\n", "b\n", done, Some(0)), &[], Style::Classic), "a\nb\n");
        let changes = Changes { cwd: Some("/usr".to_owned()), ..Changes::default() };
        let moved = RunView { changes, ..view("hi\n", "", done, Some(0)) };
        assert_eq!(run(&moved, &[], Style::Full), "hi\n[cwd /usr]");
    }

    #[test]
    fn notices_stand_at_the_top() {
        let notice = Notice { code: NoticeCode::ShellReplaced, message: "This is a new shell.".to_owned() };
        let text = run(&view("hi\n", "", RunStatus::Exited, Some(0)), &[notice], Style::Full);
        assert_eq!(text, "[notice] This is a new shell.\nhi\n");
    }

    #[test]
    fn what_is_left_out_can_be_read() {
        let mut long = view("head…tail", "", RunStatus::Exited, Some(0));
        long.stdout.truncated = true;
        long.stdout.total = 10 << 20;
        // Where the head was cut is not always the middle: no character is cut.
        long.stdout.head = 14_998;
        let text = run(&long, &[], Style::Full);
        assert!(text.contains("10485760 bytes") && text.contains("read_output(id=\"r7\", offset=14998)"), "{text}");
    }
}
