//! Signatures: what was signed cannot be written differently by somebody who has everything but the signing key.

use crate::fixture::*;
use shellkeep_record::export::{Options, jsonl};
use shellkeep_record::heads;
use shellkeep_record::unsigned::sign_old;
use shellkeep_record::{
    After, Checks, ExportLine, Hash, Head, Key, Line, Masker, PublicKey, Recorder, RecorderOptions, Recording,
    SignatureChecks, Signer, Verdict, chain, check,
};
use shellkeep_redact::{Config, Redactor};
use shellkeep_session::{Event, SessionState};
use std::fs;
use std::path::Path;
use std::sync::Arc;

fn signer(seed: u8) -> Arc<Signer> {
    Arc::new(Signer::from_seed(&[seed; 32]))
}

fn recorder(house: &House) -> Recorder {
    house.recorder_with(RecorderOptions { segment_bytes: 6000, signer: Some(signer(1)), ..RecorderOptions::default() })
}

fn checked(recording: &Recording, keys: &[PublicKey]) -> Verdict {
    let (key, id) = (session_key(), id("a"));
    let signatures = SignatureChecks { session_id: Some(&id), keys, through: None };
    let key = (!recording.is_export()).then_some(&key);
    let nowhere = Path::new("/nowhere");
    let checks = Checks { key, signatures: Some(signatures), outputs: Some(nowhere), ..Checks::default() };
    check(recording, &checks).unwrap()
}

fn reason(recording: &Recording) -> String {
    checked(recording, &[signer(1).public_key()]).bad.map(|bad| bad.reason).unwrap_or_default()
}

/// Changes a command and makes all hashes anew, as whoever has `record.key` can.
fn forge(lines: &mut [Line], with_salts: bool) {
    let key = (!with_salts).then(session_key);
    lines[1].data["command"] = "rm -rf /".into();
    let mut before = Hash::NONE;
    for line in lines.iter_mut() {
        line.proof.hash = chain::hash(&before, line, key.as_ref()).unwrap();
        before = line.proof.hash;
    }
}

fn written(lines: &[Line]) -> Vec<u8> {
    let mut bytes = Vec::new();
    lines.iter().for_each(|line| line.write_to(&mut bytes).unwrap());
    bytes
}

#[test]
fn a_forgery_with_the_key_of_the_directory_is_found() {
    let house = House::new();
    let mut recorder = house.recorder_with(RecorderOptions { signer: Some(signer(1)), ..RecorderOptions::default() });
    take(&mut recorder, &story(30));
    assert_eq!(recorder.sign(None).heads.len(), 1);
    let verdict = checked(&house.recording(), &[signer(1).public_key()]);
    assert!(verdict.is_intact() && verdict.key_is_known && verdict.files == 1, "{verdict:?}");
    assert!(!checked(&house.recording(), &[]).key_is_known);
    assert!(checked(&house.recording(), &[signer(2).public_key()]).bad.unwrap().reason.contains("is signed by"));
    let mut lines = house.lines();
    forge(&mut lines, false);
    fs::write(house.path().join("events.jsonl"), written(&lines)).unwrap();
    assert_eq!(house.verify(30).bad, None, "the hashes alone do not tell");
    assert!(reason(&house.recording()).contains("without the signing key"));
    // Nor does a daemon that goes on with it sign it.
    let mut recorder = house.recorder_with(RecorderOptions { signer: Some(signer(1)), ..RecorderOptions::default() });
    take(&mut recorder, &story(31)[30..]);
    assert!(recorder.sign(None).heads.is_empty());
    assert!(reason(&house.recording()).contains("without the signing key"));
    // Without any heads it cannot pass for one that was never signed.
    fs::remove_file(house.path().join(heads::NAME)).unwrap();
    assert!(reason(&house.recording()).contains("no signature"));
    let mut recorder = house.recorder_with(RecorderOptions { signer: Some(signer(1)), ..RecorderOptions::default() });
    take(&mut recorder, &story(32)[31..]);
    recorder.sign(None);
    assert!(reason(&house.recording()).contains("lines had no signature"));
}

#[test]
fn lines_that_nobody_signed_are_written_again_from_the_journal() {
    let house = House::new();
    let mut first = recorder(&house);
    take(&mut first, &story(20));
    first.sign(None);
    take(&mut first, &story(30)[20..]);
    drop(first);
    assert!(reason(&house.recording()).contains("21 to 30 are not signed"));
    let before = house.lines();
    // The next daemon's journal begins somewhere before them.
    let mut second = recorder(&house);
    take(&mut second, &story(40)[10..]);
    second.sign(None);
    assert_eq!(house.lines()[..30], before);
    assert_eq!(reason(&house.recording()), "");
    assert_eq!(house.numbers().len(), 40);
}

