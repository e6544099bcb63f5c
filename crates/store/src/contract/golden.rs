//! Files that pin the format, a set for each version. A change that breaks one of these needs a new version, not a new
//! golden file.

use super::*;

/// Writes the golden files instead of comparing them; for a new format version only.
const WRITE_VARIABLE: &str = "SHELLKEEP_WRITE_GOLDEN";

fn compare(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        std::fs::write(&path, found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "golden/{name}");
}

fn lines(teller: &Teller) -> String {
    let lines: Vec<String> = teller.records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    lines.join("\n") + "\n"
}

/// The lines as a journal has them.
fn segment(teller: &Teller) -> String {
    let mut text = String::new();
    for (record, number) in teller.records.iter().zip(1..) {
        let mut line = serde_json::to_vec(record).unwrap();
        crate::line::Body::of(&line).complete(&mut line, number);
        text.push_str(std::str::from_utf8(&line).unwrap());
    }
    text
}

fn records(text: &str) -> Vec<Record> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn journal_lines_keep_their_form() {
    compare("v6-journal.jsonl", &segment(&Teller::moved("golden")));
    // Whatever version 5 had is written as it was.
    compare("v5-journal.jsonl", &segment(&Teller::keyed("golden")));
    // Whatever version 4 had is written as it was.
    compare("v4-journal.jsonl", &segment(&Teller::branched("golden")));
    compare("v4-deleted-journal.jsonl", &segment(&Teller::deleted("golden")));
    // Without numbers and sums, whatever version 3 had is written as it was.
    compare("v3-journal.jsonl", &lines(&Teller::branched("golden")));
    // And whatever version 2 had.
    compare("v2-journal.jsonl", &lines(&Teller::told("golden")));
    // And whatever version 1 had.
    compare("v1-journal.jsonl", &lines(&Teller::lived("golden")));
}

#[test]
fn golden_journals_are_still_read() {
    assert_eq!(records(include_str!("../../golden/v1-journal.jsonl")), Teller::lived("golden").records);
    assert_eq!(records(include_str!("../../golden/v2-journal.jsonl")), Teller::told("golden").records);
    assert_eq!(records(include_str!("../../golden/v3-journal.jsonl")), Teller::branched("golden").records);
    let summed = [
        (include_str!("../../golden/v6-journal.jsonl"), Teller::moved("golden")),
        (include_str!("../../golden/v5-journal.jsonl"), Teller::keyed("golden")),
        (include_str!("../../golden/v4-journal.jsonl"), Teller::branched("golden")),
        (include_str!("../../golden/v4-deleted-journal.jsonl"), Teller::deleted("golden")),
    ];
    for (text, teller) in summed {
        assert_eq!(records(text), teller.records);
        for (line, number) in text.lines().zip(1..) {
            assert_eq!(crate::line::check(line.as_bytes()), Ok(number));
        }
    }
}

#[test]
fn the_recording_of_a_deleted_session_keeps_its_form() {
    let house = House::new("file://store");
    std::fs::write(house.path().join("record.key"), "07".repeat(32)).unwrap();
    let store = house.open();
    Teller::deleted("golden").append_to(&store);
    wait(store.flush()).unwrap();
    let directory = house.path().join("deleted/golden.deleted.7/recording");
    compare("v6-deleted-events.jsonl", &std::fs::read_to_string(directory.join("events.jsonl")).unwrap());
}

#[test]
fn session_files_keep_their_form() {
    let house = House::new("file://store");
    std::fs::write(house.path().join("record.key"), "07".repeat(32)).unwrap();
    let store = house.open();
    let mut teller = Teller::moved("golden");
    teller.start(Some("req-2"));
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    let directory = house.path().join("store/sessions/golden");
    for (file, golden) in [
        ("meta.json", "v6-meta.json"),
        ("state.json", "v6-state.json"),
        ("config_snapshot.json", "v6-config_snapshot.json"),
        ("runs/r3.json", "v6-run.json"),
        ("messages/2.json", "v6-message.json"),
        ("events.jsonl", "v6-events.jsonl"),
    ] {
        compare(golden, &std::fs::read_to_string(directory.join(file)).unwrap());
    }
}

