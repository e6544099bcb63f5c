//! The run that a caller's key started: found at once, wherever it is, and also while the backend takes nothing.

use super::*;
use crate::fault::Point;
use shellkeep_session::StoredRun;

tell!(filesystem = "file://store", sqlite = "sqlite://store.db"; (
    a_key_is_found_while_the_backend_takes_nothing, a_key_is_found_after_a_restart_and_in_old_files
));

fn run(store: &Store, name: &str, key: &str) -> Option<StoredRun> {
    wait(RequestIndex::of(store, &id(name)).run(key)).unwrap()
}

fn keys(store: &Store, name: &str, most: usize) -> Option<Vec<String>> {
    let mut keys = wait(RequestIndex::of(store, &id(name)).run_keys(most)).unwrap();
    // One that is on its way to the backend may be there twice.
    keys.iter_mut().for_each(|keys| {
        keys.sort();
        keys.dedup();
    });
    keys
}

fn a_key_is_found_while_the_backend_takes_nothing(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    let first = teller.start(Some("first"));
    teller.finish(&first, ShellDelta::default());
    teller.append_to(&store);
    wait(store.flush_backend()).unwrap();
    store.faults().arm(Point::BackendApply, u64::MAX);
    let second = teller.start(Some("second"));
    teller.append_last(&store).unwrap();
    assert_eq!(run(&store, "a", "second").unwrap().result, None);
    teller.finish(&second, ShellDelta::default());
    teller.append_last(&store).unwrap();
    let found = run(&store, "a", "second").unwrap();
    assert_eq!((found.run_id, found.result, found.ended_seq), (second, Some(result()), Some(teller.state.seq)));
    assert_eq!(run(&store, "a", "first").unwrap().run_id, first);
    assert_eq!(run(&store, "a", "third"), None);
    assert_eq!(keys(&store, "a", 2), Some(vec!["first".to_owned(), "second".to_owned()]));
    assert_eq!((keys(&store, "a", 1), keys(&store, "b", 1)), (None, Some(Vec::new())));
    assert!(wait(store.runs(&id("a"), u64::MAX, 9)).is_err(), "the backend should take nothing");
    store.faults().arm(Point::BackendApply, 0);
    wait(store.flush_backend()).unwrap();
    assert_eq!(run(&store, "a", "second").unwrap().result, Some(result()));
    store.close().unwrap();
}

fn a_key_is_found_after_a_restart_and_in_old_files(house: House) {
    let store = house.open();
    let mut teller = Teller::begin("a", None);
    for n in 0..20 {
        let run_id = teller.start(Some(&format!("key-{n}")));
        teller.finish(&run_id, ShellDelta::default());
    }
    teller.append_to(&store);
    drop(store);
    let store = house.open();
    assert_eq!(run(&store, "a", "key-7").unwrap().seq, 16);
    store.close().unwrap();
    drop(store);
    // Files from before there was an index; one of them was cut.
    let requests = house.path().join("store/sessions/a/requests");
    if requests.is_dir() {
        std::fs::write(requests.join("key-3"), "r").unwrap();
        assert_eq!(run(&house.open(), "a", "key-3").unwrap().seq, 8);
        std::fs::remove_dir_all(&requests).unwrap();
    }
    let store = house.open();
    assert_eq!(run(&store, "a", "key-19").unwrap().seq, 40);
    assert_eq!(run(&store, "a", "key-20"), None);
    assert_eq!((keys(&store, "a", 20).map(|keys| keys.len()), keys(&store, "a", 19)), (Some(20), None));
    let again = teller.start(Some("key-20"));
    teller.append_last(&store).unwrap();
    wait(store.flush_backend()).unwrap();
    assert_eq!(run(&store, "a", "key-20").unwrap().run_id, again);
}
