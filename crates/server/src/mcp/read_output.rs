//! `read_output`: what a command or a service printed, while it runs and afterwards.

use super::handler::Handler;
use super::plain::plain;
use super::seat::{Seat, no_run};
use super::service_text;
use super::target::Target;
use super::text::{self, MODEL_OUTPUT, paragraph};
use super::tool::{Effect, Entry, answer, arguments, defined};
use crate::refusal::Refusal;
use crate::translate;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde::{Deserialize, Serialize};
use shellkeep_protocol::{LogParams, LogResponse, OutputParams, OutputResponse, ServiceStatus, StreamName};
use shellkeep_runtime::{MAX_WAIT, OpError, RunView, ServiceError, ServiceView, SessionError, Stream, Tail};
use shellkeep_session::{RunId, RunStatus, ServiceId, carried_over, unfinished};
use std::time::Duration;
use utoipa::ToSchema;

pub const TOOL: Entry = Entry {
    define: || defined::<Arguments>("read_output", DESCRIPTION, Effect::Reads),
    call: |handler, given, context| Box::pin(async move { read(handler, arguments(given)?, context).await }),
};

const DESCRIPTION: &str = "Read what a run or service printed, up to 30,000 bytes, and its status, even after it \
    ended. Runs are read from the beginning, logs from the end.";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Arguments {
    /// r12, s12 or a name.
    id: String,
    /// Seconds to wait for new output or the end, at most 300.
    wait: Option<f64>,
    /// Default: both.
    stream: Option<StreamName>,
    /// First byte; continue at next_offset.
    offset: Option<u64>,
    /// Only the last lines.
    tail: Option<u64>,
    /// Only lines that match this regex.
    grep: Option<String>,
}

/// Its result.
#[derive(Debug, Serialize)]
struct Answer {
    /// Which stream; absent for a service, whose log has both.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<StreamName>,
    text: String,
    /// The exact bytes, where they are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    /// Where it starts.
    offset: u64,
    /// Where to continue; equal to `total` at the end.
    next_offset: u64,
    /// The first byte that is still kept of a service's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    /// Bytes written so far.
    total: u64,
    /// Whether it has ended, so that `total` is final.
    complete: bool,
    /// Standard error of a run, if no stream was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<OutputResponse>,
    /// Its status: running, exited, timed_out, interrupted or lost; for a service also starting, stopped or failed.
    status: String,
    /// Its exit code, once it has one.
    exit_code: Option<i32>,
}

