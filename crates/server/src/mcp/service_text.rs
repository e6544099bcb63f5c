//! A service as text for a model: its name, status and ports, the end of its log if it failed, and what to do next.
//! Pure, so that tests are tables.

use super::plain::plain;
use super::text::paragraph;
use crate::translate;
use shellkeep_protocol::text::encode;
use shellkeep_runtime::{LogPage, ServiceView};
use shellkeep_session::{ServiceStatus, plan};

/// Bytes of the log that are shown of a service that ended or is not ready: a screenful, and usually the reason.
pub const LAST_WORDS: u64 = 2048;

/// A service that was just started, stopped or requested.
pub fn service(view: &ServiceView, log: Option<LogPage>) -> String {
    let mut text = line(view);
    let is_cut = log.as_ref().is_none_or(|log| log.offset > log.first);
    if let Some(log) = log {
        end_of_log(&mut text, log, is_cut);
    }
    paragraph(&mut text, &next_steps(view, is_cut));
    text
}

/// Services, one per line. `elsewhere` are those of the agent's other sessions.
pub fn list(own: &[ServiceView], elsewhere: &[ServiceView]) -> String {
    let mut text = String::new();
    for view in own {
        paragraph(&mut text, &format!("{}{}", line(view), command(view)));
    }
    for view in elsewhere {
        paragraph(&mut text, &format!("{} in session {}{}", line(view), view.session_id, command(view)));
    }
    if text.is_empty() {
        return "There are no services. Start one with start_service(command=\"…\").".to_owned();
    }
    let hint = "[read a log with read_output(id), stop a service with stop_service(service_id";
    let session = if elsewhere.is_empty() { "" } else { "; add session for one of another session" };
    paragraph(&mut text, &format!("{hint}{session})]"));
    text
}

/// A service's command, unless it is its name.
fn command(view: &ServiceView) -> String {
    let command = plan::shorten(&view.command.to_text());
    if command == view.name { String::new() } else { format!(": `{command}`") }
}

/// A service in a line.
pub fn line(view: &ServiceView) -> String {
    translate::service(view.clone()).sentence()
}

fn end_of_log(text: &mut String, log: LogPage, cut: bool) {
    if log.total == 0 {
        paragraph(text, "[it printed nothing]");
        return;
    }
    let words = plain(&encode(log.bytes).0);
    // The first line of a tail is rarely complete.
    let words = match words.split_once('\n') {
        Some((_, rest)) if cut && !rest.is_empty() => rest,
        _ => &words,
    };
    paragraph(text, if cut { "[the end of its log]" } else { "[its log]" });
    paragraph(text, words);
}

/// What to do next. There is more to read of a service that ended only if its log was cut.
fn next_steps(view: &ServiceView, is_cut: bool) -> String {
    let id = &view.service_id;
    match view.status {
        ServiceStatus::Starting => {
            format!("[check on it with read_output(id=\"{id}\"), or stop it with stop_service(service_id=\"{id}\")]")
        }
        ServiceStatus::Running => {
            format!("[read its log with read_output(id=\"{id}\"), stop it with stop_service(service_id=\"{id}\")]")
        }
        ServiceStatus::Exited | ServiceStatus::Failed if is_cut => {
            format!("[read its whole log with read_output(id=\"{id}\", offset=0)]")
        }
        ServiceStatus::Exited | ServiceStatus::Failed | ServiceStatus::Stopped => String::new(),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use shellkeep_session::{RestartPolicy, ServiceId, SessionId, Timestamp};

    /// A service that runs.
    pub fn view() -> ServiceView {
        ServiceView {
            service_id: ServiceId::from_seq(12),
            session_id: SessionId::parse("other").unwrap(),
            agent: None,
            name: "web".to_owned(),
            command: "npm run dev".into(),
            cwd: "/".into(),
            status: ServiceStatus::Running,
            pid: Some(4242),
            ports: vec![5173],
            processes: 3,
            started_at: Timestamp::UNIX_EPOCH,
            last_active_at: Timestamp::UNIX_EPOCH,
            restart: RestartPolicy::Never,
            restarts: 0,
            ended_at: None,
            exit_code: None,
            signal: None,
            detail: None,
            log_bytes: 9,
        }
    }

    fn log(text: &str, offset: u64) -> LogPage {
        let total = offset + text.len() as u64;
        LogPage { bytes: text.into(), offset, next_offset: total, first: 0, total, complete: true }
    }

    #[test]
    fn a_service_that_runs_says_where() {
        assert_eq!(
            service(&view(), None),
            "s12 (web) is running, pid 4242, listening on 5173: http://127.0.0.1:5173\n\
             [read its log with read_output(id=\"s12\"), stop it with stop_service(service_id=\"s12\")]"
        );
        let two = ServiceView { ports: vec![1, 2], restarts: 4, ..view() };
        assert_eq!(
            line(&two),
            "s12 (web) is running, pid 4242, restarted 4 times, listening on 1, 2: http://127.0.0.1:1, \
             http://127.0.0.1:2"
        );
    }

    #[test]
    fn a_service_that_failed_shows_its_last_words() {
        let failed = ServiceView {
            status: ServiceStatus::Failed,
            pid: None,
            ports: Vec::new(),
            exit_code: Some(1),
            detail: Some("it ended before it was ready".to_owned()),
            ..view()
        };
        assert_eq!(
            service(&failed, Some(log("rest of a line\nEADDRINUSE\n", 100))),
            "s12 (web) failed: it ended before it was ready\n[the end of its log]\nEADDRINUSE\n\
             [read its whole log with read_output(id=\"s12\", offset=0)]"
        );
        assert!(service(&failed, Some(log("whole\nlog", 0))).ends_with("[its log]\nwhole\nlog"));
        assert!(service(&failed, Some(log("", 0))).ends_with("[it printed nothing]"));
        assert!(service(&failed, None).contains("read_output"));
        // One long line is shown rather than nothing.
        assert!(service(&failed, Some(log("a long line\n", 100))).contains("a long line"));
    }

    #[test]
    fn a_list_names_the_session_of_those_elsewhere() {
        assert!(list(&[], &[]).contains("start_service"));
        let text = list(&[ServiceView { ports: Vec::new(), ..view() }], &[view()]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "s12 (web) is running, pid 4242: `npm run dev`");
        assert!(lines[1].ends_with("http://127.0.0.1:5173 in session other: `npm run dev`"), "{text}");
        assert!(lines[2].contains("add session"), "{text}");
        let unnamed = ServiceView { name: "npm run dev".to_owned(), ports: Vec::new(), ..view() };
        let text = list(&[unnamed], &[]);
        assert!(text.starts_with("s12 (npm run dev) is running, pid 4242\n["), "its command is not said twice: {text}");
    }
}
