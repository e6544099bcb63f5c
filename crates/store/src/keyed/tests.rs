//! Tests of the keyed store of one session.

use super::*;
use shellkeep_redact::Redactor;
use shellkeep_session::{Claim, Claims, KvRewound, KvTold, KvValue};
use tempfile::TempDir;

struct House {
    directory: TempDir,
    recorded: KvState,
    keyed: Keyed,
}

impl House {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let keyed = Keyed::open(directory.path(), KvState::default(), Durability::Process).unwrap();
        Self { directory, recorded: KvState::default(), keyed }
    }

    /// Opens it again, as after a crash.
    fn reopen(&mut self) {
        self.keyed = Keyed::open(self.directory.path(), self.recorded, Durability::Process).unwrap();
    }

    /// Writes a batch, and records it if `recorded`.
    fn put(&mut self, batch: &[(&str, Option<&str>)], recorded: bool) -> u64 {
        let version = self.recorded.version + 1;
        let mut values = Vec::new();
        let changes: Vec<KvChange> = batch
            .iter()
            .map(|(key, text)| {
                let value = text.map(|text| {
                    let sha256 = hash(text.as_bytes());
                    values.push((sha256.clone(), text.as_bytes().to_vec()));
                    KvValue { sha256, bytes: text.len() as u64, content_type: "text/plain".to_owned() }
                });
                KvChange { key: (*key).to_owned(), version, value }
            })
            .collect();
        self.keyed.change(&changes, &values).unwrap();
        if recorded {
            self.recorded.version = version;
        }
        version
    }

    fn rewind(&mut self, from: u64) -> KvRestored {
        let restored = KvRestored { from, version: self.recorded.version + 1 };
        self.recorded = KvState { version: restored.version, restored: Some(restored) };
        restored
    }

    /// What the records say, if all that is current is recorded.
    fn told(&self) -> KvTold {
        let change = |found: KeyedEntry| KvChange { key: found.key, version: found.version, value: Some(found.value) };
        let mut told = KvTold::default();
        let found = self.keyed.scan("", "", 1000).unwrap();
        told.changed(self.recorded.version, found.into_iter().map(change).collect());
        told
    }

    fn content(&self) -> Vec<(String, u64, String)> {
        let read = |found: KeyedEntry| {
            let bytes = self.keyed.read(&found).unwrap();
            (found.key, found.version, String::from_utf8(bytes).unwrap())
        };
        self.keyed.scan("", "", 1000).unwrap().into_iter().map(read).collect()
    }
}

fn content(list: &[(&str, u64, &str)]) -> Vec<(String, u64, String)> {
    list.iter().map(|(key, version, text)| ((*key).to_owned(), *version, (*text).to_owned())).collect()
}

#[test]
fn what_was_not_recorded_is_taken_back() {
    let mut house = House::new();
    house.put(&[("a", Some("1")), ("b", Some("2"))], true);
    house.put(&[("a", Some("3")), ("b", None), ("c", Some("4"))], false);
    assert_eq!(house.content(), content(&[("a", 2, "3"), ("c", 2, "4")]));
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 1, "1"), ("b", 1, "2")]));
    house.put(&[("a", Some("5"))], true);
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 2, "5"), ("b", 1, "2")]));
}

/// `verify` of a session's directory did not look at its store.
#[test]
fn a_store_is_compared_with_its_records_without_being_opened() {
    let mut house = House::new();
    house.put(&[("a", Some("1")), ("b", Some("2"))], true);
    house.put(&[("a", Some("3"))], true);
    let told = house.told();
    let directory = house.directory.path().to_owned();
    let wrong = |told: &KvTold| compare_files(&directory, told).unwrap();
    assert_eq!(wrong(&told), [""; 0]);
    // What a daemon that died did not record is no damage, and stays for the next one to take back.
    house.put(&[("a", Some("4")), ("b", None), ("c", Some("5"))], false);
    assert_eq!(wrong(&told), [""; 0]);
    assert_eq!(house.content(), content(&[("a", 3, "4"), ("c", 3, "5")]));
    house.reopen();
    for (change, reason) in [
        ("DELETE FROM entries WHERE key = 'b'", "'b' was recorded and is missing"),
        ("UPDATE entries SET version = 1 WHERE key = 'a'", "the value of 'a' is not the one that was recorded"),
        ("UPDATE entries SET version = 99 WHERE key = 'a'", "the value of 'a' is not the one that was recorded"),
        (
            "INSERT INTO entries SELECT 'x', 1, content, NULL FROM entries WHERE key = 'b'",
            "the value of 'x' is not the one",
        ),
        ("UPDATE blobs SET content = x'39' WHERE id = 2", "the value of 'b' is damaged: it does not match its hash"),
    ] {
        let keep = "CREATE TABLE e AS SELECT * FROM entries; CREATE TABLE b AS SELECT * FROM blobs";
        house.keyed.db.execute_batch(&format!("{keep}; {change}")).unwrap();
        let found = wrong(&told);
        assert!(found.len() == 1 && found[0].starts_with(reason), "{change}: {found:?}");
        let restore = "DELETE FROM entries; INSERT INTO entries SELECT * FROM e; DELETE FROM blobs; \
                       INSERT INTO blobs SELECT * FROM b; DROP TABLE e; DROP TABLE b";
        house.keyed.db.execute_batch(restore).unwrap();
    }
    assert_eq!(wrong(&told), [""; 0]);
    let nowhere = directory.join("nowhere");
    assert_eq!(compare_files(&nowhere, &told).unwrap().len(), 2, "the whole store is missing");
}

