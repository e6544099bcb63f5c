//! The end of what an agent writes to standard error, for the error if it fails. It is masked as it comes: a secret that is
//! cut in two afterwards could not be recognised.

use shellkeep_redact::{Redactor, Stream};
use std::collections::VecDeque;

/// Bytes of standard error that are kept, the last ones.
const KEPT: usize = 16 << 10;
/// Bytes of it that are included in an error.
const TOLD: usize = 2 << 10;

/// What an agent wrote last.
#[derive(Default)]
pub(super) struct LastWords {
    kept: VecDeque<u8>,
    mask: Option<Stream>,
}

impl LastWords {
    /// Masked if there is a redactor.
    pub(super) fn new(redactor: Option<&Redactor>) -> Self {
        Self { kept: VecDeque::new(), mask: redactor.map(Redactor::stream) }
    }

    /// Takes a piece.
    pub(super) fn hear(&mut self, bytes: &[u8]) {
        match &mut self.mask {
            None => self.keep(bytes),
            Some(mask) => {
                let mut masked = Vec::new();
                mask.push(bytes, &mut masked);
                self.keep(&masked);
            }
        }
    }

    /// The end of it, without space around it.
    pub(super) fn told(mut self) -> String {
        if let Some(mask) = self.mask.take() {
            let mut rest = Vec::new();
            mask.finish(&mut rest);
            self.keep(&rest);
        }
        let bytes = self.kept.make_contiguous();
        String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TOLD)..]).trim().to_owned()
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend(&bytes[bytes.len().saturating_sub(KEPT)..]);
        let beyond = self.kept.len().saturating_sub(KEPT);
        self.kept.drain(..beyond);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "horse-battery-staple";

    fn told(redactor: Option<&Redactor>, text: &str, piece: usize) -> String {
        let mut words = LastWords::new(redactor);
        text.as_bytes().chunks(piece).for_each(|piece| words.hear(piece));
        words.told()
    }

    #[test]
    fn the_end_is_told_and_a_secret_where_it_is_cut_is_masked() {
        let redactor = Redactor::new(&shellkeep_redact::Config::default()).unwrap();
        let redactor = redactor.with_secrets([SECRET]).unwrap();
        for after in TOLD - SECRET.len()..=TOLD {
            let text = format!("{}{SECRET}{}", "x ".repeat(KEPT), "y".repeat(after));
            for piece in [1, 7, text.len()] {
                let told = told(Some(&redactor), &text, piece);
                let rest = told.trim_end_matches('y').trim_start_matches(['x', ' ']);
                assert!("***".ends_with(rest), "{after}: {rest:?}");
            }
        }
        assert_eq!(told(None, &format!(" {}end \n", "z".repeat(KEPT)), 1000).len(), TOLD - 2);
        assert_eq!(told(None, "", 1), "");
    }
}
