//! Random damage to everything that a store keeps: refused, set aside, or right, and never silently wrong.

use super::*;
use crate::ReadError;
use crate::fault::Point;
use std::collections::BTreeMap;
use std::fs;

tell!(filesystem = "file://store", sqlite = "sqlite://store.db"; (
    a_damaged_store_is_never_silently_wrong, a_damaged_journal_is_never_silently_wrong
));

/// Damages of one store by default. `SHELLKEEP_SOAK` multiplies it.
const ROUNDS: u64 = 60;

fn rounds() -> u64 {
    let soak = std::env::var("SHELLKEEP_SOAK").ok().and_then(|text| text.parse::<u64>().ok());
    ROUNDS * soak.unwrap_or(1).max(1)
}

/// A generator that a failure can be repeated with: xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (sides.max(1) as u64)).unwrap()
    }
}

/// The sessions given to a store, and all states that each has had.
struct Model {
    tellers: Vec<Teller>,
    /// States of each session in order, with the states after which no line of the journal says more.
    history: BTreeMap<String, Vec<SessionState>>,
}

impl Model {
    fn new() -> Self {
        let tellers = vec![Teller::branched("s1"), Teller::told("s2"), Teller::lived("s3")];
        let history = tellers.iter().map(|teller| {
            let mut state = SessionState::create(&teller.records[0]).unwrap();
            let mut states = vec![state.clone()];
            for record in &teller.records[1..] {
                state.apply(record).unwrap();
                states.push(state.clone());
            }
            (teller.state.meta.session_id.to_string(), states)
        });
        let history = history.collect();
        Self { tellers, history }
    }

    /// Records of all sessions in turns, so that each line's neighbours are others'.
    fn append_to(&self, store: &Store) {
        let most = self.tellers.iter().map(|teller| teller.records.len()).max().unwrap();
        for index in 0..most {
            for teller in &self.tellers {
                if let Some(record) = teller.records.get(index) {
                    store.append(record).unwrap();
                }
            }
        }
    }

    /// What the store says must be so, or damage. If the journal's end was cut, it may be older: that is what a crash does.
    fn check(&self, store: &Store, cut: bool) -> Result<(), String> {
        for teller in &self.tellers {
            let session_id = &teller.state.meta.session_id;
            let states = &self.history[session_id.as_str()];
            let is_past = |state: &SessionState| cut && states.contains(state);
            match wait(store.load(session_id)) {
                // A session that is set aside answers nothing else.
                Err(_) => continue,
                Ok(Some(state)) if state == teller.state || is_past(&state) => {}
                Ok(None) if cut => continue,
                Ok(state) => return Err(format!("{session_id} is {state:?}")),
            }
            if cut {
                continue;
            }
            match wait(RequestIndex::of(store, session_id).run("req-1")) {
                Ok(Some(run)) if run.result == Some(result()) => {}
                Err(ReadError::Damaged { .. } | ReadError::Unavailable { .. }) => {}
                found => return Err(format!("req-1 of {session_id} is {found:?}")),
            }
            match wait(store.messages(session_id, 0, 10)) {
                Ok(messages) if messages.len() as u64 == teller.state.messages => {}
                Err(_) => {}
                found => return Err(format!("the messages of {session_id} are {found:?}")),
            }
            if let Ok(shell) = wait(store.first_shell(session_id)) {
                let Event::SessionCreated { shell: first, .. } = &teller.records[0].event else { panic!("it begins") };
                if shell.as_ref() != Some(&**first) {
                    return Err(format!("the first shell of {session_id} is {shell:?}"));
                }
            }
        }
        for summary in wait(store.list(None, None, 100)).unwrap_or_default() {
            let teller = self.tellers.iter().find(|teller| teller.state.meta.session_id == summary.meta.session_id);
            let is_right =
                teller.is_some_and(|teller| summary.meta == teller.state.meta && summary.seq == teller.state.seq);
            if summary.damaged.is_none() && !is_right && !cut {
                return Err(format!("it is listed as {summary:?}"));
            }
        }
        Ok(())
    }
}