/// The record of a rewind comes first, and only an opened store is taken back.
#[test]
fn a_rewind_that_was_not_done_yet_is_no_damage() {
    let mut house = House::new();
    house.put(&[("a", Some("1"))], true);
    let mut told = house.told();
    house.put(&[("a", Some("2")), ("b", Some("3"))], true);
    let later = house.told();
    assert_eq!(compare_files(house.directory.path(), &later).unwrap(), [""; 0]);
    for (key, (version, sha256)) in later.entries() {
        let value = KvValue { sha256, bytes: 1, content_type: "text/plain".to_owned() };
        told.changed(2, vec![KvChange { key, version, value: Some(value) }]);
    }
    let restored = house.rewind(1);
    told.restored(&KvRewound { restored, missing: Vec::new() });
    assert_eq!(compare_files(house.directory.path(), &told).unwrap(), [""; 0], "not done yet");
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 3, "1")]));
    assert_eq!(compare_files(house.directory.path(), &told).unwrap(), [""; 0], "done");
}

#[test]
fn keys_are_scanned_by_prefix_in_their_order() {
    let mut house = House::new();
    house.put(&[("a/1", Some("x")), ("a/2", Some("x")), ("a", Some("x")), ("b", Some("x")), ("é", Some("x"))], true);
    let keys = |prefix: &str, after: &str, limit: usize| {
        let found = house.keyed.scan(prefix, after, limit).unwrap();
        found.into_iter().map(|entry| entry.key).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys("", "", 10), "a a/1 a/2 b é");
    assert_eq!(keys("a/", "", 10), "a/1 a/2");
    assert_eq!(keys("a/", "a/1", 10), "a/2");
    assert_eq!(keys("a", "", 2), "a a/1");
    assert_eq!((keys("z", "", 9), keys("é", "", 9)), (String::new(), "é".to_owned()));
    assert_eq!(after_prefix("a\u{10ffff}"), Some("b".to_owned()));
    assert_eq!((after_prefix("\u{10ffff}"), after_prefix("")), (None, None));
    assert_eq!(after_prefix("\u{d7ff}"), Some("\u{e000}".to_owned()));
}

/// The record of a rewind comes first; a daemon that dies then leaves the store to be taken back at the next opening.
#[test]
fn a_rewind_is_done_when_the_store_is_opened() {
    let mut house = House::new();
    let first = house.put(&[("a", Some("1")), ("b", Some("2"))], true);
    let second = house.put(&[("a", Some("3")), ("b", None), ("c", Some("4"))], true);
    assert_eq!(house.keyed.plan_restore(first).unwrap(), Some(Vec::new()));
    assert_eq!(house.keyed.plan_restore(second).unwrap(), None);
    house.rewind(first);
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 3, "1"), ("b", 3, "2")]));
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 3, "1"), ("b", 3, "2")]));
    // And back: the rewind itself can be undone.
    house.rewind(second);
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 4, "3"), ("c", 4, "4")]));
    house.put(&[("d", Some("5"))], false);
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 4, "3"), ("c", 4, "4")]));
}

#[test]
fn a_copy_has_the_content_of_its_time() {
    let mut house = House::new();
    let first = house.put(&[("a", Some("1")), ("b", Some("2"))], true);
    house.put(&[("a", Some("3")), ("b", None)], true);
    let (past, now) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let copied = house.keyed.copy_to(past.path(), Some(first), Durability::Process).unwrap();
    assert_eq!((copied.entries.len(), copied.lost.len()), (2, 0));
    let open = |directory: &TempDir| {
        let recorded = KvState { version: 2, restored: None };
        let keyed = Keyed::open(directory.path(), recorded, Durability::Process).unwrap();
        House { directory: TempDir::new().unwrap(), recorded, keyed }.content()
    };
    assert_eq!(open(&past), content(&[("a", 1, "1"), ("b", 1, "2")]));
    house.keyed.copy_to(now.path(), None, Durability::Process).unwrap();
    assert_eq!(open(&now), content(&[("a", 2, "3")]));
}

