//! A command through a node that does not have the session, beside the same asked of its owner.

use super::start::{start_node, start_redis};
use crate::daemon::Daemon;
use crate::fallible::Fallible;
use crate::http::Client;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const TARGET: Target = Target::RatioAtMost(2.0);
const LIVE_SHELLS: usize = 4;
/// Longer than any of the streams takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let redis = start_redis()?;
    let owner = start_node(setup, &redis, "n1", LIVE_SHELLS)?;
    let other = start_node(setup, &redis, "n2", LIVE_SHELLS)?;
    let (mut directly, mut through) = (Client::connect(&owner.socket())?, Client::connect(&other.socket())?);
    let session = directly.create()?;
    let (mut floor, mut ours) = (Rounds::default(), Rounds::default());
    for _ in 0..setup.effort.rounds {
        floor.turn(setup.effort.commands, |count| directly.times(&session, "true", count))?;
        directly.settle()?;
        ours.turn(setup.effort.commands, |count| through.times(&session, "true", count))?;
        directly.settle()?;
    }
    let what = "`true`, HTTP, through a node that sends it on; floor: asked of its owner".to_owned();
    report.row(Row::latency(what, floor.middle(), ours.middle(), TARGET));
    streams(setup, report, [&owner, &other], &session)
}

/// The first output of a command that goes on until that output was read: with a stream that waits for the end, nothing would
/// ever come.
fn streams(setup: &Setup, report: &mut Report, [owner, other]: [&Daemon; 2], session: &str) -> Fallible<()> {
    let directory = tempfile::tempdir()?;
    let (mut floor, mut ours) = (Rounds::default(), Rounds::default());
    let mut number = 0;
    let mut first = |daemon: &Daemon| -> Fallible<Duration> {
        number += 1;
        first_output(&daemon.socket(), session, &directory.path().join(number.to_string()))
    };
    for _ in 0..setup.effort.rounds {
        let (mut direct, mut forwarded) = (Vec::new(), Vec::new());
        for _ in 0..setup.effort.starts {
            direct.push(first(owner)?);
            forwarded.push(first(other)?);
        }
        floor.push(direct);
        ours.push(forwarded);
    }
    let what =
        "the first output of a running command in a stream through another node; floor: from its owner".to_owned();
    report.row(Row::latency(what, floor.middle(), ours.middle(), TARGET));
    Ok(())
}

/// Streams a command that waits for a file, which is made when its first output is here. The time until that output.
fn first_output(socket: &Path, session: &str, gate: &Path) -> Fallible<Duration> {
    let command = format!("echo begun; until [[ -e {} ]]; do sleep 0.005; done", gate.display());
    let body = json!({ "command": command }).to_string();
    let request = format!(
        "POST /v1/sessions/{session}/run HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (start, mut answer) = (Instant::now(), Vec::new());
    stream.write_all(request.as_bytes())?;
    until(&mut stream, &mut answer, "begun\\n")?;
    let took = start.elapsed();
    std::fs::write(gate, "")?;
    until(&mut stream, &mut answer, "\"exit_code\":0")?;
    Ok(took)
}

/// Reads until a text is there.
fn until(stream: &mut UnixStream, answer: &mut Vec<u8>, text: &str) -> Fallible<()> {
    let mut buffer = [0; 4096];
    while !answer.windows(text.len()).any(|part| part == text.as_bytes()) {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(format!("the stream ended without {text}: {}", String::from_utf8_lossy(answer)).into());
        }
        answer.extend_from_slice(&buffer[..count]);
    }
    Ok(())
}
