//! The page in a real browser.

use crate::support::{Daemon, skip};
use crate::{program, text};
use std::process::Command;

/// Names under which a browser without a window is found.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

#[test]
fn nothing_recorded_runs_in_a_browser() {
    let daemon = Daemon::start();
    daemon.create("demo");
    daemon
        .sh("demo", "echo '</pre></script><img src=x onerror=\"document.title=1\"><script>document.title=2</script>'");
    let path = daemon.directory().join("demo.html");
    text(&program(&daemon, &["export", "demo", "--format", "html", "-o", &path.display().to_string()]));
    let open = |browser: &&str| {
        let mut command = Command::new(browser);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]);
        command.arg(format!("file://{}", path.display())).output().ok()
    };
    let Some(shown) = BROWSERS.iter().find_map(open) else {
        return skip(&format!("none of {BROWSERS:?} is installed"));
    };
    let page = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(page.contains("<title>session demo</title>"), "something ran:\n{page}");
    assert!(page.contains("open all"), "our own script did not run:\n{page}");
    assert!(!page.contains("<img"), "{page}");
}
