//! A recording as an asciicast (version 2), which `asciinema play` and its web player show: commands are typed when they
//! started, their output comes when they ended, or as it was written if they had a terminal; other events are marks to
//! jump to.

use super::frames::Frame;
use super::options::{ExportError, Options};
use super::timeline::Timeline;
use crate::line::Line;
use serde_json::json;
use shellkeep_session::Timestamp;
use std::io::Write;

/// Writes lines as an asciicast.
pub(super) fn write(
    lines: impl Iterator<Item = Result<Line, ExportError>>,
    options: &Options<'_>,
    mut out: impl Write,
) -> Result<(), ExportError> {
    let mut began: Option<Timestamp> = None;
    let mut elapsed = 0.0_f64;
    let mut timeline = Timeline::new(options.rows, options.columns);
    for line in lines {
        let line = line?;
        let start = match began {
            Some(start) => start,
            None => {
                writeln!(out, "{}", header(line.timestamp, options))?;
                *began.insert(line.timestamp)
            }
        };
        for (at, frame) in timeline.frames(&line) {
            // Times never go back in a cast, although a clock may.
            elapsed = elapsed.max(at.duration_since(start).as_secs_f64());
            let (code, text) = match frame {
                Frame::Output(text) => ("o", text),
                Frame::Marker(text) => ("m", text),
                Frame::Input(text) => ("i", text),
                Frame::Resize { rows, cols } => ("r", format!("{cols}x{rows}")),
            };
            if !text.is_empty() {
                let time = (elapsed * 1e6).round() / 1e6;
                writeln!(out, "{}", json!([time, code, text]))?;
            }
        }
    }
    if began.is_none() {
        writeln!(out, "{}", header(Timestamp::UNIX_EPOCH, options))?;
    }
    Ok(out.flush()?)
}

fn header(began: Timestamp, options: &Options<'_>) -> serde_json::Value {
    json!({
        "version": 2,
        "width": options.columns,
        "height": options.rows,
        "timestamp": began.as_second(),
        "idle_time_limit": options.idle_limit.as_secs_f64(),
        "title": format!("session {}", options.session_id),
        "env": {"SHELL": "/bin/bash", "TERM": "xterm-256color"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn cast(lines: &[(i64, &str, Value)]) -> Vec<Value> {
        let line = |(place, (second, event_type, data)): (usize, &(i64, &str, Value))| {
            let timestamp = Timestamp::from_second(*second).unwrap();
            let (seq, data) = (place as u64 + 1, data.clone());
            Ok(Line { seq, event_type: (*event_type).to_owned(), timestamp, data, ..Line::default() })
        };
        let mut out = Vec::new();
        write(lines.iter().enumerate().map(line), &Options::new("demo"), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn times_never_go_back_although_the_clock_did() {
        let start = |command: &str| json!({"command": command, "run_id": "r1"});
        let cast = cast(&[
            (100, "run_started", start("a")),
            (103, "run_started", start("b")),
            (99, "run_started", start("c")),
        ]);
        let header = json!({"version": 2, "width": 100, "height": 30, "timestamp": 100, "idle_time_limit": 2.0,
            "title": "session demo", "env": {"SHELL": "/bin/bash", "TERM": "xterm-256color"}});
        assert_eq!(cast[0], header);
        let times: Vec<(f64, &str)> =
            cast[1..].iter().map(|event| (event[0].as_f64().unwrap(), event[1].as_str().unwrap())).collect();
        assert_eq!(times, [(0.0, "m"), (0.0, "o"), (3.0, "m"), (3.0, "o"), (3.0, "m"), (3.0, "o")]);
    }

    #[test]
    fn an_empty_recording_is_a_header() {
        assert_eq!(cast(&[]).len(), 1);
    }
}
