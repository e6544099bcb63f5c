//! Redacted copies: the secrets are gone, the rest is proven, and a copy that was changed is found out.

use crate::fixture::*;
use shellkeep_record::mask::secret_values;
use shellkeep_record::{ExportLine, Filter, Head, Line, Masker, Recording, Search, SessionKey, verify};
use shellkeep_redact::{Config, Redactor};
use std::fs;
use std::path::{Path, PathBuf};

const LINES: u64 = 40;

fn masker(recording: &Recording) -> Masker {
    let values = secret_values(recording, None).unwrap();
    Masker::new(Redactor::new(&Config::default()).unwrap().with_secrets(values).unwrap())
}

fn export(recording: &Recording, masker: Option<&Masker>, key: Option<&SessionKey>, to: &Path) -> PathBuf {
    let last = recording.last().unwrap().unwrap();
    let head = Head { seq: last.seq, hash: last.proof.hash };
    let mut bytes = Vec::new();
    for (index, line) in recording.lines(1).unwrap().enumerate() {
        let mut line = ExportLine::new(&line.unwrap(), masker, key);
        if index == 0 {
            line = line.with_head(head.clone(), None);
        }
        line.write_to(&mut bytes).unwrap();
    }
    fs::write(to, bytes).unwrap();
    to.to_owned()
}

fn recorded() -> (House, Recording) {
    let house = House::new();
    take(&mut house.recorder(5000), &story(LINES));
    let recording = house.recording();
    (house, recording)
}

#[test]
fn a_redacted_export_has_no_secret_and_verifies_without_the_key() {
    let (house, recording) = recorded();
    let masker = masker(&recording);
    let file = export(&recording, Some(&masker), Some(&session_key()), &house.directory.path().join("e.jsonl"));
    let text = fs::read_to_string(&file).unwrap();
    assert!(!text.contains(SECRET) && text.contains("***"));
    let copy = Recording::open_export(&file).unwrap();
    for key in [None, Some(session_key())] {
        let verdict = verify(&copy, key.as_ref(), None).unwrap();
        assert_eq!((verdict.bad, verdict.lines), (None, LINES));
        assert!(verdict.masked_fields > 5);
    }
    // A copy of the copy, with more masked, needs no key either.
    let more = Masker::new(Redactor::new(&Config::default()).unwrap().with_secrets(["message 13"]).unwrap());
    let file = export(&copy, Some(&more), None, &house.directory.path().join("f.jsonl"));
    assert!(!fs::read_to_string(&file).unwrap().contains("message 13"));
    let verdict = verify(&Recording::open_export(&file).unwrap(), None, None).unwrap();
    assert_eq!((verdict.bad, verdict.lines), (None, LINES));
}

#[test]
fn an_export_without_masks_verifies() {
    let (house, recording) = recorded();
    let file = export(&recording, None, Some(&session_key()), &house.directory.path().join("e.jsonl"));
    assert!(fs::read_to_string(&file).unwrap().contains(SECRET));
    let verdict = verify(&Recording::open_export(&file).unwrap(), None, None).unwrap();
    assert_eq!((verdict.bad, verdict.lines, verdict.masked_fields), (None, LINES, 0));
}

#[test]
fn a_changed_export_is_found_out() {
    let (house, recording) = recorded();
    let masker = masker(&recording);
    let file = export(&recording, Some(&masker), Some(&session_key()), &house.directory.path().join("e.jsonl"));
    let whole = fs::read(&file).unwrap();
    let check = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        verify(&Recording::open_export(&file).unwrap(), None, None).unwrap().bad
    };
    for place in (0..whole.len()).step_by(19) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x01;
        // The text around a mask is shown, not proven.
        let line = whole[..place].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = place + whole[place..].iter().position(|byte| *byte == b'\n').unwrap();
        let parsed = Line::parse(&whole[line..end]).unwrap();
        let changed = bytes.get(line..end).and_then(|bytes| Line::parse(bytes).ok());
        let only_beside_masks = changed.is_some_and(|changed| differs_only_in_masked(&parsed, &changed));
        if !only_beside_masks {
            assert!(check(&bytes).is_some(), "byte {place}");
        }
    }
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    for index in 0..lines.len() {
        let mut less = lines.clone();
        less.remove(index);
        assert!(check(&less.concat()).is_some(), "line {index}");
        if index > 0 {
            let mut swapped = lines.clone();
            swapped.swap(index - 1, index);
            assert!(check(&swapped.concat()).is_some(), "lines {index}");
        }
        assert!(check(&lines[..index].concat()).is_some() || index == 0);
    }
}

fn differs_only_in_masked(one: &Line, other: &Line) -> bool {
    let mut same = one.clone();
    for path in one.proof.masked.keys() {
        if let (Some(place), Some(value)) = (same.data.pointer_mut(path), other.data.pointer(path))
            && value.as_str().is_some_and(|text| text.contains("***"))
        {
            *place = value.clone();
        }
    }
    same == *other
}

