//! What the stories share: a place for services, starting one, waiting for what should come.

use shellkeep_process::proc::{self, Stat};
use shellkeep_process::*;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// Far longer than anything here takes; a test that waits this long has failed.
pub const LONG: Duration = Duration::from_secs(60);
/// Room for a log that no story but those about logs comes near.
pub const LOG_BYTES: u64 = 1 << 20;

/// Tells one story for each mode.
macro_rules! in_each_mode {
    ($($story:ident: $($mode:ident),*;)*) => {
        $(mod $story {
            $($crate::fixture::in_each_mode!(@one $story $mode);)*
        })*
    };
    (@one $story:ident Auto) => {
        #[tokio::test]
        async fn with_groups() {
            super::$story(crate::fixture::Fixture::new(shellkeep_process::CageMode::Auto)).await;
        }
    };
    (@one $story:ident NoLimits) => {
        #[tokio::test]
        async fn without_limits() {
            super::$story(crate::fixture::Fixture::new(shellkeep_process::CageMode::NoLimits)).await;
        }
    };
    (@one $story:ident Marks) => {
        #[tokio::test]
        async fn with_marks() {
            super::$story(crate::fixture::Fixture::new(shellkeep_process::CageMode::Marks)).await;
        }
    };
}
pub(crate) use in_each_mode;

pub struct Fixture {
    pub factory: CageFactory,
    pub instance: String,
    pub mode: CageMode,
    pub scratch: tempfile::TempDir,
}

/// Says that a test cannot run here. In CI that is a failure: what is never run shows nothing.
pub fn skip(needed: &str) {
    assert!(std::env::var_os("CI").is_none(), "this test needs {needed}");
    eprintln!("skipped: it needs {needed}");
}

pub fn no_names() -> HashSet<String> {
    HashSet::new()
}

impl Fixture {
    pub fn new(mode: CageMode) -> Self {
        Self::with_limits(
            mode,
            Limits { per_cage: 128, per_party: 1000, node: 1000, memory_per_party: 8 << 30, open_files: 4096 },
        )
    }

    pub fn with_limits(mode: CageMode, limits: Limits) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let name = scratch.path().file_name().unwrap().to_str().unwrap();
        let instance = format!("shellkeep-test{name}");
        Self { factory: CageFactory::detect(&instance, mode, limits), instance, mode, scratch }
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        let directory = self.scratch.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    pub fn log(&self, name: &str) -> ServiceLog {
        ServiceLog::at(self.directory(name))
    }

    pub fn spec(&self, name: &str) -> ServiceSpec {
        ServiceSpec {
            bash: "/bin/bash".into(),
            directory: self.directory(name),
            log_bytes: LOG_BYTES,
            rescue: self.scratch.path().join(format!("{name}.rescue")),
            masked: Vec::new(),
        }
    }

    pub async fn start(&self, name: &str, command: &str) -> ServiceProcess {
        self.start_with(self.spec(name), name, command).await
    }

    /// Starts it as one of a party's.
    pub async fn start_in(&self, party: &str, name: &str, command: &str) -> ServiceProcess {
        let run = RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None };
        let cage = self.factory.cage_of(Some(party), name);
        ServiceProcess::start(self.spec(name), cage, None, &[], run).await.unwrap().0
    }

    pub async fn start_with(&self, spec: ServiceSpec, name: &str, command: &str) -> ServiceProcess {
        let run = RunSpec { command: command.as_bytes(), cwd: None, env: &[], until: None };
        let (service, problems) = ServiceProcess::start(spec, self.factory.cage(name), None, &[], run).await.unwrap();
        assert_eq!(problems, []);
        service
    }

    pub fn adopt(&self, name: &str, stamps: ServiceStamps) -> Option<ServiceProcess> {
        ServiceProcess::adopt(self.directory(name), self.factory.adopt(None, name, stamps.keeper), stamps).unwrap()
    }

    /// Waits until the log holds this text; gives all of the log.
    pub async fn until_logged(&self, name: &str, wanted: &str) -> String {
        let mut watch = LogWatch::new(&self.directory(name));
        let waiting = async {
            loop {
                let text = self.text(name);
                if text.contains(wanted) {
                    return text;
                }
                watch.changed().await;
            }
        };
        match timeout(LONG, waiting).await {
            Ok(text) => text,
            Err(_) => panic!("{wanted:?} is not in the log:\n{}", self.text(name)),
        }
    }

    pub fn text(&self, name: &str) -> String {
        let (_, bytes) = self.log(name).tail(1 << 20).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.factory.remove(&no_names());
    }
}

/// Waits for the end of a service.
pub async fn end_of(service: &mut ServiceProcess) -> ServiceExit {
    timeout(LONG, service.ended()).await.expect("it ends")
}

/// How its main process ended.
pub async fn status_of(service: &mut ServiceProcess) -> ExitStatus {
    match end_of(service).await {
        ServiceExit::Ended { status, at_ms } => {
            assert!(at_ms > 1_700_000_000_000, "{at_ms} is not a time of our days");
            status
        }
        ServiceExit::Unknown => panic!("nobody knows how it ended"),
    }
}

/// Waits for something that sends no event.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    shellkeep_poll::until_async(LONG, what, async || is_so().then_some(())).await;
}

pub fn is_alive(stamp: ProcessStamp) -> bool {
    Stat::read(stamp.pid).is_some_and(|stat| stat.stamp() == stamp)
}

/// A `sleep` that no other test has: it can be found by its arguments, whatever it did to get away.
pub struct Sleeps(String);

impl Sleeps {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(format!("86400.{:07}{count:03}", std::process::id()))
    }

    /// The command, each one told apart by its last digit.
    pub fn command(&self, digit: u32) -> String {
        format!("sleep {}{digit}", self.0)
    }

    /// Those that are alive.
    pub fn alive(&self) -> Vec<u32> {
        let is_one = |pid: &u32| {
            let words = proc::command_line(*pid);
            words.starts_with(&format!("sleep {}", self.0))
        };
        proc::all().unwrap().into_keys().filter(is_one).collect()
    }

    /// Waits until there are so many.
    pub async fn until(&self, count: usize) {
        until(&format!("{count} of them run"), || self.alive().len() == count).await;
    }
}
