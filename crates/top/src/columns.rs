//! Which columns of a table fit into a width, and how wide each is. The most important ones stay.

/// Blank columns between two.
pub const GAP: u16 = 2;

/// A column before it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its heading.
    pub title: &'static str,
    /// The least width at which it is worth showing.
    pub least: u16,
    /// Its priority: 0 is dropped last.
    pub rank: u8,
    /// Whether it is set to the right, as figures are.
    pub right: bool,
}

impl Column {
    /// A column of text.
    pub const fn text(title: &'static str, least: u16, rank: u8) -> Self {
        Self { title, least, rank, right: false }
    }

    /// A column of figures.
    pub const fn figures(title: &'static str, least: u16, rank: u8) -> Self {
        Self { title, least, rank, right: true }
    }
}

/// A column that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fitted {
    /// Its index among all columns.
    pub place: usize,
    pub width: u16,
}

/// The columns that fit. `wanted` are the widths at which nothing would be cut.
pub fn fit(columns: &[Column], wanted: &[u16], width: u16) -> Vec<Fitted> {
    let want = |place: usize| wanted.get(place).copied().unwrap_or(0).max(columns[place].title.len() as u16);
    let least = |place: usize| columns[place].least.min(want(place));
    let mut ranked: Vec<usize> = (0..columns.len()).collect();
    ranked.sort_by_key(|place| columns[*place].rank);
    let mut left = width;
    let mut kept: Vec<Fitted> = Vec::new();
    for place in ranked {
        let gap = if kept.is_empty() { 0 } else { GAP };
        // The most important column is shown at any width.
        let needed = if kept.is_empty() { least(place).min(width) } else { least(place) + gap };
        if needed > left {
            break;
        }
        left -= needed;
        kept.push(Fitted { place, width: needed - gap });
    }
    // The remaining width is distributed one cell at a time among columns that need more.
    while left > 0 {
        let mut given = false;
        for column in &mut kept {
            if left > 0 && column.width < want(column.place) {
                column.width += 1;
                left -= 1;
                given = true;
            }
        }
        if !given {
            break;
        }
    }
    kept.sort_by_key(|column| column.place);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const COLUMNS: [Column; 4] = [
        Column::text("id", 2, 1),
        Column::text("session", 8, 0),
        Column::figures("pid", 5, 3),
        Column::text("name", 6, 2),
    ];

    #[test]
    fn the_dearest_stay_in_their_order() {
        let fit = |wanted: [u16; 4], width: u16| -> Vec<(usize, u16)> {
            fit(&COLUMNS, &wanted, width).iter().map(|column| (column.place, column.width)).collect()
        };
        assert_eq!(fit([3, 20, 5, 10], 60), [(0, 3), (1, 20), (2, 5), (3, 10)]);
        assert_eq!(fit([3, 20, 5, 10], 30), [(0, 3), (1, 9), (2, 5), (3, 7)]);
        assert_eq!(fit([3, 20, 5, 10], 26), [(0, 3), (1, 11), (3, 8)]);
        assert_eq!(fit([3, 20, 5, 10], 5), [(1, 5)]);
        assert_eq!(fit([0, 0, 0, 0], 80), [(0, 2), (1, 7), (2, 3), (3, 4)], "headings count");
    }

    proptest! {
        #[test]
        fn they_never_need_more_than_there_is(wanted in proptest::collection::vec(0u16..60, 4), width in 0u16..200) {
            let kept = fit(&COLUMNS, &wanted, width);
            let gaps = GAP * u16::try_from(kept.len().saturating_sub(1)).unwrap();
            prop_assert!(kept.iter().map(|column| column.width).sum::<u16>() + gaps <= width);
            prop_assert!(kept.windows(2).all(|pair| pair[0].place < pair[1].place));
        }
    }
}
