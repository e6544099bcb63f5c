//! Commands that were typed into: what was typed is typed again.

use crate::client::{Client, ClientError};
use crate::failure::Failure;
use shellkeep_protocol::{InputAccepted, InputRequest, RunDetail, RunRequest, RunResponse, RunStatus, text};
use shellkeep_record::Line;
use shellkeep_session::Timestamp;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// The longest wait in one request for a command's end, in seconds.
const WAIT: u64 = 60;
/// The longest pause before something is typed into a terminal: a person may have been away.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Something that was typed.
#[derive(Debug, PartialEq)]
pub struct Typed {
    /// How long after the command's start, or after what was typed before.
    pause: Duration,
    request: InputRequest,
}

/// What was typed into a command that started at `started`; `None` if the recording does not have all of it.
pub fn read(lines: &[Line], started: Timestamp) -> Option<Vec<Typed>> {
    let mut last = started;
    let typed = lines.iter().map(|line| {
        let pause = Duration::try_from(line.timestamp.duration_since(last)).unwrap_or_default();
        last = line.timestamp;
        let field = |name: &str| line.data.get(name).and_then(|value| value.as_str());
        let bytes = text::decode(field("input")?.to_owned(), field("input_base64")).ok()?;
        let is_whole = line.proof.masked.is_empty() && line.data["bytes"].as_u64() == Some(bytes.len() as u64);
        let eof = line.data["end"] == true;
        let request = InputRequest { base64: Some(text::base64(&bytes)), eof, ..InputRequest::default() };
        is_whole.then_some(Typed { pause, request })
    });
    typed.collect()
}

/// Runs a command and types into it: at once into a pipe, where only the order matters, and as fast as before into a
/// terminal, where a program may discard what comes too early.
pub async fn run(
    client: &mut Client,
    session: &str,
    request: RunRequest,
    typed: Vec<Typed>,
) -> Result<RunResponse, Failure> {
    let has_terminal = request.tty == Some(true);
    let request = RunRequest { blocking: Some(false), ..request };
    let path = format!("/v1/sessions/{session}/run");
    let run: RunResponse = client.post(&path, &request).await?;
    let path = format!("/v1/sessions/{session}/runs/{}", run.run_id);
    for Typed { pause, request } in typed {
        if has_terminal {
            sleep_until(Instant::now() + pause.min(LONGEST_PAUSE)).await;
        }
        match client.post::<_, InputAccepted>(&format!("{path}/input"), &request).await {
            Ok(_) => {}
            // It ended earlier than before; the comparison shows how.
            Err(ClientError::Refused(refused)) if refused.problem.code == "run_ended" => break,
            Err(error) => return Err(error.into()),
        }
    }
    loop {
        let detail: RunDetail = client.get(&format!("{path}?wait={WAIT}")).await?;
        if detail.run.status != RunStatus::Running {
            return Ok(detail.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(seq: u64, data: Value) -> Line {
        let timestamp = Timestamp::from_second(seq as i64).unwrap();
        let event_type = "run_input".to_owned();
        Line { seq, event_type, timestamp, data, ..Line::default() }
    }

    #[test]
    fn only_what_was_recorded_in_full_is_typed_again() {
        let started = Timestamp::from_second(1).unwrap();
        let all =
            [line(3, json!({"input": "a\n", "bytes": 2})), line(4, json!({"input": "", "bytes": 0, "end": true}))];
        let typed = read(&all, started).unwrap();
        assert_eq!(typed[0].pause, Duration::from_secs(2));
        assert_eq!(
            typed[1],
            Typed {
                pause: Duration::from_secs(1),
                request: InputRequest { base64: Some(String::new()), eof: true, ..InputRequest::default() },
            }
        );
        let partly = [
            json!({"hidden": true}),
            json!({"input": "a", "bytes": 9, "truncated": 8}),
            json!({"input": "[REDACTED]", "bytes": 4}),
        ];
        for data in partly {
            assert_eq!(read(&[line(3, data.clone())], started), None, "{data}");
        }
    }
}