#[test]
fn old_values_give_way() {
    let mut house = House::new();
    let first = house.put(&[("a", Some("first")), ("b", Some("kept"))], true);
    house.put(&[("a", Some("second"))], true);
    house.put(&[("a", Some("third"))], true);
    assert_eq!(house.keyed.used().unwrap(), KeyedUse { current: 9, kept: 20 });
    let first_value = hash(b"first");
    assert_eq!(house.keyed.make_room(1, &HashSet::from([first_value.as_str()])).unwrap(), 6);
    assert_eq!(house.keyed.used().unwrap(), KeyedUse { current: 9, kept: 14 });
    assert_eq!(house.keyed.make_room(100, &HashSet::new()).unwrap(), 5);
    // What is gone cannot come back; the key stays as it is, and a copy lacks it.
    assert_eq!(house.keyed.plan_restore(first).unwrap(), Some(vec!["a".to_owned()]));
    let copied = house.keyed.copy_to(TempDir::new().unwrap().path(), Some(first), Durability::Power).unwrap();
    assert_eq!((copied.entries.len(), copied.lost), (1, vec!["a".to_owned()]));
    house.rewind(first);
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 3, "third"), ("b", 1, "kept")]));
}

#[test]
fn a_secret_is_masked_in_every_version() {
    let mut house = House::new();
    let first = house.put(&[("a", Some("a horse-battery")), ("b", Some("plain"))], true);
    house.put(&[("a", Some("new")), ("horse-battery/x", Some("y"))], true);
    let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
    let (scrubbed, names) = house.keyed.scrub(&redactor).unwrap();
    assert_eq!((scrubbed.values.len(), scrubbed.removed.len(), names.len()), (1, 1, 2));
    assert_eq!(house.content(), content(&[("a", 2, "new"), ("b", 1, "plain")]));
    house.rewind(first);
    house.reopen();
    assert_eq!(house.content(), content(&[("a", 3, "a ***"), ("b", 1, "plain")]));
    for file in std::fs::read_dir(house.directory.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(13).any(|part| part == b"horse-battery"), "it is in a page of the file");
    }
    // Until it is recorded, what was masked is reported again.
    assert_eq!(house.keyed.scrub(&redactor).unwrap(), (scrubbed, Vec::new()));
    house.keyed.scrub_recorded().unwrap();
    assert!(house.keyed.scrub(&redactor).unwrap().0.is_empty());
}

#[test]
fn a_scrub_that_no_record_tells_of_is_named() {
    let mut house = House::new();
    house.put(&[("a", Some("a horse-battery"))], true);
    let told = BTreeMap::from([("a".to_owned(), (1, hash(b"a horse-battery")))]);
    let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
    house.keyed.scrub(&redactor).unwrap();
    let wrong = |house: &House| house.keyed.compare(told.clone(), 1).unwrap();
    assert!(wrong(&house)[0].contains("scrub again"), "{:?}", wrong(&house));
    house.keyed.scrub_recorded().unwrap();
    assert!(wrong(&house)[0].contains("is not the one"), "{:?}", wrong(&house));
}

#[test]
fn what_differs_from_the_records_is_found() {
    let mut house = House::new();
    house.put(&[("a", Some("1")), ("b", Some("2"))], true);
    let told = |list: &[(&str, u64, &str)]| -> BTreeMap<String, (u64, String)> {
        list.iter().map(|(key, version, text)| ((*key).to_owned(), (*version, hash(text.as_bytes())))).collect()
    };
    let right = told(&[("a", 1, "1"), ("b", 1, "2")]);
    assert_eq!(house.keyed.compare(right.clone(), 1).unwrap(), Vec::<String>::new());
    assert_eq!(house.keyed.compare(told(&[("a", 1, "1"), ("b", 1, "3")]), 1).unwrap().len(), 1);
    assert_eq!(house.keyed.compare(told(&[("a", 1, "1"), ("b", 1, "2"), ("c", 1, "3")]), 1).unwrap().len(), 1);
    // What came after the records were read is not damage.
    house.put(&[("a", None), ("c", Some("3"))], true);
    assert_eq!(house.keyed.compare(right.clone(), 1).unwrap(), Vec::<String>::new());
    house
        .keyed
        .db
        .execute("UPDATE blobs SET content = CAST('X' AS BLOB) WHERE content = CAST('2' AS BLOB)", [])
        .unwrap();
    let wrong = house.keyed.compare(right, 1).unwrap();
    assert!(wrong.len() == 1 && wrong[0].contains("'b'"), "{wrong:?}");
}