/// Lines of earlier versions have no files in their hashes, and prove themselves as they did.
#[test]
fn golden_recordings_still_verify() {
    let key = shellkeep_record::Key([7; 32]).of(&id("golden"));
    for text in [
        include_str!("../../golden/v2-events.jsonl"),
        include_str!("../../golden/v3-events.jsonl"),
        include_str!("../../golden/v4-events.jsonl"),
        include_str!("../../golden/v5-events.jsonl"),
        include_str!("../../golden/v6-events.jsonl"),
        include_str!("../../golden/v4-deleted-events.jsonl"),
        include_str!("../../golden/v5-deleted-events.jsonl"),
        include_str!("../../golden/v6-deleted-events.jsonl"),
    ] {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("events.jsonl"), text).unwrap();
        let recording = Recording::open(directory.path()).unwrap();
        let verdict = verify(&recording, Some(&key), Some(text.lines().count() as u64)).unwrap();
        assert!(verdict.is_intact(), "{verdict:?}");
    }
}

/// A store with one session whose files are these.
fn house_with(meta: &str, state: &str, run: &str) -> House {
    house_of(meta, state, run, "r21.json")
}

/// The same, with another name for its second run.
fn house_of(meta: &str, state: &str, run: &str, second: &str) -> House {
    let house = House::new("file://store");
    let directory = house.path().join("store/sessions/golden");
    std::fs::create_dir_all(directory.join("runs")).unwrap();
    let applied = "{\"format\": 1, \"id\": \"x\", \"mark\": {\"segment\": 1, \"offset\": 0}}";
    std::fs::write(house.path().join("store/applied.json"), applied).unwrap();
    std::fs::write(directory.join("meta.json"), meta).unwrap();
    std::fs::write(directory.join("state.json"), state).unwrap();
    // As many files as the state says there are.
    for file in ["r3.json", second] {
        std::fs::write(directory.join("runs").join(file), run).unwrap();
    }
    std::fs::create_dir_all(directory.join("messages")).unwrap();
    for file in ["1.json", "2.json"] {
        std::fs::write(directory.join("messages").join(file), include_str!("../../golden/v4-message.json")).unwrap();
    }
    house
}

fn assert_read(house: &House, mut teller: Teller) {
    let store = house.open();
    teller.start(Some("req-2"));
    teller.assert_in(&store);
    let run = wait(RequestIndex::of(&store, &id("golden")).run("req-1")).unwrap().unwrap();
    assert_eq!(run.result, Some(result()));
}

#[test]
fn golden_session_files_are_still_read() {
    let first = house_with(
        include_str!("../../golden/v1-meta.json"),
        include_str!("../../golden/v1-state.json"),
        include_str!("../../golden/v1-run.json"),
    );
    assert_read(&first, Teller::lived("golden"));
    let second = house_with(
        include_str!("../../golden/v2-meta.json"),
        include_str!("../../golden/v2-state.json"),
        include_str!("../../golden/v2-run.json"),
    );
    assert_read(&second, Teller::told("golden"));
    let third = house_with(
        include_str!("../../golden/v3-meta.json"),
        include_str!("../../golden/v3-state.json"),
        include_str!("../../golden/v3-run.json"),
    );
    assert_read(&third, Teller::branched("golden"));
    let fourth = house_with(
        include_str!("../../golden/v4-meta.json"),
        include_str!("../../golden/v4-state.json"),
        include_str!("../../golden/v4-run.json"),
    );
    assert_read(&fourth, Teller::branched("golden"));
    let fifth = house_of(
        include_str!("../../golden/v5-meta.json"),
        include_str!("../../golden/v5-state.json"),
        include_str!("../../golden/v5-run.json"),
        "r24.json",
    );
    assert_read(&fifth, Teller::keyed("golden"));
    let sixth = house_of(
        include_str!("../../golden/v6-meta.json"),
        include_str!("../../golden/v6-state.json"),
        include_str!("../../golden/v6-run.json"),
        "r26.json",
    );
    assert_read(&sixth, Teller::moved("golden"));
}
