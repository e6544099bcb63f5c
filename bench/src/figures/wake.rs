//! Waking a dormant session: restore 100 variables and 50 functions, run `true`, know the state again.

use crate::fallible::Fallible;
use crate::library::Library;
use crate::report::{Report, Row, Target};
use crate::setup::Setup;
use crate::stats::Rounds;
use crate::{floor, library};
use shellkeep_runtime::Engine;
use shellkeep_session::SessionId;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const VARIABLES: usize = 100;
const FUNCTIONS: usize = 50;
const TARGET: Target = Target::RatioAtMost(0.3);
const SPARE_SHELLS: usize = 2;
const LIVE_SHELLS: usize = 8;
/// How often the pool is asked whether its spares are back.
const LOOK_AGAIN: Duration = Duration::from_micros(500);
/// What a bare bash does: take the state over, run the command, write everything down again.
const BARE: &str = r#". "$1"; true; { declare -p; declare -f; alias; shopt -p; set +o; trap -p; } >"$2""#;

pub fn measure(setup: &Setup, report: &mut Report) -> Fallible<()> {
    let directory = tempfile::tempdir()?;
    let state = state();
    let (before, after) = (directory.path().join("before"), directory.path().join("after"));
    std::fs::write(&before, &state)?;
    let bare = Bare { bash: &setup.bash, before: text(&before)?, after: text(&after)? };
    for (spares, how) in [(SPARE_SHELLS, "a spare shell is there"), (0, "no spare: bash is started too")] {
        let library = Library::start(&setup.bash, LIVE_SHELLS, spares)?;
        let session = library.create()?;
        library.run(&session, &state)?;
        let (mut floor, mut ours) = (Rounds::default(), Rounds::default());
        for _ in 0..setup.effort.rounds {
            let times = (0..setup.effort.starts).map(|_| bare.time());
            floor.push(times.collect::<Fallible<Vec<Duration>>>()?);
            ours.push(wakes(&library, &session, spares, setup.effort.starts)?);
        }
        check(&library, &session)?;
        let what = format!("wake with {VARIABLES} variables and {FUNCTIONS} functions, `true`, capture ({how})");
        report.row(Row::latency(what, floor.middle(), ours.middle(), TARGET));
    }
    Ok(())
}

struct Bare<'a> {
    bash: &'a Path,
    before: &'a str,
    after: &'a str,
}

impl Bare<'_> {
    fn time(&self) -> Fallible<Duration> {
        floor::spawn(self.bash, &["--norc", "--noprofile", "-c", BARE, "bash", self.before, self.after])
    }
}

fn text(path: &Path) -> Fallible<&str> {
    path.to_str().ok_or_else(|| "the temporary directory's name is not text".into())
}

/// Scalars, exported ones, arrays and maps, and functions of a few lines, as a morning's work leaves them behind.
pub(super) fn state() -> String {
    let mut text = String::new();
    for n in 0..VARIABLES {
        let _ = match n % 10 {
            0 => writeln!(text, "declare -a list_{n}=([0]='one' [1]='two words' [2]='{n}')"),
            1 => writeln!(text, "declare -A map_{n}=([key]='value' [other]='{n}')"),
            2..=5 => writeln!(text, "declare -x EXPORTED_{n}='/opt/tool-{n}/bin:/usr/local/share/thing'"),
            _ => writeln!(text, "declare -- plain_{n}='some text, number {n}, of ordinary length'"),
        };
    }
    for n in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "function_{n}() {{\n  local name=\"$1\" i\n  for i in 1 2 3; do\n    if [[ -n $name ]]; then\n      \
             echo \"{n}: $name $i\" | sed 's/a/b/'\n    fi\n  done\n  return {n}\n}}"
        );
    }
    text
}

/// Puts a session to sleep and wakes it with `true`, so often.
fn wakes(library: &Library, session: &SessionId, spares: usize, count: usize) -> Fallible<Vec<Duration>> {
    let session = session.clone();
    library.with(move |engine| async move {
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            times.push(wake(&engine, &session, spares, Duration::ZERO).await?);
        }
        Ok(times)
    })
}

/// Puts a session to sleep and wakes it with `true`, once the pool has had all its spares for as long as `quiet`. Only the
/// command is timed: a session that slept for more than a few milliseconds finds the pool full.
pub(super) async fn wake(engine: &Engine, session: &SessionId, spares: usize, quiet: Duration) -> Fallible<Duration> {
    engine.hibernate(session).await?;
    while engine.node().health().await.spare_shells < spares {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // Nobody else takes one. Without looks in between, which would be work too.
    if !quiet.is_zero() {
        tokio::time::sleep(quiet).await;
    }
    let start = Instant::now();
    library::run(engine, session, "true").await?;
    Ok(start.elapsed())
}

/// A session that had lost its state would wake faster.
fn check(library: &Library, session: &SessionId) -> Fallible<()> {
    let last = VARIABLES - 1;
    let command =
        format!("[[ $plain_{last} == *'number {last}'* && ${{#list_90[@]}} == 3 ]] && declare -F function_49");
    library.run(session, &command).map(|_| ()).map_err(|error| format!("the state did not come along: {error}").into())
}
