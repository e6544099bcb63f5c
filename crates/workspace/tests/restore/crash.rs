//! `kill -9` and errors at any point: the workspace is before or after, and nothing is left over.

use crate::fixture::{Room, Seen, first, hidden, second};
use shellkeep_workspace::copy;
use shellkeep_workspace::fault::{Blow, Faults, Point};
use shellkeep_workspace::repo::ObjectId;
use shellkeep_workspace::restore;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "SHELLKEEP_TEST_DIRECTORY";
const WAY: &str = "SHELLKEEP_TEST_WAY";
const BLOW: &str = "SHELLKEEP_TEST_BLOW";

/// Not a test: the process that is killed. It rewinds from one commit to another.
#[test]
#[ignore = "run by the others"]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let way = std::env::var(WAY).unwrap();
    let (now, target) = way.split_once(' ').unwrap();
    let commit = |hex: &str| ObjectId::from_hex(hex.as_bytes()).unwrap();
    let mut room = Room::at(Path::new(&directory));
    room.checkpointer.open_repo().unwrap();
    room.now = Some(commit(now));
    if let Ok(blow) = std::env::var(BLOW) {
        let (point, nth) = blow.split_once(' ').unwrap();
        let point = if point == "staged" { Point::Staged } else { Point::Applying };
        room.faults.arm(point, nth.parse().unwrap(), 1, Blow::Abort);
    }
    println!("\nbegins");
    room.try_rewind(Some(commit(target))).unwrap().finish().unwrap();
    println!("\nends");
}

fn start(directory: &Path, now: ObjectId, target: ObjectId, blow: Option<String>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "crash::child", "--ignored", "--nocapture"]);
    command.env(DIRECTORY, directory).env(WAY, format!("{now} {target}"));
    command.envs(blow.map(|blow| (BLOW, blow)));
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Not a test: the process that is killed. It copies a workspace.
#[test]
#[ignore = "run by the others"]
fn copying_child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    let faults = Faults::default();
    faults.arm(Point::Copying, std::env::var(BLOW).unwrap().parse().unwrap(), 1, Blow::Abort);
    copy::workspace(&directory.join("workspace"), &directory.join("fork"), copy::TopMode::Same, &faults).unwrap();
}

#[test]
fn a_fork_is_there_or_it_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let room = Room::at(directory.path());
    hidden(&room);
    first(&room, 6);
    let seen = room.seen();
    let names = || std::fs::read_dir(directory.path()).unwrap().count();
    for nth in 1.. {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "crash::copying_child", "--ignored"]).env(DIRECTORY, directory.path());
        let status = command.env(BLOW, nth.to_string()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        let is_there = directory.path().join("fork").exists();
        assert_eq!(is_there, status.success());
        assert_eq!(copy::remove_unfinished(directory.path()).unwrap(), u64::from(!is_there));
        assert_eq!(names(), if is_there { 2 } else { 1 });
        if is_there {
            assert!(nth > 20);
            break;
        }
    }
    assert!(Room::in_two(&directory.path().join("fork"), &room.home).seen() == seen);
    assert!(room.seen() == seen);
}

/// Two states of one workspace.
struct Two {
    room: Room,
    directory: tempfile::TempDir,
    states: [(ObjectId, Seen); 2],
    /// Which one is on the disk.
    at: usize,
    befores: usize,
    afters: usize,
}

impl Two {
    fn new(files: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut room = Room::at(directory.path());
        hidden(&room);
        first(&room, files);
        let one = (room.save(), room.seen());
        second(&room, files);
        let two = (room.save(), room.seen());
        Self { room, directory, states: [one, two], at: 1, befores: 0, afters: 0 }
    }

    fn start(&self, blow: Option<String>) -> Child {
        start(self.directory.path(), self.states[self.at].0, self.states[1 - self.at].0, blow)
    }

    /// After the process is gone.
    fn check(&mut self, was_finished: bool) {
        let recovered = restore::recover(&self.room.workspace, &self.room.home, &Faults::default()).unwrap();
        let is_after = recovered.is_some() || was_finished || self.room.seen() == self.states[1 - self.at].1;
        if let Some((note, applied)) = recovered {
            assert_eq!(note, b"note");
            assert_eq!(applied.kept_back, []);
            applied.finish().unwrap();
        }
        if is_after {
            self.at = 1 - self.at;
            self.afters += 1;
        } else {
            self.befores += 1;
        }
        assert!(self.room.seen() == self.states[self.at].1, "neither before nor after");
        self.room.assert_tidy();
    }
}

#[test]
fn killed_at_any_moment() {
    let mut two = Two::new(300);
    // How long it takes undisturbed, from the first word to the last.
    let mut child = two.start(None);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap() == "begins").unwrap().unwrap();
    let begin = Instant::now();
    lines.find(|line| line.as_ref().unwrap() == "ends").unwrap().unwrap();
    let whole = begin.elapsed();
    assert!(child.wait().unwrap().success());
    two.check(true);
    let mut random = 12345_u64;
    for round in 0..200 {
        if round >= 24 && two.befores > 0 && two.afters > 1 {
            break;
        }
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let after = whole.mul_f64((random >> 33) as f64 / (1_u64 << 31) as f64 * 1.1);
        let mut child = two.start(None);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap() == "begins").unwrap().unwrap();
        shellkeep_poll::pass(after.min(Duration::from_secs(5)));
        child.kill().unwrap();
        child.wait().unwrap();
        let was_finished = lines.any(|line| line.is_ok_and(|line| line == "ends"));
        two.check(was_finished);
    }
    eprintln!("{} before, {} after, in {whole:?}", two.befores, two.afters);
    assert!(two.befores > 0 && two.afters > 1, "{} {}", two.befores, two.afters);
}

#[test]
fn killed_at_every_point() {
    let mut two = Two::new(6);
    for point in ["staged", "applying"] {
        for nth in 1.. {
            let mut child = two.start(Some(format!("{point} {nth}")));
            let survived = child.wait().unwrap().success();
            two.check(survived);
            if survived {
                break;
            }
        }
    }
    assert!(two.befores > 10 && two.afters > 10, "{} {}", two.befores, two.afters);
}

#[test]
fn failing_at_every_point_and_again_while_recovering() {
    let mut two = Two::new(6);
    for (point, blow) in [(Point::Staged, Blow::Full), (Point::Applying, Blow::Error)] {
        for nth in 1.. {
            let target = two.states[1 - two.at].0;
            two.room.now = Some(two.states[two.at].0);
            two.room.faults.arm(point, nth, 1, blow);
            let result = two.room.try_rewind(Some(target));
            two.room.faults.disarm(point);
            match result {
                Ok(applied) => {
                    applied.finish().unwrap();
                    two.check(true);
                    break;
                }
                Err(error) if point == Point::Staged => {
                    assert!(error.is_full());
                    assert!(two.room.seen() == two.states[two.at].1, "staging changed something");
                    // Also without recovery nothing is left.
                    two.room.assert_tidy();
                }
                Err(_) => {
                    two.room.faults.arm(Point::Applying, nth / 2 + 1, 1, Blow::Error);
                    let again = restore::recover(&two.room.workspace, &two.room.home, &two.room.faults);
                    assert!(again.is_err());
                    two.room.faults.disarm(Point::Applying);
                }
            }
            two.check(false);
        }
    }
    assert!(two.befores > 10 && two.afters > 10, "{} {}", two.befores, two.afters);
}