/// The log in a directory that other nodes can read, and the stores made from it.
struct Logged {
    house: House,
    logs: TempDir,
    claims: Claims,
    seq: u64,
}

impl Logged {
    fn new() -> Self {
        let mut claims = Claims::default();
        claims.begin(1, &claim("1.n1.x"));
        Self { house: House::new(), logs: TempDir::new().unwrap(), claims, seq: 1 }
    }

    fn place(&self, after: u64) -> LogPlace {
        LogPlace {
            directory: self.logs.path().join("kv"),
            claim: self.claims.last().unwrap().clone(),
            seq: self.seq + 1,
            after,
            keeper: None,
        }
    }

    /// Writes and shares a batch, and records it if `recorded`.
    fn put(&mut self, batch: &[(&str, Option<&str>)], recorded: bool) {
        let after = self.house.recorded.version;
        let version = self.house.put(batch, recorded);
        let mut changes = Vec::new();
        let mut values = Vec::new();
        for (key, text) in batch {
            let value = text.map(|text| {
                let sha256 = hash(text.as_bytes());
                values.push((sha256.clone(), text.as_bytes().to_vec()));
                KvValue { sha256, bytes: text.len() as u64, content_type: "text/plain".to_owned() }
            });
            changes.push(KvChange { key: (*key).to_owned(), version, value });
        }
        let place = self.place(after);
        self.house.keyed.share(&place, LogPart::changed(place.seq, version, changes), &values).unwrap();
        self.seq += u64::from(recorded);
    }

    fn rewind(&mut self, from: u64) {
        let restored = self.house.rewind(from);
        self.house.reopen();
        let place = self.place(restored.version - 1);
        self.house.keyed.share(&place, LogPart::restored(place.seq, restored), &[]).unwrap();
        self.seq += 1;
    }

