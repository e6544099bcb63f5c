//! The terminal is given back, on a terminal of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use super::*;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

/// Not a test of its own: the one below runs it in a terminal and looks at what it leaves behind.
#[test]
#[ignore = "needs a terminal, which the test below gives it"]
fn somebody_panics_on_the_screen() {
    let mut screen = Screen::open().unwrap();
    screen.draw(|frame| frame.render_widget("drawn", frame.area())).unwrap();
    panic!("the end");
}

#[test]
fn a_panic_gives_the_terminal_back() {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let before = tcgetattr(&terminal).unwrap();
    let side = || Stdio::from(terminal.try_clone().unwrap());
    let mut child = Command::new("setsid")
        .arg("--ctty")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "screen::tests::somebody_panics_on_the_screen"])
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap();
    let mut reader = File::from(master);
    let reading = std::thread::spawn(move || {
        let mut output = Vec::new();
        // A terminal that no one has open ends with an error.
        let _ = reader.read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    child.wait().unwrap();
    let after = tcgetattr(&terminal).unwrap();
    drop(terminal);
    let output = reading.join().unwrap();
    let place = |text: &str| output.find(text).unwrap_or_else(|| panic!("{text:?} is not in {output:?}"));
    let (entered, drawn, left) = (place("\u{1b}[?1049h"), place("drawn"), place("\u{1b}[?1049l"));
    assert!(entered < drawn && drawn < left, "{output:?}");
    assert!(left < place("the end"), "the panic's message can be read: {output:?}");
    assert_eq!(format!("{:?}", after.local_modes), format!("{:?}", before.local_modes), "no raw mode is left");
    assert_eq!(format!("{:?}", after.input_modes), format!("{:?}", before.input_modes));
}
