//! Which lines differ between two texts. diffy finds the shortest answer, in a time that grows with the square of what
//! differs; long texts are cut before at lines that each has once, so that no pair of files takes seconds.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Texts with more pairs of lines than this are cut before they are compared: some 0.05 s at worst.
const PAIRS_MOST: usize = 4_000_000;

/// Lines of one text that others take the place of; either may be none.
pub(super) type Region = (Range<usize>, Range<usize>);

/// The lines of a text, each with its end.
pub(super) fn split(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The regions that differ, in order, with equal lines between them.
pub(super) fn differing(old: &[&[u8]], new: &[&[u8]]) -> Vec<Region> {
    let before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old_part, new_part) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    let regions = if old_part.len().saturating_mul(new_part.len()) <= PAIRS_MOST {
        shortest(old_part, new_part)
    } else {
        between_anchors(old_part, new_part)
    };
    regions.into_iter().map(|region| moved(region, before, before)).collect()
}

fn moved((old, new): Region, by_old: usize, by_new: usize) -> Region {
    (old.start + by_old..old.end + by_old, new.start + by_new..new.end + by_new)
}

fn shortest(old: &[&[u8]], new: &[&[u8]]) -> Vec<Region> {
    if old.is_empty() || new.is_empty() {
        return if old.len() == new.len() { Vec::new() } else { vec![(0..old.len(), 0..new.len())] };
    }
    // Nothing in common is the case that takes longest, and needs no search.
    let common: HashSet<&[u8]> = old.iter().copied().collect();
    if !new.iter().any(|line| common.contains(line)) {
        return vec![(0..old.len(), 0..new.len())];
    }
    let (old, new) = (old.concat(), new.concat());
    let mut options = diffy::DiffOptions::new();
    let patch = options.set_context_len(0).create_patch_bytes(&old, &new);
    let mut regions = Vec::new();
    for hunk in patch.hunks() {
        // The first line is 1, and a range without lines names the line before it.
        let start = |range: diffy::HunkRange| if range.is_empty() { range.start() } else { range.start() - 1 };
        let (mut old, mut new) = (start(hunk.old_range()), start(hunk.new_range()));
        let mut region = (old..old, new..new);
        for line in hunk.lines() {
            match line {
                diffy::Line::Delete(_) => region.0.end += 1,
                diffy::Line::Insert(_) => region.1.end += 1,
                // Two regions at the very end come as one with equal lines in it.
                diffy::Line::Context(_) => {
                    (old, new) = (region.0.end + 1, region.1.end + 1);
                    regions.push(std::mem::replace(&mut region, (old..old, new..new)));
                }
            }
        }
        regions.push(region);
    }
    regions.retain(|(old, new)| !old.is_empty() || !new.is_empty());
    regions
}

/// Cuts both texts at lines that each of them has exactly once, and compares what is between.
fn between_anchors(old: &[&[u8]], new: &[&[u8]]) -> Vec<Region> {
    let mut regions = Vec::new();
    let (mut old_from, mut new_from) = (0, 0);
    let end = (old.len(), new.len());
    for (old_to, new_to) in anchors(old, new).into_iter().chain([end]) {
        let (old_part, new_part) = (&old[old_from..old_to], &new[new_from..new_to]);
        let parts = if old_part.len().saturating_mul(new_part.len()) <= PAIRS_MOST {
            shortest(old_part, new_part)
        } else {
            vec![(0..old_part.len(), 0..new_part.len())]
        };
        regions.extend(parts.into_iter().map(|region| moved(region, old_from, new_from)));
        (old_from, new_from) = (old_to + 1, new_to + 1);
    }
    regions
}

/// Pairs of equal lines that each text has once, as many as keep their order in both.
fn anchors(old: &[&[u8]], new: &[&[u8]]) -> Vec<(usize, usize)> {
    let once = |lines: &[&[u8]]| {
        let mut places: HashMap<Vec<u8>, Option<usize>> = HashMap::with_capacity(lines.len());
        for (place, line) in lines.iter().enumerate() {
            places.entry(line.to_vec()).and_modify(|seen| *seen = None).or_insert(Some(place));
        }
        places
    };
    let in_new = once(new);
    let mut pairs: Vec<(usize, usize)> =
        once(old).into_iter().filter_map(|(line, place)| Some((place?, (*in_new.get(&line)?)?))).collect();
    pairs.sort_unstable();
    longest_rising(&pairs)
}

/// The longest part of pairs, sorted by their first, whose seconds rise.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The last pair of the best row of each length, and for each pair the one before it.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (number, (_, second)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *second);
        before[number] = length.checked_sub(1).map(|shorter| ends[shorter]);
        if length == ends.len() {
            ends.push(number);
        } else {
            ends[length] = number;
        }
    }
    let mut row = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(number) = next {
        row.push(pairs[number]);
        next = before[number];
    }
    row.reverse();
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Puts the new text together out of the old one and the regions.
    fn rebuilt(old: &[&[u8]], new: &[&[u8]], regions: &[Region]) -> Vec<u8> {
        let (mut out, mut from) = (Vec::new(), 0);
        for (old_range, new_range) in regions {
            out.extend(old[from..old_range.start].concat());
            out.extend(new[new_range.clone()].concat());
            from = old_range.end;
        }
        out.extend(old[from..].concat());
        out
    }

    #[test]
    fn long_texts_that_differ_much_and_little() {
        let text = |step: usize| (0..6_000).map(|line| format!("{}\n", line * step)).collect::<String>();
        let (old, mut new) = (text(3), text(3));
        new = new.replacen("\n30\n", "\nthirty\n", 1).replacen("\n16200\n", "\n\n", 1);
        let (old_lines, new_lines) = (split(old.as_bytes()), split(new.as_bytes()));
        assert_eq!(differing(&old_lines, &new_lines), [(10..11, 10..11), (5400..5401, 5400..5401)]);
        for other in [text(7), text(3).replace('1', "x"), "a\n".repeat(6_000)] {
            let other_lines = split(other.as_bytes());
            let regions = differing(&old_lines, &other_lines);
            assert!(rebuilt(&old_lines, &other_lines, &regions) == other.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn the_new_text_comes_out_of_the_old(old in "[ab\n]{0,60}", new in "[ab\n]{0,60}") {
            let (old, new) = (split(old.as_bytes()), split(new.as_bytes()));
            for regions in [differing(&old, &new), between_anchors(&old, &new)] {
                prop_assert_eq!(rebuilt(&old, &new, &regions), new.concat());
                prop_assert!(regions.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
            }
        }
    }
}
