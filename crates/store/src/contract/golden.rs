//! Files that pin format version 1. A change that breaks one of these needs a new version, not a new golden file.

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

#[test]
fn journal_lines_keep_their_form() {
    let teller = Teller::lived("golden");
    let lines: Vec<String> = teller.records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    compare("v1-journal.jsonl", &(lines.join("\n") + "\n"));
}

#[test]
fn a_golden_journal_is_still_read() {
    let text = include_str!("../../golden/v1-journal.jsonl");
    let records: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records, Teller::lived("golden").records);
}

#[test]
fn session_files_keep_their_form() {
    let house = House::new("file://store");
    let store = house.open();
    let mut teller = Teller::lived("golden");
    teller.start(Some("req-2"));
    teller.append_to(&store);
    wait(store.flush()).unwrap();
    let directory = house.path().join("store/sessions/golden");
    for (file, golden) in [
        ("meta.json", "v1-meta.json"),
        ("state.json", "v1-state.json"),
        ("config_snapshot.json", "v1-config_snapshot.json"),
        ("runs/r3.json", "v1-run.json"),
    ] {
        compare(golden, &std::fs::read_to_string(directory.join(file)).unwrap());
    }
}

#[test]
fn golden_session_files_are_still_read() {
    let house = House::new("file://store");
    let directory = house.path().join("store/sessions/golden");
    std::fs::create_dir_all(directory.join("runs")).unwrap();
    std::fs::write(directory.join("meta.json"), include_str!("../../golden/v1-meta.json")).unwrap();
    std::fs::write(directory.join("state.json"), include_str!("../../golden/v1-state.json")).unwrap();
    std::fs::write(directory.join("runs/r3.json"), include_str!("../../golden/v1-run.json")).unwrap();
    let store = house.open();
    let mut teller = Teller::lived("golden");
    teller.start(Some("req-2"));
    teller.assert_in(&store);
    let run = wait(store.run_by_request(&id("golden"), "req-1")).unwrap().unwrap();
    assert_eq!(run.result, Some(result()));
}
