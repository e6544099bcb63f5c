//! The laws of limits that follow the machine.

use super::*;
use proptest::prelude::*;

const CALM: PressureReading = PressureReading { cpu: 0.1, memory: 0.0, memory_free: 0.7 };
const BUSY: PressureReading = PressureReading { cpu: 0.95, memory: 0.0, memory_free: 0.7 };
const FULL: PressureReading = PressureReading { cpu: 0.1, memory: 0.3, memory_free: 0.05 };
const BETWEEN: PressureReading = PressureReading { cpu: 0.65, memory: 0.05, memory_free: 0.15 };
const NAMES: [LimitName; 3] = [LimitName::LiveShells, LimitName::Running, LimitName::Services];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn of(controller: &Controller, name: LimitName) -> usize {
    controller.limits().find(|limit| limit.name == name).unwrap().now
}

fn node() -> Controller {
    Controller::new([
        Limit::new(LimitName::LiveShells, 20, 200),
        Limit::new(LimitName::Running, 8, 200),
        Limit::new(LimitName::Services, 0, 500),
    ])
}

#[test]
fn pressure_pulls_down_what_it_is_about() {
    let mut controller = node();
    let changes = controller.step(BUSY, at(0));
    assert_eq!(changes.iter().map(|change| (change.name, change.to)).collect::<Vec<_>>(), [(LimitName::Running, 150)]);
    let reason = "something waited for a CPU 95 % of the time and for memory 0 %, with 70 % of it free, so fewer \
                  commands may run at once until that is better";
    assert_eq!(changes[0].reason, reason);
    let changes = controller.step(FULL, at(10));
    assert_eq!(changes.len(), 3);
    assert_eq!(of(&controller, LimitName::LiveShells), 150);
    assert_eq!(of(&controller, LimitName::Running), 112);
    assert_eq!(of(&controller, LimitName::Services), 375);
}

#[test]
fn little_free_memory_is_pressure_before_anything_waits_for_it() {
    let reading = PressureReading { memory_free: 0.07, ..CALM };
    assert_eq!(node().step(reading, at(0)).len(), 3);
}

#[test]
fn a_change_is_given_time_to_show() {
    let mut controller = node();
    controller.step(BUSY, at(0));
    for second in 1..10 {
        assert_eq!(controller.step(BUSY, at(second)), [], "second {second}");
    }
    assert_eq!(controller.step(BUSY, at(10)).len(), 1);
}

#[test]
fn a_pause_is_not_calm() {
    let mut controller = node();
    controller.step(BUSY, at(0));
    for second in 1..30 {
        assert_eq!(controller.step(CALM, at(second)), [], "second {second}");
    }
    controller.step(BETWEEN, at(30));
    for second in 31..61 {
        assert_eq!(controller.step(CALM, at(second)), [], "second {second}");
    }
    let changes = controller.step(CALM, at(61));
    assert_eq!(changes.len(), 1);
    assert_eq!((changes[0].from, changes[0].to), (150, 169));
    assert!(changes[0].reason.ends_with("so more commands may run at once again"), "{}", changes[0].reason);
}

#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    let mut controller = node();
    controller.step(BUSY, at(100_000));
    assert_eq!(controller.step(BUSY, at(0)).len(), 1, "a change in the future is no reason to wait for it");
    let mut later = 0;
    while of(&controller, LimitName::Running) < 200 {
        later += 1;
        assert!(later < 1000, "it never recovers");
        controller.step(CALM, at(later));
    }
}

#[test]
fn a_sensor_that_says_nothing_changes_nothing() {
    let unknown = PressureReading { cpu: f64::NAN, memory: f64::NAN, memory_free: f64::NAN };
    let mut controller = node();
    for second in 0..200 {
        assert_eq!(controller.step(unknown, at(second)), []);
    }
}

#[test]
fn new_bounds_hold_at_once() {
    let mut controller = node();
    let change = controller.set_bounds(LimitName::LiveShells, 10, 300).unwrap();
    assert_eq!((change.from, change.to), (200, 300), "what was at its top stays there");
    controller.step(FULL, at(0));
    assert_eq!(controller.set_bounds(LimitName::LiveShells, 10, 400), None, "what was pulled down stays down");
    assert_eq!(of(&controller, LimitName::LiveShells), 225);
    assert_eq!(controller.set_bounds(LimitName::LiveShells, 10, 100).unwrap().to, 100);
    assert_eq!(controller.set_bounds(LimitName::LiveShells, 70, 30).unwrap().to, 30);
}

fn reading() -> impl Strategy<Value = PressureReading> {
    (0.0..=1.0, 0.0..=1.0, 0.0..=1.0).prop_map(|(cpu, memory, memory_free)| PressureReading {
        cpu,
        memory,
        memory_free,
    })
}

