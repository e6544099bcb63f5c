//! An object as it differs from another: pieces of the other, and bytes between them. Git's format, found in one pass over
//! both, so that a file with a small change costs a small entry.

/// Pieces shorter than this are not looked for.
const BLOCK: usize = 16;

/// What the rolling sum is multiplied with for each byte; any odd number with bits all over does.
const FACTOR: u32 = 0x01E3_5A7D;

/// The longest piece that one instruction copies.
const COPY_MOST: usize = 0xFFFF;

/// The most bytes that one instruction brings along.
const INSERT_MOST: usize = 127;

/// The instructions that make `target` out of `base`; `None` if they would not be worth it.
pub(super) fn encode(base: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    if base.len() < BLOCK || target.len() < BLOCK || u32::try_from(base.len()).is_err() {
        return None;
    }
    let most = target.len() / 2;
    let blocks = Blocks::of(base);
    let mut out = Vec::with_capacity(most.min(4096));
    number(&mut out, base.len());
    number(&mut out, target.len());
    let (mut begin, mut place) = (0, 0);
    let mut sum = sum_of(&target[..BLOCK]);
    while place + BLOCK <= target.len() {
        let Some((from, length, back)) = blocks.longest(base, target, begin, place, sum) else {
            if place + BLOCK < target.len() {
                sum = roll(sum, target[place], target[place + BLOCK]);
            }
            place += 1;
            continue;
        };
        insert(&mut out, &target[begin..place - back]);
        copy(&mut out, from, length);
        place = place - back + length;
        begin = place;
        if out.len() > most {
            return None;
        }
        if place + BLOCK <= target.len() {
            sum = sum_of(&target[place..place + BLOCK]);
        }
    }
    insert(&mut out, &target[begin..]);
    (out.len() <= most).then_some(out)
}

/// Where each block of a base is, by its sum.
struct Blocks {
    /// Place + 1; 0 is none. One place a slot: text that repeats itself must not make this slow.
    slots: Vec<u32>,
}

impl Blocks {
    fn of(base: &[u8]) -> Self {
        let count = (base.len() / BLOCK * 2).next_power_of_two();
        let mut slots = vec![0; count];
        for (number, block) in base.chunks_exact(BLOCK).enumerate().rev() {
            slots[slot(sum_of(block), count)] = u32::try_from(number * BLOCK + 1).unwrap_or(0);
        }
        Self { slots }
    }

    /// The piece of the base around a block that begins at `place` of the target: where it begins, how long it is, and
    /// how many bytes of it are before `place`.
    fn longest(
        &self,
        base: &[u8],
        target: &[u8],
        begin: usize,
        place: usize,
        sum: u32,
    ) -> Option<(usize, usize, usize)> {
        let found = (self.slots[slot(sum, self.slots.len())] as usize).checked_sub(1)?;
        let after = base[found..].iter().zip(&target[place..]).take_while(|(a, b)| a == b).count();
        if after < BLOCK {
            return None;
        }
        let before = base[..found].iter().rev().zip(target[begin..place].iter().rev());
        let back = before.take_while(|(a, b)| a == b).count();
        Some((found - back, after + back, back))
    }
}

fn slot(sum: u32, count: usize) -> usize {
    (sum.wrapping_mul(0x9E37_79B1) >> 7) as usize & (count - 1)
}

fn sum_of(block: &[u8]) -> u32 {
    block.iter().fold(0, |sum: u32, byte| sum.wrapping_mul(FACTOR).wrapping_add(u32::from(*byte)))
}

fn roll(sum: u32, out: u8, into: u8) -> u32 {
    const LEAVING: u32 = {
        let mut power: u32 = 1;
        let mut times = 0;
        while times < BLOCK {
            power = power.wrapping_mul(FACTOR);
            times += 1;
        }
        power
    };
    sum.wrapping_mul(FACTOR).wrapping_add(u32::from(into)).wrapping_sub(u32::from(out).wrapping_mul(LEAVING))
}

fn number(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn insert(out: &mut Vec<u8>, bytes: &[u8]) {
    for piece in bytes.chunks(INSERT_MOST) {
        out.push(piece.len() as u8);
        out.extend_from_slice(piece);
    }
}

fn copy(out: &mut Vec<u8>, mut from: usize, mut length: usize) {
    while length > 0 {
        let now = length.min(COPY_MOST);
        let place = out.len();
        out.push(0x80);
        for (bit, byte) in (from as u32).to_le_bytes().into_iter().enumerate().filter(|(_, byte)| *byte > 0) {
            out[place] |= 1 << bit;
            out.push(byte);
        }
        for (bit, byte) in (now as u16).to_le_bytes().into_iter().enumerate().filter(|(_, byte)| *byte > 0) {
            out[place] |= 0x10 << bit;
            out.push(byte);
        }
        from += now;
        length -= now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Carries the instructions out, as git does.
    fn decode(base: &[u8], delta: &[u8]) -> Vec<u8> {
        let mut rest = delta.iter().copied();
        let mut number = || {
            let (mut value, mut shift) = (0usize, 0);
            loop {
                let byte = rest.next().unwrap();
                value |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        assert_eq!(number(), base.len());
        let size = number();
        let mut out = Vec::new();
        while let Some(op) = rest.next() {
            if op & 0x80 == 0 {
                assert_ne!(op, 0);
                out.extend((0..op).map(|_| rest.next().unwrap()));
                continue;
            }
            let mut part = |first: u8, count: u32| {
                (0..count).fold(0usize, |value, n| {
                    if op & (first << n) == 0 { value } else { value | usize::from(rest.next().unwrap()) << (8 * n) }
                })
            };
            let (from, length) = (part(1, 4), part(0x10, 3));
            let length = if length == 0 { 0x10000 } else { length };
            out.extend_from_slice(&base[from..from + length]);
        }
        assert_eq!(out.len(), size);
        out
    }

    #[test]
    fn a_small_change_of_a_big_file_is_small() {
        let base: Vec<u8> = (0..20_000u32).flat_map(|line| format!("line {line}\n").into_bytes()).collect();
        let mut target = base.clone();
        target.splice(100_000..100_003, *b"something else");
        target.extend_from_slice(b"and an end");
        let delta = encode(&base, &target).unwrap();
        assert!(delta.len() < 200, "{}", delta.len());
        assert_eq!(decode(&base, &delta), target);
        assert!(encode(&base, &[7; 15]).is_none());
        let other: Vec<u8> = (0..5000u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect();
        assert!(encode(&base, &other).is_none());
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_out(
            pieces in proptest::collection::vec(proptest::collection::vec(0u8..4, 0..80), 1..20),
            order in proptest::collection::vec(0usize..20, 0..30),
        ) {
            let base = pieces.concat();
            let target: Vec<u8> = order.iter().flat_map(|place| pieces[place % pieces.len()].clone()).collect();
            if let Some(delta) = encode(&base, &target) {
                prop_assert_eq!(decode(&base, &delta), target);
            }
        }
    }
}
