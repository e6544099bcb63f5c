//! The log: bounded, with offsets that stay true.

use crate::elsewhere::start_elsewhere;
use crate::fixture::{Fixture, LONG, end_of, status_of, until};
use shellkeep_process::*;
use std::path::Path;
use tokio::time::timeout;

/// What the flood repeats; its byte at any offset can be told.
const LINE: &str = "0123456789abcdef";

fn is_flood(offset: u64, bytes: &[u8]) -> bool {
    let line = format!("{LINE}\n").into_bytes();
    bytes.iter().zip(offset..).all(|(byte, at)| *byte == line[at as usize % line.len()])
}

/// Bytes on disk. A segment may go while we look.
fn kept(directory: &Path) -> u64 {
    let sizes = std::fs::read_dir(directory).unwrap().flatten();
    let sizes = sizes.filter(|entry| entry.file_name().to_string_lossy().starts_with("log-"));
    sizes.filter_map(|entry| entry.metadata().ok()).map(|about| about.len()).sum()
}

#[tokio::test]
async fn a_flood_is_bounded_and_can_be_read_while_it_flows() {
    const LIMIT: u64 = 256 << 10;
    const ENOUGH: u64 = 64 << 20;
    let fixture = Fixture::new(CageMode::Auto);
    let spec = ServiceSpec { log_bytes: LIMIT, ..fixture.spec("service-a") };
    let directory = spec.directory.clone();
    let mut service = fixture.start_with(spec, "service-a", &format!("yes {LINE}")).await;
    let log = fixture.log("service-a");
    let mut watch = LogWatch::new(&directory);
    let (mut next, mut reads, mut skips) = (0, 0, 0);
    while next < ENOUGH {
        timeout(LONG, watch.changed()).await.expect("it goes on");
        assert!(kept(&directory) <= LIMIT);
        let (offset, bytes) = log.read(next, 100_000).unwrap();
        assert!(is_flood(offset, &bytes), "at {offset}");
        assert!(bytes.is_empty() || offset >= next);
        skips += u32::from(offset > next);
        reads += u32::from(!bytes.is_empty());
        next = offset + bytes.len() as u64;
        let (offset, bytes) = log.tail(1000).unwrap();
        assert!(is_flood(offset, &bytes), "at {offset}");
        assert!(bytes.len() <= 1000);
    }
    assert!(reads > 0 && skips > 0, "{reads} reads, {skips} of them behind a gap");
    service.kill();
    end_of(&mut service).await;
    let (first, end) = log.bounds().unwrap();
    assert!(end - first <= LIMIT && end - first >= LIMIT / 2, "{first} to {end}");
    let (offset, bytes) = log.read(0, usize::MAX).unwrap();
    assert_eq!((offset, offset + bytes.len() as u64), (first, end));
    assert!(is_flood(offset, &bytes));
}

#[tokio::test]
async fn nothing_is_lost_that_fits() {
    let fixture = Fixture::new(CageMode::Auto);
    let spec = ServiceSpec { log_bytes: 4 << 20, ..fixture.spec("service-a") };
    let mut service = fixture.start_with(spec, "service-a", &format!("yes {LINE} | head -c 3000000")).await;
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(0));
    let log = fixture.log("service-a");
    assert_eq!(log.bounds().unwrap(), (0, 3_000_000));
    let (offset, bytes) = log.read(0, usize::MAX).unwrap();
    assert_eq!((offset, bytes.len()), (0, 3_000_000));
    assert!(is_flood(0, &bytes));
}

/// Whatever the pieces are in which the service writes it; and what only begins like it is not lost.
#[tokio::test]
async fn what_the_log_must_not_contain_is_masked() {
    const SECRET: &str = "horse-battery";
    let fixture = Fixture::new(CageMode::Auto);
    let masked = vec![SECRET.into(), "horse-battery-staple".into()];
    let spec = ServiceSpec { masked, ..fixture.spec("service-a") };
    let command = format!(
        "s={SECRET}; for ((i = 0; i < ${{#s}}; i++)); do printf %s \"${{s:i:1}}\"; sleep 0.01; done; echo; \
         echo \"<$s$s> $s-stable\"; echo $s-staple; yes \"a $s\" | head -n 20000; printf 'the end: horse-batt'"
    );
    let mut service = fixture.start_with(spec, "service-a", &command).await;
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(0));
    let (_, bytes) = fixture.log("service-a").read(0, usize::MAX).unwrap();
    let expected = format!("***\n<***> ***-stable\n***\n{}the end: horse-batt", "a ***\n".repeat(20_000));
    assert!(bytes == expected.as_bytes(), "{}", String::from_utf8_lossy(&bytes[..bytes.len().min(300)]));
}

/// A service that is started again writes on where it stopped, and its earlier end is forgotten.
#[tokio::test]
async fn the_next_life_writes_on() {
    let fixture = Fixture::new(CageMode::Auto);
    for (number, command) in
        ["echo one", "echo two; exit 2", "echo three; read -t 0.01 <> <(:); exit 3"].iter().enumerate()
    {
        let mut service = fixture.start("service-a", command).await;
        let expected = [0, 2, 3][number];
        assert_eq!(status_of(&mut service).await, ExitStatus::Exited(expected));
    }
    assert_eq!(fixture.text("service-a"), "one\ntwo\nthree\n");
    assert_eq!(fixture.log("service-a").read(4, 3).unwrap(), (4, b"two".to_vec()));
    let mut service = fixture.start("service-a", "sleep 86400").await;
    assert_eq!(left_exit(&fixture.directory("service-a")), None, "it has not ended in this life");
    service.kill();
    end_of(&mut service).await;
}