fn between() -> impl Strategy<Value = PressureReading> {
    (CPU_LOW..=CPU_HIGH, MEMORY_LOW..=MEMORY_HIGH, FREE_SCARCE..=1.0)
        .prop_map(|(cpu, memory, memory_free)| PressureReading { cpu, memory, memory_free })
}

/// What happened to a node: readings, each some seconds after the one before.
fn story() -> impl Strategy<Value = Vec<(PressureReading, i64)>> {
    prop::collection::vec((reading(), 0i64..60), 0..60)
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    prop::collection::vec((0usize..2000, 0usize..2000), 3).prop_map(|bounds| {
        NAMES.into_iter().zip(bounds).map(|(name, (low, high))| Limit::new(name, low, high)).collect()
    })
}

/// Lives through a story; gives the second it ends at.
fn live(controller: &mut Controller, story: &[(PressureReading, i64)]) -> i64 {
    let mut second = 0;
    for (reading, pause) in story {
        second += pause;
        controller.step(*reading, at(second));
    }
    second
}

proptest! {
    #[test]
    fn a_limit_never_leaves_its_bounds(limits in limits(), story in story(), bounds in (0usize..99, 0usize..99)) {
        let mut controller = Controller::new(limits);
        let mut second = 0;
        for (place, (reading, pause)) in story.iter().enumerate() {
            second += pause;
            let before: Vec<Limit> = controller.limits().collect();
            let changes = controller.step(*reading, at(second));
            for change in &changes {
                let old = before.iter().find(|limit| limit.name == change.name).unwrap();
                prop_assert_eq!(change.from, old.now);
                prop_assert_ne!(change.from, change.to);
                prop_assert_eq!(change.to, of(&controller, change.name));
            }
            if place == 7 {
                controller.set_bounds(NAMES[place % 3], bounds.0, bounds.1);
            }
            prop_assert!(controller.limits().all(|limit| limit.low <= limit.now && limit.now <= limit.high));
        }
    }

    #[test]
    fn nothing_moves_between_the_marks(limits in limits(), story in story(), reading in between()) {
        let mut controller = Controller::new(limits);
        let end = live(&mut controller, &story);
        for second in 0..500 {
            prop_assert_eq!(controller.step(reading, at(end + second)), []);
        }
    }

    #[test]
    fn constant_pressure_moves_a_limit_one_way_only(limits in limits(), story in story(), reading in reading()) {
        let mut controller = Controller::new(limits);
        let end = live(&mut controller, &story);
        let mut directions: Vec<(LimitName, bool)> = Vec::new();
        for second in 0..500 {
            let changes = controller.step(reading, at(end + second));
            directions.extend(changes.iter().map(|change| (change.name, change.to > change.from)));
        }
        directions.sort();
        directions.dedup();
        let mut names: Vec<LimitName> = directions.iter().map(|(name, _)| *name).collect();
        names.dedup();
        prop_assert_eq!(names.len(), directions.len(), "{:?}", directions);
    }

    #[test]
    fn all_is_given_back_when_the_pressure_is_gone(limits in limits(), story in story()) {
        let mut controller = Controller::new(limits);
        let end = live(&mut controller, &story);
        for second in (0..300).step_by(2) {
            controller.step(CALM, at(end + second));
        }
        prop_assert!(controller.limits().all(|limit| limit.now == limit.high));
    }

    #[test]
    fn all_that_may_be_taken_is_taken_under_lasting_pressure(limits in limits(), story in story()) {
        let mut controller = Controller::new(limits);
        let end = live(&mut controller, &story);
        for second in (0..700).step_by(2) {
            controller.step(FULL, at(end + second));
        }
        prop_assert!(controller.limits().all(|limit| limit.now == limit.low));
    }

    #[test]
    fn more_pressure_never_gives_a_larger_limit(
        limits in limits(), story in story(), one in reading(), other in reading(), pause in 0i64..60,
    ) {
        let mut calmer = Controller::new(limits);
        let end = live(&mut calmer, &story) + pause;
        let mut tenser = calmer.clone();
        let less = PressureReading {
            cpu: one.cpu.min(other.cpu),
            memory: one.memory.min(other.memory),
            memory_free: one.memory_free.max(other.memory_free),
        };
        let more = PressureReading {
            cpu: one.cpu.max(other.cpu),
            memory: one.memory.max(other.memory),
            memory_free: one.memory_free.min(other.memory_free),
        };
        calmer.step(less, at(end));
        tenser.step(more, at(end));
        for name in NAMES {
            prop_assert!(of(&tenser, name) <= of(&calmer, name));
        }
    }
}
