//! Which row of a list is selected, and which part of the list is to be seen.

/// A list's selection and scroll position. It does not have the rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// The selected row.
    pub selected: usize,
    /// The first row to be seen.
    pub offset: usize,
    /// How many rows there are.
    length: usize,
    /// How many rows the screen has for it.
    height: usize,
}

/// A step through a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Motion {
    /// One row back.
    Up,
    /// One row on.
    Down,
    /// One screen back.
    PageUp,
    /// One screen on.
    PageDown,
    /// To the first row.
    First,
    /// To the last row.
    Last,
}

impl List {
    /// Sets the number of rows.
    pub fn set_length(&mut self, length: usize) {
        self.length = length;
        self.settle();
    }

    /// Sets the number of visible rows.
    pub fn set_height(&mut self, height: usize) {
        self.height = height;
        self.settle();
    }

    /// Selects a row.
    pub fn select(&mut self, row: usize) {
        self.selected = row;
        self.settle();
    }

    /// Makes a step. False if there is nothing further in that direction.
    pub fn step(&mut self, step: Motion) -> bool {
        let (page, last) = (self.height.saturating_sub(1).max(1), self.length.saturating_sub(1));
        let to = match step {
            Motion::Up => self.selected.saturating_sub(1),
            Motion::Down => self.selected + 1,
            Motion::PageUp => self.selected.saturating_sub(page),
            Motion::PageDown => self.selected + page,
            Motion::First => 0,
            Motion::Last => last,
        };
        let moved = to.min(last) != self.selected;
        self.select(to);
        moved
    }

    /// The rows to be seen.
    pub fn window(&self) -> std::ops::Range<usize> {
        self.offset..(self.offset + self.height).min(self.length)
    }

    /// Keeps the selection among the rows and in sight.
    fn settle(&mut self) {
        self.selected = self.selected.min(self.length.saturating_sub(1));
        let lowest = (self.selected + 1).saturating_sub(self.height.max(1));
        let most = self.length.saturating_sub(self.height);
        self.offset = self.offset.clamp(lowest, self.selected.max(lowest)).min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(length: usize, height: usize) -> List {
        let mut list = List::default();
        list.set_height(height);
        list.set_length(length);
        list
    }

    #[test]
    fn it_scrolls_only_when_it_must() {
        let mut list = list(10, 4);
        for _ in 0..3 {
            assert!(list.step(Motion::Down));
        }
        assert_eq!((list.selected, list.window()), (3, 0..4));
        list.step(Motion::Down);
        assert_eq!((list.selected, list.window()), (4, 1..5));
        list.step(Motion::Up);
        assert_eq!((list.selected, list.window()), (3, 1..5), "the window stays where it is");
        list.step(Motion::Last);
        assert_eq!((list.selected, list.window()), (9, 6..10));
        assert!(!list.step(Motion::Down), "there is nothing below the last row");
        list.step(Motion::PageUp);
        assert_eq!(list.selected, 6);
        list.set_length(2);
        assert_eq!((list.selected, list.window()), (1, 0..2), "rows that went take the selection along");
        list.set_length(0);
        assert_eq!((list.selected, list.window()), (0, 0..0));
    }

    proptest! {
        #[test]
        fn the_selection_is_always_in_sight(length in 0usize..40, heights in proptest::collection::vec(0usize..12, 1..20), seed in 0usize..1000) {
            let steps = [Motion::Up, Motion::Down, Motion::PageUp, Motion::PageDown, Motion::First, Motion::Last];
            let mut list = list(length, 5);
            for (turn, height) in heights.into_iter().enumerate() {
                list.set_height(height);
                list.step(steps[(seed + turn * 7) % steps.len()]);
                let window = list.window();
                prop_assert!(window.end <= length && window.start <= window.end);
                prop_assert!(length == 0 || height == 0 || window.contains(&list.selected), "{list:?}");
                prop_assert!(window.len() == height.min(length), "the screen is full: {list:?}");
            }
        }
    }
}
