//! Signatures: what was signed cannot be written differently by somebody who has everything but the signing key.

use crate::fixture::*;
use shellkeep_record::export::{Options, jsonl};
use shellkeep_record::heads;
use shellkeep_record::unsigned::sign_old;
use shellkeep_record::{
    Checks, Hash, Line, PublicKey, Recorder, RecorderOptions, Recording, SignatureChecks, Signer, Verdict, chain, check,
};
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
    assert_eq!(recorder.sign(None).0.len(), 1);
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
    assert!(recorder.sign(None).0.is_empty());
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
    assert_eq!(recorder.sign(None).0.len(), 20);
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
