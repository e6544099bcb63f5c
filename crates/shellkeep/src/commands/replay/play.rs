//! Plays in real time: commands and their output appear as they did, with shortened pauses.

use super::source::Events;
use crate::failure::Failure;
use shellkeep_record::Line;
use shellkeep_record::export::ansi::Pieces;
use shellkeep_record::export::frames::Frame;
use shellkeep_record::export::timeline::Timeline;
use shellkeep_record::player::{Pace, Player};
use shellkeep_terminal::Signals;
use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Exit codes of a program that a signal ended, as shells report it.
const SIGNALLED: u8 = 128;
/// Events that are read ahead, so that reading does not become a pause.
const AHEAD: usize = 64;

/// Plays from the event the player is at to the end.
pub async fn play(player: &mut Player<Events>, pace: Pace) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().map_err(Failure::client)?;
    // The terminal that it plays on keeps its size, whatever the recorded ones were.
    let (mut before, mut timeline) = (None, Timeline::new(24, 80));
    loop {
        let some: VecDeque<Line> = player.rest().take(AHEAD).collect::<Result<_, _>>().map_err(Failure::client)?;
        let Some(last) = some.back().map(|line| line.seq) else { break };
        for (at, frame) in some.iter().flat_map(|line| timeline.frames(line)) {
            let Frame::Output(text) = frame else { continue };
            tokio::select! {
                () = tokio::time::sleep(pace.between(before.unwrap_or(at), at)) => {}
                number = signals.next() => {
                    let _ = show(Pieces::default().finish()).and_then(|()| show("\r\n"));
                    return Ok(ExitCode::from(SIGNALLED + number));
                }
            }
            before = Some(at);
            if let Err(error) = show(&text) {
                // A closed pipe is not an error.
                let gone = error.kind() == io::ErrorKind::BrokenPipe;
                return if gone { Ok(ExitCode::SUCCESS) } else { Err(Failure::client(error)) };
            }
        }
        let moved = player.jump(last).and_then(|_| player.step()).map_err(Failure::client)?;
        if !moved {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn show(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}