#[test]
fn recordings_from_before_are_signed_once_and_say_so() {
    let house = House::new();
    take(&mut house.recorder(6000), &story(20));
    assert_eq!(sign_old(house.directory.path(), &signer(1)).unwrap(), 1);
    assert_eq!(sign_old(house.directory.path(), &signer(1)).unwrap(), 0);
    let mut recorder = recorder(&house);
    take(&mut recorder, &story(30)[20..]);
    recorder.sign(None);
    let verdict = checked(&house.recording(), &[signer(1).public_key()]);
    assert!(verdict.is_intact() && verdict.remarks[0].contains("without signatures"), "{verdict:?}");
}

#[test]
fn many_sessions_are_signed_however_few_files_are_open() {
    let house = House::new();
    let options = RecorderOptions { open_files: 4, signer: Some(signer(1)), ..RecorderOptions::default() };
    let mut recorder = house.recorder_with(options);
    for name in 0..20 {
        let mut record = created();
        record.session_id = id(&format!("s{name}"));
        assert!(recorder.take(&[&record]).is_empty());
    }
    assert_eq!(recorder.sign(None).heads.len(), 20);
}

#[test]
fn a_forged_export_is_found() {
    let house = House::new();
    let mut recorder = recorder(&house);
    take(&mut recorder, &story(30));
    recorder.sign(None);
    take(&mut recorder, &story(33)[30..]);
    let key = session_key();
    let (mut bytes, file) = (Vec::new(), house.directory.path().join("a.jsonl"));
    jsonl(&house.recording(), &Options { key: Some(&key), ..Options::new("a") }, &mut bytes).unwrap();
    fs::write(&file, &bytes).unwrap();
    let export = Recording::open_export(&file).unwrap();
    let verdict = checked(&export, &[signer(1).public_key()]);
    // It ends where the signatures do.
    assert!(verdict.is_intact() && verdict.lines == 30, "{verdict:?}");
    let lines: Vec<Line> = export.lines(0).unwrap().map(Result::unwrap).collect();
    let mut forged = lines.clone();
    forge(&mut forged, true);
    let last = forged.last().unwrap().proof.hash;
    forged[0].proof.head.as_mut().unwrap().hash = last;
    fs::write(&file, written(&forged)).unwrap();
    assert!(reason(&export).contains("not the line that was signed"));
    forged[0].proof.signed.as_mut().unwrap().hash = last;
    fs::write(&file, written(&forged)).unwrap();
    assert!(reason(&export).contains("signature is invalid"));
    forged[0].proof.signed = None;
    fs::write(&file, written(&forged)).unwrap();
    assert!(reason(&export).contains("no signature"));
    // Signed by somebody else, it is whole and not ours.
    let other = House::new();
    let options = RecorderOptions { signer: Some(signer(2)), ..RecorderOptions::default() };
    take(&mut other.recorder_with(options.clone()), &story(30));
    let mut recorder = other.recorder_with(options);
    take(&mut recorder, &story(30));
    recorder.sign(None);
    let mut bytes = Vec::new();
    jsonl(&other.recording(), &Options { key: Some(&key), ..Options::new("a") }, &mut bytes).unwrap();
    fs::write(&file, &bytes).unwrap();
    assert!(reason(&export).contains("is signed by"));
    assert!(checked(&export, &[]).is_intact() && !checked(&export, &[]).key_is_known);
}

/// The lines of a recording as an export has them, signed.
fn exported(house: &House, key: &Key, seed: u8, records: &[shellkeep_session::Record]) -> Vec<Line> {
    let options = RecorderOptions { signer: Some(signer(seed)), ..RecorderOptions::default() };
    let mut recorder = Recorder::open(house.directory.path().to_owned(), key.clone(), options).unwrap();
    take(&mut recorder, records);
    let signed = recorder.sign(None).heads.pop().unwrap();
    let key = key.of(&id("a"));
    let mut lines: Vec<Line> =
        house.lines().iter().map(|line| ExportLine::new(line, None, Some(&key)).into_line()).collect();
    let head = Head { seq: signed.seq, hash: signed.hash };
    (lines[0].proof.head, lines[0].proof.signed) = (Some(head), Some(signed));
    lines
}

