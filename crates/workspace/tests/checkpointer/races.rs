//! The workspace changes while it is looked at: nothing is lost between the news and the look.

use crate::fixture::Room;
use std::fs;
use std::path::{Path, PathBuf};

const STEPS: usize = 1_500;

/// The same numbers every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn place(&mut self, root: &Path) -> PathBuf {
        let depth = 1 + self.roll(3);
        (0..depth).fold(root.to_owned(), |path, _| path.join(["a", "b", "c"][self.roll(3)]))
    }
}

/// One step; what cannot be done at the moment is not done.
fn disturb(dice: &mut Dice, root: &Path, step: usize) {
    let (place, other) = (dice.place(root), dice.place(root));
    let _ = match dice.roll(8) {
        0 | 1 => fs::create_dir_all(place.join("deep/er"))
            .and_then(|()| fs::write(place.join("deep/er/file"), step.to_string())),
        2 | 3 => place.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&place, step.to_string())),
        4 => fs::remove_dir_all(&place).or_else(|_| fs::remove_file(&place)),
        5 | 6 => fs::rename(&place, &other),
        _ => fs::write(place.join(".gitignore"), "nothing-of-this-name\n"),
    };
}

#[test]
fn whatever_happens_during_looks_is_found_in_the_end() {
    for seed in [0x9E37_79B9, 0x7F4A_7C15, 0x0BAD_CAFE] {
        let mut room = Room::new();
        room.begin();
        let disturber = std::thread::spawn({
            let root = room.workspace.clone();
            move || {
                let mut dice = Dice(seed);
                (0..STEPS).for_each(|step| disturb(&mut dice, &root, step));
            }
        });
        let mut saves = 0;
        while !disturber.is_finished() {
            room.try_save().unwrap();
            saves += 1;
        }
        disturber.join().unwrap();
        assert!(saves > 1);
        room.save();
        // What vanished while it was read is looked at once more.
        room.save();
        room.assert_clean();
        // And everything is still watched.
        for place in ["a/x", "b/deep/er/x", "c/a/b/x"] {
            let _ = fs::remove_file(room.path(place).parent().unwrap());
            if fs::create_dir_all(room.path(place).parent().unwrap()).is_ok() {
                fs::write(room.path(place), "after").unwrap();
                room.save().unwrap();
            }
        }
        room.assert_clean();
    }
}
