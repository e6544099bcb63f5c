//! Many conversations at once, one question in flight in each: the driver of the figures with a thousand shells. The
//! floor and the daemon are driven by the same code, so that neither wins by its driver.

use crate::fallible::Fallible;
use rustix::event::{Timespec, epoll};
use rustix::fd::BorrowedFd;
use std::io;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Answers fetched at once; enough that the call itself does not count.
const EVENTS: usize = 256;
/// Silence that means something is stuck.
const SILENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// One conversation.
pub trait Lane: Send {
    /// Becomes readable when there is something to hear.
    fn watch(&self) -> BorrowedFd<'_>;
    /// Asks once more; whether there was anything to ask.
    fn ask(&mut self) -> io::Result<bool>;
    /// Reads what is there; whether the answer is whole.
    fn hear(&mut self) -> io::Result<bool>;
}

/// Long enough for lanes that come to an end by themselves.
pub const TO_THE_END: Duration = Duration::from_secs(3600);

/// Keeps every lane busy for a while, or until it has nothing to ask, with `threads` threads; gives answers per second.
pub fn drive<L: Lane>(lanes: &mut [L], threads: usize, window: Duration) -> Fallible<f64> {
    let start = Instant::now();
    let share = lanes.len().div_ceil(threads.max(1)).max(1);
    let answers = std::thread::scope(|scope| -> Fallible<u64> {
        let workers: Vec<_> =
            lanes.chunks_mut(share).map(|part| scope.spawn(move || drive_some(part, start + window))).collect();
        let mut answers = 0;
        for worker in workers {
            answers += worker.join().map_err(|_| "a driver panicked")??;
        }
        Ok(answers)
    })?;
    Ok(answers as f64 / start.elapsed().as_secs_f64())
}

fn drive_some<L: Lane>(lanes: &mut [L], until: Instant) -> Fallible<u64> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (index, lane) in lanes.iter().enumerate() {
        epoll::add(&poll, lane.watch(), epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
    }
    let (mut asked, mut answers) = (0, 0);
    for lane in lanes.iter_mut() {
        asked += usize::from(lane.ask()?);
    }
    let mut space = [MaybeUninit::uninit(); EVENTS];
    while asked > 0 {
        let (events, _) = epoll::wait(&poll, &mut space, Some(&SILENCE))?;
        if events.is_empty() {
            return Err(format!("{asked} of {} did not answer", lanes.len()).into());
        }
        let more = Instant::now() < until;
        for event in events {
            let Some(lane) = lanes.get_mut(event.data.u64() as usize) else { continue };
            if !lane.hear()? {
                continue;
            }
            answers += 1;
            if !more || !lane.ask()? {
                asked -= 1;
            }
        }
    }
    Ok(answers)
}