/// Somebody cleans up by hand while the service writes. What comes later has its true offset.
#[tokio::test]
async fn a_removed_segment_leaves_a_hole() {
    let fixture = Fixture::new(CageMode::Auto);
    let go = fixture.scratch.path().join("go");
    let command =
        format!("echo first; until [ -e {0} ]; do read -t 0.01 <> <(:); done; echo second; sleep 86400", go.display());
    let mut service = fixture.start("service-a", &command).await;
    fixture.until_logged("service-a", "first\n").await;
    std::fs::remove_file(fixture.directory("service-a").join(format!("log-{:020}", 0))).unwrap();
    std::fs::write(go, "").unwrap();
    fixture.until_logged("service-a", "second\n").await;
    assert_eq!(fixture.log("service-a").bounds().unwrap(), (6, 13));
    assert_eq!(fixture.log("service-a").read(0, 100).unwrap(), (6, b"second\n".to_vec()));
    service.kill();
    end_of(&mut service).await;
}

/// The disk takes no more for a while, here because no file may grow beyond a limit. What was printed meanwhile is
/// missing, what comes later has its true offset, and the end is known.
#[tokio::test]
async fn what_cannot_be_written_is_counted() {
    const PRINTED: u64 = 600_000;
    // Less than a segment, more than what is written to start a service at all.
    const LARGEST_FILE: u64 = 255_000;
    let fixture = Fixture::new(CageMode::Auto);
    let command = format!("yes {LINE} | head -c {PRINTED}; read -t 0.3 <> <(:); echo after; exit 6");
    let (mut daemon, stamps) = start_elsewhere(&fixture, &command, Some(LARGEST_FILE));
    let mut service = fixture.adopt("service-a", stamps);
    match &mut service {
        Some(service) => assert_eq!(status_of(service).await, ExitStatus::Exited(6)),
        None => assert!(left_exit(&fixture.directory("service-a")).is_some()),
    }
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let log = fixture.log("service-a");
    assert_eq!(log.bounds().unwrap(), (0, PRINTED + 6));
    assert_eq!(log.tail(6).unwrap(), (PRINTED, b"after\n".to_vec()));
    let (mut next, mut kept) = (0, 0);
    while next < PRINTED {
        let (offset, bytes) = log.read(next, usize::MAX).unwrap();
        assert!(is_flood(offset, &bytes[..bytes.len().min((PRINTED - offset) as usize)]), "at {offset}");
        kept += bytes.len() as u64;
        next = offset + bytes.len() as u64;
    }
    assert!((LARGEST_FILE..PRINTED).contains(&kept), "{kept}");
}

#[tokio::test]
async fn a_directory_that_goes_does_not_stop_the_service() {
    let fixture = Fixture::new(CageMode::Auto);
    let proof = fixture.scratch.path().join("proof");
    let command = format!(
        "echo begun; until [ -e {0}.go ]; do read -t 0.01 <> <(:); done; yes | head -c 1000000; echo done > {0}",
        proof.display()
    );
    let mut service = fixture.start("service-a", &command).await;
    fixture.until_logged("service-a", "begun").await;
    std::fs::remove_dir_all(fixture.scratch.path().join("service-a")).unwrap();
    std::fs::write(proof.with_extension("go"), "").unwrap();
    until("it has written everything", || std::fs::read(&proof).is_ok_and(|text| text == b"done\n")).await;
    assert_eq!(end_of(&mut service).await, ServiceExit::Unknown, "there is nowhere to leave word");
}

/// A process that is no part of the tree holds the pipe. Nobody waits for it.
#[tokio::test]
async fn an_outsider_with_the_pipe_holds_nothing_up() {
    let fixture = Fixture::new(CageMode::Auto);
    let mut service =
        fixture.start("service-a", "echo here; echo $$ >&2; read -r _ < /proc/self/fd/9 9<&0; sleep 86400").await;
    fixture.until_logged("service-a", "here").await;
    let main = service.stamps().main.pid;
    let outsider = std::fs::OpenOptions::new().write(true).open(format!("/proc/{main}/fd/1")).unwrap();
    service.kill();
    assert_eq!(status_of(&mut service).await, ExitStatus::Signalled(9));
    drop(outsider);
}

/// The kernel allows a user 128 inotify instances; there may be more services than that.
#[tokio::test]
async fn many_directories_can_be_watched_at_once() {
    const MANY: usize = 300;
    let fixture = Fixture::new(CageMode::Auto);
    let directories: Vec<_> = (0..MANY).map(|number| fixture.directory(&format!("{number}"))).collect();
    let mut watches: Vec<_> = directories.iter().map(|directory| LogWatch::new(directory)).collect();
    let mut second = LogWatch::new(&directories[7]);
    std::fs::write(directories[7].join("file"), "x").unwrap();
    timeout(LONG, watches[7].changed()).await.expect("the one is told");
    timeout(LONG, second.changed()).await.expect("and the other");
    drop(second);
    std::fs::write(directories[7].join("file"), "y").unwrap();
    timeout(LONG, watches[7].changed()).await.expect("giving up one is not giving up the other");
    std::fs::write(directories[200].join("file"), "x").unwrap();
    timeout(LONG, watches[200].changed()).await.expect("the other directory is told too");
    let quiet = timeout(std::time::Duration::from_millis(50), watches[8].changed()).await;
    assert!(quiet.is_err(), "nothing changed there");
}
