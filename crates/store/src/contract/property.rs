//! The law of the store: what is read back is the fold of what was appended, whatever it was and whenever the daemon
//! was killed.

use super::*;
use crate::fault::Point;
use proptest::prelude::*;

/// One turn of a random story.
#[derive(Debug, Clone)]
enum Turn {
    Run { name: Vec<u8>, value: Vec<u8>, removes: bool, function: bool },
    Start,
    Detach,
    Finish,
    Shell { generation: u64 },
    Stop { message: String },
    Restart,
    Message { text: String },
    Save { bytes: Vec<u8> },
    Lose,
    Anew,
    Kill,
}

fn turn() -> impl Strategy<Value = Turn> {
    let name = prop::collection::vec(any::<u8>(), 1..3);
    let value = prop::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        4 => (name, value, any::<bool>(), any::<bool>())
            .prop_map(|(name, value, removes, function)| Turn::Run { name, value, removes, function }),
        2 => Just(Turn::Start),
        1 => Just(Turn::Detach),
        2 => Just(Turn::Finish),
        1 => (0..9u64).prop_map(|generation| Turn::Shell { generation }),
        1 => "[a-z\n\"]{0,5}".prop_map(|message| Turn::Stop { message }),
        1 => Just(Turn::Restart),
        1 => "[a-z\n\"]{0,5}".prop_map(|text| Turn::Message { text }),
        1 => prop::collection::vec(any::<u8>(), 0..8).prop_map(|bytes| Turn::Save { bytes }),
        1 => Just(Turn::Lose),
        1 => Just(Turn::Anew),
        1 => Just(Turn::Kill),
    ]
}

fn delta(name: Vec<u8>, value: Vec<u8>, removes: bool, function: bool) -> ShellDelta {
    let mut delta = ShellDelta { status: Some(i32::from(removes)), ..ShellDelta::default() };
    if function {
        let function = Function { attributes: String::new(), source: value.into() };
        delta.functions.insert(name.into(), (!removes).then_some(function));
    } else {
        delta.variables.insert(name.into(), (!removes).then(|| Variable::scalar("x", value)));
    }
    delta
}

fn tell(teller: &mut Teller, turn: Turn) {
    let open = teller.state.active_runs.keys().next().cloned();
    match (turn, open) {
        (Turn::Run { name, value, removes, function }, _) => {
            let run = teller.start(None);
            teller.finish(&run, delta(name, value, removes, function));
        }
        (Turn::Start, _) => drop(teller.start(Some("req"))),
        (Turn::Detach, Some(run_id)) => drop(teller.say(Event::RunDetached { run_id }).clone()),
        (Turn::Finish, Some(run_id)) => teller.finish(&run_id, ShellDelta::default()),
        (Turn::Shell { generation }, _) => drop(teller.say(Event::ShellStarted { generation }).clone()),
        (Turn::Stop { message }, _) => {
            let notices = vec![Notice { code: NoticeCode::CwdMissing, message }];
            teller.say(Event::ShellStopped { reason: "died".to_owned(), notices });
        }
        (Turn::Restart, _) => {
            let shell = Box::new(Teller::begin("a", None).state.shell);
            teller.say(Event::Restarted { shell });
        }
        (Turn::Message { text }, _) => teller.message("user", &text),
        (Turn::Save { bytes }, _) => teller.save("application/octet-stream", &bytes),
        (Turn::Lose, _) => teller.lose(2),
        (Turn::Anew, _) => {
            teller.say(Event::SessionDestroyed);
            let anew = Teller::begin("a", None);
            teller.state = anew.state;
            teller.records.extend(anew.records);
        }
        (Turn::Detach | Turn::Finish | Turn::Kill, _) => {}
    }
}

fn law(url: &'static str, turns: Vec<Turn>) {
    let mut house = House::new(url);
    let mut store = house.open();
    let mut teller = Teller::begin("a", None);
    teller.append_to(&store);
    let mut told = teller.records.len();
    for turn in turns {
        let kills = matches!(turn, Turn::Kill);
        tell(&mut teller, turn);
        for record in &teller.records[told..] {
            store.append(record).unwrap();
        }
        told = teller.records.len();
        if kills {
            // The backend must not change while the copy is taken.
            wait(store.flush()).unwrap();
            store.faults().arm(Point::BackendApply, u64::MAX);
            teller.say(Event::ShellStarted { generation: 1 });
            teller.append_last(&store).unwrap();
            told += 1;
            let next = house.after_kill();
            drop(std::mem::replace(&mut store, next.open()));
            house = next;
        }
    }
    teller.assert_in(&store);
    let verdict = teller.verdict(&store);
    assert!(verdict.is_intact(), "{verdict:?}");
    drop(store);
    let store = house.open();
    teller.assert_in(&store);
    assert!(teller.verdict(&store).is_intact());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_gives_back_the_fold(turns in prop::collection::vec(turn(), 0..40)) {
        law("sqlite://store.db", turns);
    }

    #[test]
    fn filesystem_gives_back_the_fold(turns in prop::collection::vec(turn(), 0..40)) {
        law("file://store", turns);
    }
}
