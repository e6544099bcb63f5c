//! A terminal with the program in it: what is typed goes in, and what is written becomes a screen to look at.

use crate::support::bash;
use crate::support::daemon::{Daemon, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Far more than anything takes for which a test waits.
const LONG: Duration = Duration::from_secs(60);
/// The longest look at a terminal that stays silent.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// A terminal and the program in it.
pub struct Terminal {
    master: File,
    /// Kept open, so that its modes can be read when the program is gone.
    side: OwnedFd,
    before: Termios,
    screen: vt100::Parser,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Terminal {
    /// Starts `shellkeep top` on a terminal of its own.
    #[allow(dead_code, reason = "other tests have other programs on their terminals")]
    pub fn top(daemon: &Daemon, rows: u16, columns: u16, env: &[(&str, &str)]) -> Self {
        Self::with(daemon, &["top", "--interval", "0.1"], (rows, columns), env)
    }

    /// Starts a command of the program on a terminal of its own.
    pub fn with(daemon: &Daemon, args: &[&str], size: (u16, u16), env: &[(&str, &str)]) -> Self {
        Self::in_directory(daemon, Path::new("."), args, size, env)
    }

    /// The same in a directory.
    pub fn in_directory(
        daemon: &Daemon,
        here: &Path,
        args: &[&str],
        (rows, columns): (u16, u16),
        env: &[(&str, &str)],
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let side = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        tcsetwinsize(&side, size(rows, columns)).unwrap();
        let before = tcgetattr(&side).unwrap();
        let copy = || Stdio::from(side.try_clone().unwrap());
        let mut command = Command::new("setsid");
        // What follows the command of `run` belongs to that command.
        let (first, rest) = args.split_at(if args.first() == Some(&"run") { 1 } else { args.len() });
        command.arg("--ctty").arg(env!("CARGO_BIN_EXE_shellkeep")).args(first).arg("--no-start");
        command.arg("--socket").arg(daemon.directory().join("s.sock")).arg("--data").arg(daemon.data()).args(rest);
        command.env_clear().envs(bash::environment()).env("TERM", "xterm-256color").envs(env.iter().copied());
        command.current_dir(here);
        let child = command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("setsid starts it");
        let screen = vt100::Parser::new(cells(rows), cells(columns), 0);
        Self { master: File::from(master), side, before, screen, child, ended: None }
    }

    /// Types.
    pub fn send(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("the terminal takes what is typed");
    }

    /// Changes the terminal's size, of which it tells the program.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.screen.set_size(cells(rows), cells(columns));
        tcsetwinsize(&self.master, size(rows, columns)).unwrap();
    }

    /// What is to be seen.
    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// The screen, for those who look at colours.
    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    /// Waits until a text is to be seen, on one line or broken between words.
    pub fn wait_for(&mut self, text: &str) {
        self.wait_until(text, |screen| {
            let shown = screen.contents();
            shown.contains(text) || shown.replace('\n', " ").contains(text)
        });
    }

    /// Waits until the screen is as it should be.
    pub fn wait_until(&mut self, what: &str, is: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + LONG;
        while !is(self.screen.screen()) {
            assert!(self.is_running(), "it ended; waited for '{what}' and saw:\n{}", self.text());
            assert!(Instant::now() < deadline, "waited for '{what}' and saw:\n{}", self.text());
            self.look();
        }
    }

    /// Sends the program a signal.
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for the program's end, and for everything it wrote before. Gives its exit code and checks that the terminal
    /// is as it was.
    pub fn end(&mut self) -> Option<i32> {
        let deadline = Instant::now() + LONG;
        while self.is_running() {
            assert!(Instant::now() < deadline, "it did not end:\n{}", self.text());
            self.look();
        }
        while self.look() {}
        let after = tcgetattr(&self.side).unwrap();
        let modes =
            |modes: &Termios| format!("{:?} {:?} {:?}", modes.local_modes, modes.input_modes, modes.output_modes);
        assert_eq!(modes(&after), modes(&self.before), "the terminal's modes are as they were");
        assert!(!self.screen().alternate_screen(), "the other screen is back");
        assert!(!self.screen().hide_cursor(), "the cursor is back");
        let status = self.ended.expect("it has ended");
        assert_eq!(status.signal(), None, "it ended by itself");
        status.code()
    }

    fn is_running(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap();
        }
        self.ended.is_none()
    }

    /// Takes in what was written, waiting a moment for it. False if nothing was.
    fn look(&mut self) -> bool {
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if poll(&mut ready, Some(&LOOK)).unwrap_or(0) == 0 {
            return false;
        }
        let mut bytes = [0; 16 << 10];
        let count = self.master.read(&mut bytes).unwrap_or(0);
        self.screen.process(&bytes[..count]);
        count > 0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn cells(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has a size")
}