/// Whoever has an export has salts, and can make the commitment to what a field said. Saying that the field is masked and
/// showing something else must not pass.
#[test]
fn a_field_cannot_be_replaced_by_calling_it_masked() {
    let (house, recording) = recorded();
    let file = export(&recording, None, Some(&session_key()), &house.directory.path().join("e.jsonl"));
    let text = fs::read_to_string(&file).unwrap();
    let mut lines: Vec<Line> = text.lines().map(|line| Line::parse(line.as_bytes()).unwrap()).collect();
    let victim = lines.iter_mut().find(|line| line.event_type == "run_started").unwrap();
    let salt = victim.proof.salt.take().unwrap();
    let path = "/command";
    let old = victim.data["command"].clone();
    let of_field = shellkeep_record::chain::field_salt(&salt, path);
    victim.proof.masked.insert(path.to_owned(), shellkeep_record::chain::commit(&of_field, path, &old));
    victim.proof.salts.insert("/run_id".to_owned(), shellkeep_record::chain::field_salt(&salt, "/run_id"));
    let seq = victim.seq;
    let mut write = |text: &str| {
        let line = lines.iter_mut().find(|line| line.seq == seq).unwrap();
        line.data["command"] = text.into();
        let mut bytes = Vec::new();
        lines.iter().for_each(|line| line.write_to(&mut bytes).unwrap());
        fs::write(&file, bytes).unwrap();
        verify(&Recording::open_export(&file).unwrap(), None, None).unwrap()
    };
    assert_eq!(write("***").bad, None, "the forged proof itself is right");
    let bad = write("rm -rf /").bad.unwrap();
    assert!(bad.seq == Some(seq) && bad.reason.contains("shows no mask"), "{bad:?}");
}

#[test]
fn a_search_cannot_find_what_is_masked() {
    let (_house, recording) = recorded();
    let search = |text: &str| Some(Search::new(text).unwrap());
    let open = Filter { search: search(SECRET), ..Filter::default() };
    assert!(!recording.page(0, 100, &open).unwrap().lines.is_empty());
    let masked = Filter { masker: Some(masker(&recording)), ..open };
    assert!(recording.page(0, 100, &masked).unwrap().lines.is_empty());
    // The pattern is a regular expression over the texts, not over the JSON.
    for (pattern, found) in [("message 1\\d\n\"quoted\"$", 2), ("^llm_call$", 0), ("MESSAGE", 0), ("(?i)MESSAGE 13", 1)]
    {
        let filter = Filter { search: search(pattern), ..Filter::default() };
        assert_eq!(recording.page(0, 100, &filter).unwrap().lines.len(), found, "{pattern}");
    }
}

#[test]
fn names_that_hold_a_secret_are_masked_with_what_is_under_them() {
    let house = House::new();
    let mut records = vec![created()];
    let data = serde_json::json!({"map": {SECRET: {"x": 1}, "plain": 2}, "db_password": "abc", "count": 5});
    records.push(record(
        2,
        shellkeep_session::Event::Noted { event_type: "x_t".to_owned(), data, author: Default::default() },
    ));
    take(&mut house.recorder(10_000), &records);
    let recording = house.recording();
    let masker = masker(&recording);
    let line = masker.mask_line(&recording.line(2).unwrap().unwrap(), Some(&session_key()));
    let wanted = serde_json::json!({"map": {"***": {"x": "***"}, "plain": 2}, "db_password": "***", "count": 5});
    assert_eq!(line.data, wanted);
    assert_eq!(line.proof.masked.keys().collect::<Vec<_>>(), ["/db_password", "/map/***/x"]);
    let file = export(&recording, Some(&masker), Some(&session_key()), &house.directory.path().join("e.jsonl"));
    assert_eq!(verify(&Recording::open_export(&file).unwrap(), None, None).unwrap().bad, None);
}

/// What a model call tells of tokens is a count, however large; a password made of digits is not.
#[test]
fn counts_of_tokens_are_no_secrets() {
    let masker = Masker::new(Redactor::new(&Config::default()).unwrap());
    let usage = serde_json::json!({
        "token_usage": {"prompt_tokens": 1_234_567, "completion_tokens": 7_654_321, "total_tokens": 8_888_888},
        "max_tokens": 1_000_000, "tokens": 1_234_567,
    });
    let mut shown = usage.clone();
    assert!(!masker.mask_value(&mut shown), "{shown}");
    let mut secret = serde_json::json!({"password": 12_345_678, "pin_attempts": 3});
    assert!(masker.mask_value(&mut secret));
    assert_eq!(secret, serde_json::json!({"password": "***", "pin_attempts": 3}));
}