/// A session that moved: two nodes recorded it, each with its own keys, and the second began with a state in place of the
/// first events. A copy has what the first signed, and from there on what the second signed.
#[test]
fn a_copy_of_what_two_nodes_recorded_is_proven_by_both() {
    let (first, second) = (House::new(), House::new());
    let mut lines = exported(&first, &key(), 1, &story(30));
    let state = SessionState { seq: 20, ..SessionState::create(&created()).unwrap() };
    let stands = Event::RecordsLost { from: 1, reason: "moved".to_owned(), state: Box::new(state) };
    let records = [&[record(20, stands)], &story(40)[20..]].concat();
    let mut rest = exported(&second, &Key([9; 32]), 2, &records);
    let (head, signed) = (rest[0].proof.head.take(), rest[0].proof.signed.take());
    let mut rest = rest.split_off(9);
    let (before, joint) = (rest.remove(0), rest.remove(0));
    let after = After { before: before.proof.hash, line: joint };
    (rest[0].proof.head, rest[0].proof.signed, rest[0].proof.after) = (head, signed, Some(Box::new(after)));
    lines.extend(rest);
    assert_eq!(lines.iter().map(|line| line.seq).collect::<Vec<_>>(), (1..=40).collect::<Vec<_>>());

    let file = first.directory.path().join("a.jsonl");
    let keys = [signer(1).public_key(), signer(2).public_key()];
    let found = |lines: &[Line], keys: &[PublicKey]| {
        fs::write(&file, written(lines)).unwrap();
        checked(&Recording::open_export(&file).unwrap(), keys)
    };
    let verdict = found(&lines, &keys);
    assert!(verdict.is_intact() && verdict.key_is_known && verdict.lines == 40, "{verdict:?}");
    assert_eq!((verdict.also_signed[0].seq, verdict.signed.unwrap().seq), (30, 40));
    assert!(found(&lines, &[]).is_intact() && !found(&lines, &[]).key_is_known);
    assert_eq!(found(&lines, &keys[1..]).bad.unwrap().line_number, 1);
    assert_eq!(found(&lines, &keys[..1]).bad.unwrap().seq, Some(31));

    // A masked copy of it proves the rest.
    let masker = Masker::new(Redactor::new(&Config::default()).unwrap().with_secrets([SECRET]).unwrap());
    let mut bytes = Vec::new();
    found(&lines, &keys);
    let options = Options { masker: Some(&masker), ..Options::new("a") };
    jsonl(&Recording::open_export(&file).unwrap(), &options, &mut bytes).unwrap();
    fs::write(&file, &bytes).unwrap();
    assert!(!String::from_utf8(bytes).unwrap().contains(SECRET));
    let verdict = checked(&Recording::open_export(&file).unwrap(), &keys);
    assert!(verdict.is_intact() && verdict.masked_fields > 5, "{verdict:?}");

    type Change = fn(&mut Vec<Line>);
    let changes: [(Change, u64, &str); 9] = [
        (|lines| lines[9].data["x"] = 1.into(), 10, "its hash does not match"),
        (|lines| drop(lines.remove(29)), 30, "missing"),
        (|lines| lines[30].proof.after = None, 31, "it has a head"),
        (|lines| lines[30].proof.signed = None, 31, "no signature"),
        (|lines| lines[30].proof.after.as_mut().unwrap().line.timestamp = at(29), 31, "does not follow"),
        (|lines| lines[30].proof.after.as_mut().unwrap().line.seq = 29, 31, "does not follow"),
        (|lines| lines[30].proof.after.as_mut().unwrap().before = Hash::NONE, 31, "does not match its hash"),
        (|lines| lines[32].proof.after = lines[30].proof.after.clone(), 33, "it has a head"),
        (|lines| drop(lines.pop()), 40, "should end with line 40"),
    ];
    for (change, seq, reason) in changes {
        let mut forged = lines.clone();
        change(&mut forged);
        let bad = found(&forged, &keys).bad.unwrap();
        assert!(bad.seq == Some(seq) && bad.reason.contains(reason), "{bad:?}, not {seq}: {reason}");
    }
    // The first events of another session of this name do not fit.
    let mut other = story(30);
    other[29].at = at(1000);
    let other = exported(&House::new(), &key(), 1, &other);
    let forged = [other, lines[30..].to_vec()].concat();
    assert!(found(&forged, &keys).bad.unwrap().reason.contains("does not follow"));
}
