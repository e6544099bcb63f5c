//! A scrub: the secret is nowhere any more, the proof holds, and the recording goes on.

use crate::fixture::*;
use shellkeep_record::scrub::{redactor, scrub, scrub_file};
use shellkeep_session::{Event, FileSum, Record, ShellState};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn scrubbed(seq: u64, seqs: Vec<u64>, files: Vec<String>) -> Record {
    scrubbed_to(seq, seqs, files, Default::default())
}

fn scrubbed_to(seq: u64, seqs: Vec<u64>, files: Vec<String>, sums: BTreeMap<String, FileSum>) -> Record {
    let shell = Box::new(ShellState::default());
    record(
        seq,
        Event::Scrubbed {
            by: None,
            seqs,
            files,
            sums,
            kv: Default::default(),
            checkpoints: Vec::new(),
            shell,
            agent_state: None,
        },
    )
}

fn everything(directory: &Path) -> String {
    let files = fs::read_dir(directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
}

#[test]
fn a_scrubbed_secret_is_gone_and_the_proof_holds() {
    let house = House::new();
    let mut recorder = house.recorder(5_000);
    take(&mut recorder, &story(40));
    let redactor = redactor([SECRET]).unwrap();
    let report = recorder.scrub(&id("a"), &redactor).unwrap();
    assert_eq!(report.files, ["config_snapshot.json"]);
    assert!(report.seqs.contains(&1) && report.seqs.contains(&3) && !report.seqs.contains(&2), "{:?}", report.seqs);
    assert!(!everything(&house.path()).contains(SECRET));
    // Until a line tells of it, it looks like what it would be if somebody else had done it.
    let bad = house.verify(40).bad.unwrap();
    assert_eq!((bad.seq, bad.line_number, bad.file.as_str()), (Some(1), 1, "events.jsonl"));
    // A scrub that was cut short is done again, and tells of all.
    let again = recorder.scrub(&id("a"), &redactor).unwrap();
    assert_eq!((&again.seqs, again.files.len()), (&report.seqs, 0));
    take(&mut recorder, &[scrubbed(41, again.seqs, report.files)]);
    take(&mut recorder, &[started(42, "true")]);
    house.assert_intact(42);
    assert!(recorder.scrub(&id("a"), &redactor).unwrap().is_empty());
    // Unmasking a field by hand is found.
    let file = house.path().join("events.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("***", "hello", 1)).unwrap();
    assert!(house.verify(42).bad.is_some());
}

#[test]
fn a_mask_that_no_scrub_tells_of_is_found() {
    let house = House::new();
    take(&mut house.recorder(5_000), &story(20));
    scrub(&house.path(), &session_key(), &redactor(["message 13"]).unwrap()).unwrap();
    let bad = house.verify(20).bad.unwrap();
    assert!(bad.seq == Some(13) && bad.reason.contains("no scrub"), "{bad:?}");
}

#[test]
fn bytes_that_are_no_text_are_scrubbed_too() {
    let house = House::new();
    let mut recorder = house.recorder(100_000);
    let output = [b"\xff\xfe ", SECRET.as_bytes(), b" \x00"].concat();
    take(&mut recorder, &[created(), started(2, "x"), finished(3, 2, &output)]);
    let report = recorder.scrub(&id("a"), &redactor([SECRET]).unwrap()).unwrap();
    assert_eq!(report.seqs, [1, 3]);
    take(&mut recorder, &[scrubbed(4, report.seqs, report.files)]);
    house.assert_intact(4);
    let line = house.lines().remove(2);
    let text = line.data["stdout_base64"].as_str().unwrap().to_owned();
    assert_eq!(text, "//4gKioqIAA=");
}

#[test]
fn a_file_is_scrubbed_in_place_or_left_alone() {
    let house = House::new();
    let path = house.directory.path().join("r1.stdout");
    let filler = "nothing here\n".repeat(60_000);
    fs::write(&path, format!("{filler}{SECRET}\n{filler}")).unwrap();
    let redactor = redactor([SECRET]).unwrap();
    assert!(scrub_file(&path, &redactor).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{filler}***\n{filler}"));
    assert!(!scrub_file(&path, &redactor).unwrap());
    assert!(!scrub_file(&house.directory.path().join("none"), &redactor).unwrap());
    assert_eq!(fs::read_dir(house.directory.path()).unwrap().count(), 1);
}
