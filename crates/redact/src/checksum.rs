//! Check digits: what distinguishes a number of some kind from any other number. Digits are values from 0 to 9.

/// Luhn: payment cards, and some national ids.
pub(crate) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits.iter().rev().enumerate().map(|(n, digit)| luhn_value(n, u32::from(*digit))).sum();
    !digits.is_empty() && sum.is_multiple_of(10)
}

fn luhn_value(from_the_right: usize, digit: u32) -> u32 {
    match (from_the_right % 2, digit * 2) {
        (0, _) => digit,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    }
}

/// Verhoeff: the dihedral group of order ten, and a permutation.
pub(crate) fn verhoeff(digits: &[u8]) -> bool {
    const PERMUTATION: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let permute = |times: usize, digit: u8| (0..times % 8).fold(digit, |digit, _| PERMUTATION[usize::from(digit)]);
    let check = digits.iter().rev().enumerate().fold(0, |sum, (n, digit)| dihedral(sum, permute(n, *digit)));
    !digits.is_empty() && check == 0
}

/// The product of two elements of the dihedral group of order ten: rotations 0–4, reflections 5–9.
fn dihedral(a: u8, b: u8) -> u8 {
    match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => 5 + (a + b - 5) % 5,
        (false, true) => 5 + (a - 5 + 5 - b) % 5,
        (false, false) => (a - 5 + 5 - (b - 5)) % 5,
    }
}

/// ISO 7064 MOD 11,10: German tax ids.
pub(crate) fn mod_11_10(digits: &[u8]) -> bool {
    let Some((check, rest)) = digits.split_last() else { return false };
    let product = rest.iter().fold(10, |product, digit| {
        let sum = (u32::from(*digit) + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == u32::from(*check)
}

/// ISO 7064 MOD 11-2: Chinese resident ids. The last digit may be 10, written X.
pub(crate) fn mod_11_2(digits: &[u8]) -> bool {
    let Some((check, rest)) = digits.split_last() else { return false };
    let sum = rest.iter().fold(0, |sum, digit| (sum + u32::from(*digit)) * 2 % 11);
    (sum + u32::from(*check)) % 11 == 1
}

/// The weighted sum of digits.
pub(crate) fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(digit, weight)| u32::from(*digit) * weight).sum()
}

/// The number that digits write, if it is small enough.
pub(crate) fn number(digits: &[u8]) -> u64 {
    digits.iter().take(19).fold(0, |number, digit| number * 10 + u64::from(*digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_alphanumeric).map(|byte| if byte == b'X' { 10 } else { byte - b'0' }).collect()
    }

    /// Whether `check` accepts each text and refuses it with any one of its digits changed.
    fn finds_single_errors(check: fn(&[u8]) -> bool, texts: &[&str]) {
        for text in texts {
            let good = digits(text);
            assert!(check(&good), "{text}");
            for at in 0..good.len() {
                for wrong in (0..10).filter(|digit| *digit != good[at]) {
                    let mut bad = good.clone();
                    bad[at] = wrong;
                    assert!(!check(&bad), "{text} with {wrong} at {at}");
                }
            }
        }
        assert!(!check(&[]));
    }

    #[test]
    fn luhn_finds_single_errors() {
        finds_single_errors(luhn, &["4111111111111111", "378282246310005", "79927398713"]);
    }

    #[test]
    fn verhoeff_finds_single_errors_and_swaps() {
        finds_single_errors(verhoeff, &["2363", "123451"]);
        let good = digits("123451");
        for at in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad.swap(at, at + 1);
            assert_eq!(verhoeff(&bad), bad == good);
        }
    }

    #[test]
    fn iso_7064_finds_single_errors() {
        finds_single_errors(mod_11_10, &["86095742719"]);
        finds_single_errors(mod_11_2, &["11010519491231002X"]);
    }

    #[test]
    fn sums_and_numbers() {
        assert_eq!(weighted(&[1, 2, 3], &[3, 2, 1]), 10);
        assert_eq!(number(&[0, 4, 2]), 42);
    }
}