async fn read(
    handler: &Handler,
    given: Arguments,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, Refusal> {
    let seat = handler.seat(context)?;
    let wait = translate::wait(given.wait)?;
    // A model that fills in both wants the end.
    let given = Arguments { offset: given.offset.filter(|_| given.tail.is_none()), ..given };
    match seat.target(&given.id).await? {
        Target::Run(run_id) => read_run(handler, &seat, &run_id, given, wait).await,
        Target::Service(service_id) => read_log(&seat, &service_id, given, wait).await,
    }
}

impl Arguments {
    /// Whether a page has only the first of the last lines. Then the last bytes are read instead.
    fn is_cut_tail(&self, next_offset: u64, total: u64) -> bool {
        self.tail.is_some() && self.grep.is_none() && next_offset < total
    }
}

async fn read_run(
    handler: &Handler,
    seat: &Seat,
    run_id: &RunId,
    given: Arguments,
    wait: Duration,
) -> Result<CallToolResult, Refusal> {
    let stream = given.stream.unwrap_or_default();
    let which = if stream == StreamName::Stdout { Stream::Stdout } else { Stream::Stderr };
    let from = given.offset.map(|offset| (which, offset));
    handler.more_output(seat, run_id, from, wait).await.map_err(|error| no_run(error, run_id))?;
    let first = page_of(seat, run_id, &given, stream).await?;
    // Without a stream both are shown. An offset counts bytes of one stream, so then the other is only mentioned.
    let second = match given.stream {
        None if given.offset.is_none() => Some(page_of(seat, run_id, &given, StreamName::Stderr).await?),
        _ => None,
    };
    let run = seat.engine.runs().view(&seat.session, run_id, Duration::ZERO, 0).await?.run;
    handler.output_shown(seat, &run);
    let notices = if run.status != RunStatus::Running && handler.notices_told(seat, &run) {
        text::notices_in_words(&run.notices)
    } else {
        String::new()
    };
    let asked = given.offset.unwrap_or(0);
    let words = run_in_words(notices, asked, &first, second.as_ref(), &run, given.grep.as_deref());
    answer(words, &run_answer(first, second, &run))
}

/// A page of one stream of a run.
async fn page_of(
    seat: &Seat,
    run_id: &RunId,
    given: &Arguments,
    stream: StreamName,
) -> Result<OutputResponse, Refusal> {
    let params = |tail, tail_lines| OutputParams {
        stream: Some(stream),
        offset: given.offset,
        limit: Some(MODEL_OUTPUT as u64),
        tail,
        tail_lines,
        grep: given.grep.clone(),
    };
    let query = translate::output(params(None, given.tail))?;
    let (stream, searched) = (query.stream, query.grep.is_some());
    let mut page = seat.engine.output(&seat.session, run_id, query).await?;
    if given.is_cut_tail(page.next_offset, page.total) {
        let last = translate::output(params(Some(MODEL_OUTPUT as u64), None))?;
        page = seat.engine.output(&seat.session, run_id, last).await?;
        page.offset += skip_cut_character(&mut page.bytes, page.offset);
    }
    if !searched && (page.next_offset < page.total || !page.complete) {
        page.next_offset -= leave_cut_character(&mut page.bytes);
    }
    Ok(translate::output_page(stream, page))
}

async fn read_log(
    seat: &Seat,
    service_id: &ServiceId,
    given: Arguments,
    wait: Duration,
) -> Result<CallToolResult, Refusal> {
    let no_session = |error| match error {
        OpError::Session(SessionError::NotFound { session_id }) => {
            OpError::Service(ServiceError::NotFound { session_id, service_id: service_id.to_string() })
        }
        other => other,
    };
    if !wait.is_zero() {
        more_log(seat, service_id, given.offset, wait).await.map_err(no_session)?;
    }
    // The newest part of a log is at its end.
    let is_from_end = given.offset.is_none() && given.grep.is_none() && given.tail.is_none();
    let params = |tail, tail_lines| LogParams {
        offset: given.offset,
        limit: Some(MODEL_OUTPUT as u64),
        tail,
        tail_lines,
        grep: given.grep.clone(),
    };
    let (asked, searched) = (given.offset.unwrap_or(0), given.grep.is_some());
    let query = translate::log_query(params(is_from_end.then_some(MODEL_OUTPUT as u64), given.tail))?;
    let mut page = seat.engine.services().log(&seat.session, service_id.as_str(), query).await.map_err(no_session)?;
    let is_cut_tail = given.is_cut_tail(page.next_offset, page.total);
    if is_cut_tail {
        let last = translate::log_query(params(Some(MODEL_OUTPUT as u64), None))?;
        page = seat.engine.services().log(&seat.session, service_id.as_str(), last).await?;
    }
    if is_from_end || is_cut_tail {
        page.offset += skip_cut_character(&mut page.bytes, page.offset);
    }
    let service = seat.engine.services().get(&seat.session, service_id.as_str(), Duration::ZERO).await?;
    if !searched && (page.next_offset < page.total || !page.complete) {
        page.next_offset -= leave_cut_character(&mut page.bytes);
    }
    let page = translate::log_page(page);
    answer(log_in_words(&page, asked, &service, given.grep.as_deref()), &log_answer(page, &service))
}

/// Waits until a service has written more than `offset`, or more than it has now.
async fn more_log(seat: &Seat, service_id: &ServiceId, offset: Option<u64>, wait: Duration) -> Result<(), OpError> {
    let from_end = offset.is_none().then_some(Tail::Bytes(0));
    let (services, offset) = (seat.engine.services(), offset.unwrap_or(0));
    let mut log = services.follow_log(&seat.session, service_id.as_str(), offset, from_end).await?;
    match tokio::time::timeout(wait.min(MAX_WAIT), log.next()).await {
        Ok(Some(Err(error))) => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Leaves an incomplete character at the end to the next page, unless there is nothing else. Returns its number of
/// bytes.
fn leave_cut_character(bytes: &mut Vec<u8>) -> u64 {
    let cut = unfinished(bytes);
    if cut == bytes.len() {
        return 0;
    }
    bytes.truncate(bytes.len() - cut);
    cut as u64
}

/// Leaves out the end of a character that began before `offset`. Returns its number of bytes.
fn skip_cut_character(bytes: &mut Vec<u8>, offset: u64) -> u64 {
    let cut = if offset == 0 { 0 } else { carried_over(bytes) };
    bytes.drain(..cut);
    cut as u64
}

/// Where a page is in the whole output.
#[derive(Clone, Copy)]
struct Part {
    offset: u64,
    next_offset: u64,
    total: u64,
    /// Bytes in it that were not kept.
    dropped: u64,
}

impl From<&OutputResponse> for Part {
    fn from(page: &OutputResponse) -> Self {
        let OutputResponse { offset, next_offset, total, dropped, .. } = *page;
        Self { offset, next_offset, total, dropped }
    }
}

impl Part {
    /// How much of it there is to search, in words.
    fn searched(self) -> String {
        let bytes = self.total.saturating_sub(self.offset).saturating_sub(self.dropped);
        format!("in {bytes} bytes{}", self.gap())
    }

    /// What was not kept of it, in words.
    fn gap(self) -> String {
        match self.dropped {
            0 => String::new(),
            dropped => format!("; {dropped} more were not kept"),
        }
    }
}

/// The position of a page in the whole output, if it is not all of it, and how many lines match `grep`.
fn range(text: &mut String, page: &str, part: Part, grep: Option<&str>) {
    let Part { offset, next_offset, total, .. } = part;
    let is_more = next_offset < total && next_offset > offset;
    if let Some(pattern) = grep {
        let found = match page.lines().count() {
            0 => format!("no line matches {pattern:?}"),
            1 => format!("1 line matches {pattern:?}"),
            lines => format!("{lines} lines match {pattern:?}"),
        };
        let place = if is_more {
            let gap = part.gap();
            format!("in bytes {offset} to {next_offset} of {total}{gap}; search on with offset={next_offset}")
        } else {
            part.searched()
        };
        paragraph(text, &format!("[{found} {place}]"));
    } else if is_more {
        let end = next_offset - part.dropped.min(next_offset - offset);
        let gap =
            if part.dropped > 0 { format!("; bytes {end} to {next_offset} were not kept") } else { String::new() };
        paragraph(text, &format!("[bytes {offset} to {end} of {total}{gap}; continue with offset={next_offset}]"));
    } else if page.is_empty() && total == 0 {
        paragraph(text, "[no output]");
    } else if page.is_empty() {
        paragraph(text, &format!("[nothing at offset {offset}; {total} bytes were written]"));
    }
}

/// That a page begins later than asked for, and where the beginning is.
fn not_from_the_beginning(from: u64, total: u64, first: u64) -> String {
    format!("[from byte {from} of {total}; read from the beginning with offset={first}]")
}

fn run_in_words(
    mut text: String,
    asked: u64,
    first: &OutputResponse,
    second: Option<&OutputResponse>,
    run: &RunView,
    grep: Option<&str>,
) -> String {
    if asked < first.offset {
        paragraph(&mut text, &not_from_the_beginning(first.offset, first.total, 0));
    }
    paragraph(&mut text, &plain(&first.text));
    let both_empty = second.is_some_and(|second| second.text.is_empty());
    if second.is_none() || both_empty || !first.text.is_empty() {
        range(&mut text, &first.text, first.into(), grep);
    }
    if let Some(second) = second.filter(|second| second.total > 0) {
        paragraph(&mut text, "[stderr]");
        paragraph(&mut text, &plain(&second.text));
        if second.next_offset < second.total {
            let (id, next, total, gap) = (&run.run_id, second.next_offset, second.total, Part::from(second).gap());
            paragraph(
                &mut text,
                &format!(
                    "[stderr has {total} bytes{gap}; continue with read_output(id=\"{id}\", stream=\"stderr\", \
                        offset={next})]"
                ),
            );
        } else if let Some(pattern) = grep.filter(|_| second.text.is_empty()) {
            paragraph(&mut text, &format!("[no line matches {pattern:?} {}]", Part::from(second).searched()));
        }
    }
    let (other, bytes) = match first.stream {
        StreamName::Stdout => ("stderr", run.stderr.total),
        StreamName::Stderr => ("stdout", run.stdout.total),
    };
    if second.is_none() && bytes > 0 {
        paragraph(&mut text, &format!("[{other} has {bytes} bytes; read it with stream=\"{other}\"]"));
    }
    paragraph(&mut text, &text::standing(run));
    text
}

fn log_in_words(page: &LogResponse, asked: u64, service: &ServiceView, grep: Option<&str>) -> String {
    let mut text = String::new();
    if asked < page.first && page.offset == page.first {
        paragraph(&mut text, &format!("[the log before byte {} is no longer kept]", page.first));
    }
    if asked < page.offset && page.first < page.offset {
        paragraph(&mut text, &not_from_the_beginning(page.offset, page.total, page.first));
    }
    paragraph(&mut text, &plain(&page.text));
    let LogResponse { offset, next_offset, total, .. } = *page;
    range(&mut text, &page.text, Part { offset, next_offset, total, dropped: 0 }, grep);
    paragraph(&mut text, &format!("[{}]", service_text::line(service)));
    text
}

fn run_answer(page: OutputResponse, stderr: Option<OutputResponse>, run: &RunView) -> Answer {
    let OutputResponse { stream, text, base64, offset, next_offset, total, complete, .. } = page;
    let (stream, text, first) = (Some(stream), plain(&text), None);
    let stderr = stderr.map(|page| OutputResponse { text: plain(&page.text), ..page });
    let (status, exit_code) = (run.status.as_str().to_owned(), run.exit_code);
    Answer { stream, text, base64, offset, next_offset, first, total, complete, stderr, status, exit_code }
}

fn log_answer(page: LogResponse, service: &ServiceView) -> Answer {
    let LogResponse { text, base64, offset, next_offset, first, total, complete } = page;
    let status = ServiceStatus::from(service.status).as_str().to_owned();
    let (first, exit_code) = (Some(first), service.exit_code);
    let (stream, stderr, text) = (None, None, plain(&text));
    Answer { stream, text, base64, offset, next_offset, first, total, complete, stderr, status, exit_code }
}

#[cfg(test)]
mod tests {
    use super::super::service_text::tests::view;
    use super::*;

    fn page(text: &str, offset: u64, first: u64, total: u64) -> LogResponse {
        let next_offset = offset + text.len() as u64;
        LogResponse { text: text.to_owned(), base64: None, offset, next_offset, first, total, complete: false }
    }

    #[test]
    fn a_log_says_where_it_stands_and_how_its_service_does() {
        let service = ServiceView { ports: Vec::new(), ..view() };
        let state = "[s12 (web) is running, pid 4242]";
        assert_eq!(log_in_words(&page("all\n", 0, 0, 4), 0, &service, None), format!("all\n{state}"));
        assert_eq!(
            log_in_words(&page("old\n", 100, 100, 200), 0, &service, None),
            format!(
                "[the log before byte 100 is no longer kept]\nold\n[bytes 100 to 104 of 200; continue with \
                    offset=104]\n\
                 {state}"
            )
        );
        assert!(log_in_words(&page("", 4, 0, 4), 4, &service, None).starts_with("[nothing at offset 4; 4 bytes"));
        let end = log_in_words(&page("end\n", 96, 0, 100), 0, &service, None);
        let found = log_in_words(&page("a\nb\n", 0, 0, 9), 9, &service, Some("a|b"));
        assert!(
            found.starts_with("a\nb\n[2 lines match \"a|b\" in bytes 0 to 4 of 9; search on with offset=4]"),
            "{found}"
        );
        let none = log_in_words(&page("", 0, 0, 9), 9, &service, Some("x"));
        assert!(none.starts_with("[no line matches \"x\" in 9 bytes]"), "{none}");
        assert!(end.starts_with("[from byte 96 of 100; read from the beginning with offset=0]\nend\n"), "{end}");
    }

    #[test]
    fn what_was_not_kept_is_not_counted_as_searched_or_shown() {
        let said = |page: &str, next_offset, grep| {
            let mut text = String::new();
            range(&mut text, page, Part { offset: 0, next_offset, total: 100, dropped: 86 }, grep);
            text
        };
        assert_eq!(said("", 100, Some("x")), "[no line matches \"x\" in 14 bytes; 86 more were not kept]");
        let shown = "[bytes 0 to 10 of 100; bytes 10 to 96 were not kept; continue with offset=96]";
        assert_eq!(said("0123456789", 96, None), shown);
    }

    #[test]
    fn a_cut_character_is_left_to_the_next_page() {
        for (bytes, left) in [(&b"ab"[..], 0), (b"a\xc3", 1), (b"\xc3", 0), (b"a\xffb", 0), (b"\xffa\xf0\x9f\x98", 3)] {
            let mut kept = bytes.to_vec();
            assert_eq!(leave_cut_character(&mut kept), left, "{bytes:?}");
            assert_eq!(kept.len() as u64 + left, bytes.len() as u64);
        }
        let mut last = "\u{20ac}uro".as_bytes()[1..].to_vec();
        assert_eq!((skip_cut_character(&mut last, 1), last.as_slice()), (2, &b"uro"[..]));
    }
}
