//! Whatever somebody does to the files, verifying finds it and names the first line that is not right.

use crate::fixture::*;
use shellkeep_record::{Recording, Verdict, verify};
use std::fs;
use std::path::{Path, PathBuf};

const LINES: u64 = 60;

struct Crime {
    house: House,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Crime {
    fn scene() -> Self {
        let house = House::new();
        assert!(take(&mut house.recorder(6000), &story(LINES)).is_empty());
        house.assert_intact(LINES);
        let files: Vec<_> =
            house.recording().files().iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        assert!(files.len() >= 4, "{} files", files.len());
        Self { house, files }
    }

    /// What is found when a file has other bytes for once.
    fn verdict(&self, file: usize, bytes: &[u8]) -> Verdict {
        let (path, whole) = &self.files[file];
        fs::write(path, bytes).unwrap();
        let verdict = self.house.verify(LINES);
        fs::write(path, whole).unwrap();
        verdict
    }

    fn name(&self, file: usize) -> String {
        self.files[file].0.file_name().unwrap().to_string_lossy().into_owned()
    }
}

fn lines_of(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(Vec::from).collect()
}

/// The line, from 1, that a byte is in.
fn line_at(bytes: &[u8], place: usize) -> u64 {
    bytes[..place].iter().filter(|byte| **byte == b'\n').count() as u64 + 1
}

#[test]
fn every_changed_byte_is_found_in_its_line() {
    let crime = Crime::scene();
    for (file, (_, whole)) in crime.files.iter().enumerate() {
        // Each byte of a command's two lines, and a sample of the others: the rest is the same code.
        let sampled =
            |place: &usize| place.is_multiple_of(13) || (file == 0 && (2..=3).contains(&line_at(whole, *place)));
        for place in (0..whole.len()).filter(sampled) {
            let mut bytes = whole.clone();
            bytes[place] ^= if place.is_multiple_of(5) { 0x80 } else { 0x01 };
            let bad = crime.verdict(file, &bytes).bad.unwrap_or_else(|| panic!("byte {place} of {file}"));
            assert_eq!((bad.file, bad.line_number), (crime.name(file), line_at(whole, place)), "byte {place}");
        }
    }
}

#[test]
fn every_dropped_line_is_found() {
    let crime = Crime::scene();
    let mut seq = 0;
    for (file, (_, whole)) in crime.files.iter().enumerate() {
        let lines = lines_of(whole);
        for index in 0..lines.len() {
            seq += 1;
            let mut less = lines.clone();
            less.remove(index);
            let verdict = crime.verdict(file, &less.concat());
            let bad = verdict.bad.unwrap_or_else(|| panic!("line {seq}"));
            assert_eq!((bad.seq, verdict.lines), (Some(seq), seq - 1), "{bad:?}");
        }
    }
    assert_eq!(seq, LINES);
}

#[test]
fn every_swapped_pair_is_found() {
    let crime = Crime::scene();
    for (file, (_, whole)) in crime.files.iter().enumerate() {
        let lines = lines_of(whole);
        for index in 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(index - 1, index);
            let bad = crime.verdict(file, &swapped.concat()).bad.unwrap();
            assert_eq!((bad.file, bad.line_number), (crime.name(file), index as u64));
        }
    }
}

#[test]
fn a_tail_cut_anywhere_is_found() {
    let crime = Crime::scene();
    let last = crime.files.len() - 1;
    let whole = &crime.files[last].1;
    for length in 0..whole.len() {
        let bad = crime.verdict(last, &whole[..length]).bad.unwrap_or_else(|| panic!("cut to {length}"));
        assert_eq!((bad.file, bad.line_number), (crime.name(last), line_at(whole, length)), "cut to {length}");
    }
}

#[test]
fn missing_and_foreign_files_are_found() {
    let crime = Crime::scene();
    let mut first = 1;
    for (file, (path, whole)) in crime.files.iter().enumerate() {
        fs::remove_file(path).unwrap();
        let bad = crime.house.verify(LINES).bad.unwrap();
        assert_eq!(bad.seq, Some(first), "{bad:?}");
        let place = if file + 1 == crime.files.len() { file - 1 } else { file + 1 };
        assert_eq!(bad.file, crime.name(place));
        fs::write(path, whole).unwrap();
        // An emptied one too.
        assert!(crime.verdict(file, b"").bad.is_some());
        first += lines_of(whole).len() as u64;
    }
    // Bytes after the end, with and without a line break.
    let last = crime.files.len() - 1;
    for more in ["x", "\n", "{}\n"] {
        let bytes = [&crime.files[last].1, more.as_bytes()].concat();
        assert!(crime.verdict(last, &bytes).bad.is_some(), "{more:?}");
    }
    crime.house.assert_intact(LINES);
}

#[test]
fn another_way_to_write_the_same_is_found() {
    let crime = Crime::scene();
    let text = String::from_utf8(crime.files[0].1.clone()).unwrap();
    let hash = "\"hash\":";
    let salt = format!("\"salt\":\"{}\",{hash}", session_key().salt(1));
    for (old, new) in [
        (":1,", ": 1,"),
        ("\"seq\":1,", "\"seq\":1.0,"),
        ("{\"agent\"", "{ \"agent\""),
        ("ann", "\\u0061nn"),
        (hash, &salt),
    ] {
        assert!(text.contains(old), "{old}");
        let bad = crime.verdict(0, text.replacen(old, new, 1).as_bytes()).bad;
        assert_eq!(bad.unwrap_or_else(|| panic!("{new}")).line_number, 1);
    }
}

#[test]
fn the_key_of_another_session_proves_nothing() {
    let crime = Crime::scene();
    let other = key().of(&id("b"));
    let verdict = verify(&crime.house.recording(), Some(&other), None).unwrap();
    assert_eq!(verdict.bad.unwrap().line_number, 1);
    let nobody = verify(&crime.house.recording(), None, None).unwrap().bad.unwrap();
    assert!(nobody.reason.contains("salt"), "{nobody:?}");
}

#[test]
fn what_is_no_recording_says_so() {
    assert!(Recording::open(Path::new("/nowhere")).unwrap_err().to_string().contains("has no recording"));
    let house = House::new();
    let file = house.directory.path().join("x.jsonl");
    fs::write(&file, "hello\n").unwrap();
    let verdict = verify(&Recording::open_export(&file).unwrap(), None, None).unwrap();
    assert_eq!(verdict.bad.unwrap().line_number, 1);
}
