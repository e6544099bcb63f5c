//! Random work against a model, with the daemon killed again and again: a rewind gives the files and the shell of its
//! moment, or names what may not be as it was. `SHELLKEEP_SOAK` multiplies the number of kills.

use super::support::Daemon;
use super::tools::Files;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const KILLS: u64 = 12;
const SESSION: &str = "s";
const NAMES: [&str; 5] = ["a", "b", "c", "d/e", "d/f"];

/// What a session is at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    n: String,
    files: BTreeMap<String, String>,
}

/// Always the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

struct Work {
    daemon: Daemon,
    dice: Dice,
    now: Model,
    /// Each moment by what names it.
    moments: Vec<(Value, Model)>,
    count: u64,
}

impl Work {
    fn begin(seed: u64) -> Self {
        let daemon = Daemon::start();
        daemon.create(SESSION);
        Self { daemon, dice: Dice(seed), now: Model::default(), moments: Vec::new(), count: 0 }
    }

    fn command(&mut self) -> String {
        self.count += 1;
        let count = self.count;
        let mut command = String::from("mkdir -p d");
        if self.dice.below(2) == 0 {
            self.now.n = count.to_string();
            command += &format!("; n={count}");
        }
        for _ in 0..self.dice.below(3) {
            let name = NAMES[self.dice.below(NAMES.len() as u64) as usize];
            if self.dice.below(4) == 0 {
                self.now.files.remove(name);
                command += &format!("; rm -f {name}");
            } else {
                self.now.files.insert(name.to_owned(), format!("v{count}\n"));
                command += &format!("; echo v{count} > {name}");
            }
        }
        command
    }

    fn run(&mut self) {
        let command = self.command();
        let answer = self.daemon.ask(SESSION, "run", json!({"command": command})).json();
        assert_eq!(answer["status"], "exited", "{answer}");
        let name = if self.dice.below(2) == 0 { answer["seq"].clone() } else { answer["run_id"].clone() };
        self.moments.push((name, self.now.clone()));
    }

    /// A command that is still running when the daemon is killed: what it did to the files is there, and its changes of the
    /// shell are not.
    fn lose(&mut self) {
        let before = self.now.n.clone();
        let command = self.command() + "; sleep 600";
        let answer = self.daemon.ask(SESSION, "run", json!({"command": command, "blocking": false})).json();
        self.daemon.restart();
        self.now.n = before;
        self.now.files = self.files();
        self.moments.push((answer["run_id"].clone(), self.now.clone()));
    }

    fn files(&self) -> BTreeMap<String, String> {
        self.daemon.tree(SESSION).into_iter().collect()
    }

    fn rewind(&mut self) {
        if self.moments.is_empty() {
            return;
        }
        let (name, wanted) = self.moments[self.dice.below(self.moments.len() as u64) as usize].clone();
        let answer = self.daemon.rewind_to(SESSION, name.clone());
        let named: Vec<&str> = ["uncertain", "kept_back"]
            .iter()
            .flat_map(|list| answer[*list].as_array().into_iter().flatten())
            .filter_map(|left| left["path"].as_str())
            .collect();
        let files = self.files();
        let all = files.keys().chain(wanted.files.keys());
        let wrong: Vec<&String> =
            all.filter(|path| files.get(*path) != wanted.files.get(*path) && !named.contains(&path.as_str())).collect();
        assert!(wrong.is_empty(), "after a rewind to {name}, {wrong:?} are not {wanted:?} but {files:?}: {answer}");
        self.now = Model { n: wanted.n, files };
        let n = self.daemon.sh(SESSION, "echo $n").out();
        assert_eq!(n.trim_end(), self.now.n, "after a rewind to {name}: {answer}");
    }
}

#[test]
fn every_rewind_is_exact_or_names_what_is_not() {
    let soak = crate::support::soak() as u64;
    let mut work = Work::begin(0x5eed);
    let mut kills = 0;
    while kills < KILLS * soak {
        match work.dice.below(10) {
            0..6 => work.run(),
            6 => work.rewind(),
            7 => {
                work.lose();
                kills += 1;
            }
            _ => {
                // Right after an answer, when its checkpoint may not be made yet.
                work.run();
                work.daemon.restart();
                kills += 1;
            }
        }
    }
    work.rewind();
    let verdict = work.daemon.ask(SESSION, "verify", json!({})).json();
    assert_eq!(verdict["intact"], true, "{verdict}");
}