/// The files of a directory, below it.
fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
    found.sort();
}

/// Damages a file; says how, and whether its end was touched.
fn damage(path: &Path, may_go: bool, dice: &mut Dice) -> (String, bool) {
    let mut bytes = fs::read(path).unwrap();
    let length = bytes.len();
    let last_line = bytes[..length.saturating_sub(1)].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (kind, at) = (dice.roll(10), dice.roll(length));
    let size = 1 + dice.roll(64).min(length.saturating_sub(at).saturating_sub(1));
    let (how, end) = match kind {
        0 if may_go => {
            fs::remove_file(path).unwrap();
            return ("removed".to_owned(), false);
        }
        1 => {
            bytes.truncate(at);
            (format!("cut at {at}"), true)
        }
        2 => {
            bytes.drain(at..(at + size).min(length));
            (format!("{size} bytes taken out at {at}"), at + size >= last_line)
        }
        3 => {
            bytes[at..(at + size).min(length)].fill(0);
            (format!("{size} zeros at {at}"), at + size > last_line)
        }
        _ if length > 0 => {
            bytes[at] ^= 1 << dice.roll(8);
            (format!("a bit flipped at {at}"), at >= last_line)
        }
        _ => ("nothing, it is empty".to_owned(), false),
    };
    fs::write(path, bytes).unwrap();
    (how, end)
}

/// Damages copies of a house, one file at a time.
fn torture(house: &House, model: &Model, seed: u64, is_wanted: impl Fn(&Path) -> bool) {
    let (mut refused, mut opened) = (0, 0);
    for round in 0..rounds() {
        let mut dice = Dice(seed + round * 0x9E37_79B9);
        for _ in 0..5 {
            dice.roll(2);
        }
        let copy = house.after_kill();
        let mut all = Vec::new();
        files(copy.path(), &mut all);
        all.retain(|path| is_wanted(path.strip_prefix(copy.path()).unwrap()));
        let path = all[dice.roll(all.len())].clone();
        let last_segment = copy.segments().pop();
        // That an entry of the index of requests was removed is not noticed.
        let may_go = !path.parent().is_some_and(|parent| parent.ends_with("requests"));
        let (how, end) = damage(&path, may_go, &mut dice);
        let place = path.strip_prefix(copy.path()).unwrap().display().to_string();
        match copy.try_open() {
            Err(_) => refused += 1,
            Ok(store) => {
                opened += 1;
                // The end of the journal looks as after a crash in the middle of a write.
                let cut = end && Some(&path) == last_segment.as_ref();
                if let Err(wrong) = model.check(&store, cut) {
                    panic!("round {round}: {place}, {how}: {wrong}");
                }
            }
        }
    }
    assert!(refused > 0 && opened > 0, "{refused} refused, {opened} opened");
}

/// What is not looked at when a store is opened: the recordings have a proof of their own, and locks hold nothing.
fn is_of_the_store(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_recording = ["events", "config_snapshot", "heads", ".key"].iter().any(|part| text.contains(part));
    !is_recording && !text.ends_with("lock") && !text.ends_with("-shm")
}

fn a_damaged_store_is_never_silently_wrong(house: House) {
    let model = Model::new();
    let store = house.open();
    model.append_to(&store);
    wait(store.flush()).unwrap();
    store.close().unwrap();
    torture(&house, &model, 11, is_of_the_store);
}

fn a_damaged_journal_is_never_silently_wrong(house: House) {
    let model = Model::new();
    let store = house.open();
    store.faults().arm(Point::BackendApply, u64::MAX);
    model.append_to(&store);
    torture(&house, &model, 12, |path| path.starts_with("journal") && path.extension().is_some_and(|e| e == "jsonl"));
}
