//! Bytes that are no text, in git's own notation for patches: deflated, then eighty-five letters for four bytes.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::{self, Write as _};

const LETTERS: &[u8; 85] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Bytes a line holds.
const LINE: usize = 52;

/// Appends the bytes a file is to have.
pub(super) fn literal(out: &mut Vec<u8>, bytes: &[u8]) -> io::Result<()> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(bytes)?;
    let packed = packed.finish()?;
    out.extend_from_slice(format!("literal {}\n", bytes.len()).as_bytes());
    for line in packed.chunks(LINE) {
        // The length of a line is its first letter: A to Z, then a to z.
        let length = line.len() as u8;
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        for four in line.chunks(4) {
            let mut word = [0; 4];
            word[..four.len()].copy_from_slice(four);
            let mut value = u32::from_be_bytes(word);
            let mut letters = [0; 5];
            for letter in letters.iter_mut().rev() {
                *letter = LETTERS[(value % 85) as usize];
                value /= 85;
            }
            out.extend_from_slice(&letters);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
    Ok(())
}
