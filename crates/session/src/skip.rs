//! When a field is left out of JSON: a reader takes the same value for a field that is not there.

/// Whether a number is left out.
pub fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Whether a truth value is left out.
pub fn is_false(truth: &bool) -> bool {
    !*truth
}