    /// The store that another node makes.
    fn elsewhere(&self) -> (House, Replayed) {
        let directory = TempDir::new().unwrap();
        let (logs, recorded) = (self.logs.path().join("kv"), self.house.recorded);
        let replayed = Keyed::replay(directory.path(), &logs, &self.claims, recorded).unwrap().expect("a log");
        let keyed = Keyed::open(directory.path(), recorded, Durability::Process).unwrap();
        (House { directory, recorded, keyed }, replayed)
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.logs.path().join("kv")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn claim(text: &str) -> Claim {
    text.parse().unwrap()
}

#[test]
fn another_node_makes_the_store_from_its_log() {
    let mut logged = Logged::new();
    let large = "x".repeat(3 << 20);
    logged.put(&[("a", Some("1")), ("large", Some(&large))], true);
    logged.put(&[("a", Some("2")), ("b", Some("3"))], true);
    logged.put(&[("a", Some("not recorded"))], false);
    logged.house.reopen();
    logged.put(&[("b", None)], true);
    logged.rewind(1);
    logged.rewind(2);
    logged.put(&[("c", Some("4"))], true);
    logged.put(&[("c", Some("not recorded"))], false);
    let (mut second, replayed) = logged.elsewhere();
    logged.house.reopen();
    assert!(replayed.is_complete);
    assert_eq!(second.content(), logged.house.content());
    // The past came along: it can be rewound there.
    second.rewind(1);
    second.reopen();
    let kept: Vec<(String, String)> = second.content().into_iter().map(|(key, _, value)| (key, value)).collect();
    assert_eq!(kept, [("a".to_owned(), "1".to_owned()), ("large".to_owned(), large)]);
}

#[test]
fn a_log_is_written_anew_by_its_next_owner_and_after_a_gap() {
    let mut logged = Logged::new();
    logged.put(&[("a", Some("1"))], true);
    logged.put(&[("a", Some("2"))], true);
    assert_eq!(logged.files(), ["1.n1.x-1.log"]);
    // It was not shared, because the directory was away.
    logged.house.put(&[("b", Some("3"))], true);
    logged.seq += 1;
    assert!(!logged.elsewhere().1.is_complete, "the log lacks the last change");
    logged.put(&[("c", Some("4"))], true);
    assert_eq!(logged.files(), ["1.n1.x-2.log"]);
    let (_, replayed) = logged.elsewhere();
    assert!(replayed.is_complete);
    // A node goes on with its own log after the session slept.
    logged.house.reopen();
    logged.put(&[("c", None)], true);
    assert_eq!(logged.files(), ["1.n1.x-2.log"]);
    let (second, _) = logged.elsewhere();
    logged.house = second;
    logged.claims.begin(logged.seq + 1, &claim("2.n2.y"));
    logged.seq += 1;
    logged.put(&[("d", Some("5"))], true);
    assert_eq!(logged.files(), ["2.n2.y-1.log"]);
    let (third, replayed) = logged.elsewhere();
    assert!(replayed.is_complete);
    assert_eq!(third.content(), content(&[("a", 2, "2"), ("b", 3, "3"), ("d", 6, "5")]));
}

/// The log of the last owner used to be replaced by one of a store that was begun anew.
#[test]
fn a_store_that_lacks_everything_does_not_replace_the_log_of_an_earlier_owner() {
    let mut logged = Logged::new();
    logged.put(&[("a", Some("1"))], true);
    let directory = TempDir::new().unwrap();
    let recorded = logged.house.recorded;
    let keyed = Keyed::open(directory.path(), recorded, Durability::Process).unwrap();
    logged.house = House { directory, recorded, keyed };
    logged.claims.begin(logged.seq + 1, &claim("2.n1.y"));
    logged.seq += 1;
    logged.put(&[("b", Some("2"))], true);
    logged.house.reopen();
    logged.put(&[("b", Some("3"))], true);
    assert_eq!(logged.files(), ["1.n1.x-1.log", "2.n1.y-1.log"]);
    // A secret that is scrubbed may be in it.
    let redactor = Redactor::new(&Default::default()).unwrap().with_secrets(["horse-battery"]).unwrap();
    logged.house.keyed.scrub(&redactor).unwrap();
    let place = logged.place(logged.house.recorded.version);
    logged.house.keyed.share_all(&place, logged.house.recorded.version).unwrap();
    assert_eq!(logged.files(), ["2.n1.y-2.log"]);
}

/// A node that does not know yet that it lost the session.
#[test]
fn what_a_stale_owner_shares_does_not_count() {
    let mut logged = Logged::new();
    logged.put(&[("a", Some("1"))], true);
    let stale = logged.claims.last().unwrap().clone();
    logged.claims.begin(3, &claim("2.n2.y"));
    // The new owner recorded this, and could not share it.
    logged.house.put(&[("a", Some("of the owner"))], true);
    let value = KvValue { sha256: hash(b"stale"), bytes: 5, content_type: String::new() };
    let change = KvChange { key: "a".to_owned(), version: 2, value: Some(value) };
    let place = LogPlace { claim: stale, seq: 3, ..logged.place(1) };
    let mut other = House::new();
    other.put(&[("a", Some("1"))], true);
    other.keyed.share(&place, LogPart::changed(3, 2, vec![change]), &[(hash(b"stale"), b"stale".to_vec())]).unwrap();
    let (second, replayed) = logged.elsewhere();
    assert!(!replayed.is_complete);
    assert_eq!(second.content(), content(&[("a", 1, "1")]));
}

#[test]
fn a_log_that_was_cut_off_counts_up_to_there() {
    let mut logged = Logged::new();
    for number in 1..=3 {
        logged.put(&[("a", Some(&format!("value {number}")))], true);
    }
    let file = logged.logs.path().join("kv/1.n1.x-1.log");
    let whole = std::fs::read(&file).unwrap();
    let mut complete = 0;
    for length in 0..=whole.len() {
        std::fs::write(&file, &whole[..length]).unwrap();
        let directory = TempDir::new().unwrap();
        let (logs, recorded) = (logged.logs.path().join("kv"), logged.house.recorded);
        let replayed = Keyed::replay(directory.path(), &logs, &logged.claims, recorded).unwrap();
        complete += usize::from(replayed.is_some_and(|replayed| replayed.is_complete));
    }
    assert_eq!(complete, 1, "only the whole one has everything");
}

/// The bug: changes were appended to a log that somebody had removed, and acknowledged. The next node had none of them.
#[test]
fn a_log_that_was_removed_is_begun_anew() {
    let mut logged = Logged::new();
    logged.put(&[("a", Some("1"))], true);
    std::fs::remove_dir_all(logged.logs.path().join("kv")).unwrap();
    logged.put(&[("b", Some("2"))], true);
    let (second, replayed) = logged.elsewhere();
    assert!(replayed.is_complete);
    assert_eq!(second.content(), content(&[("a", 1, "1"), ("b", 2, "2")]));
}
