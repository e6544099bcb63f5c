//! Records of a session that sleeps, in one value: lines, compressed as `gzip` does, so that `zcat` reads them. Several of them
//! one after the other are one too.

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, Read, Write};

/// Up to this size what is packed is packed again with what is new, which makes it smaller; beyond it the new is added.
const AGAIN: usize = 64 * 1024;

/// Packs records after those that are packed already; `None` if that would not save anything.
pub(super) fn packed(before: &[u8], lines: &[Vec<u8>]) -> io::Result<Option<Vec<u8>>> {
    let (mut value, old) =
        if before.len() > AGAIN { (before.to_vec(), Vec::new()) } else { (Vec::new(), text(before)?) };
    let bytes = lines.iter().map(|line| line.len() + 1).sum::<usize>();
    let (kept, plain) = (value.len(), old.len() + bytes);
    let mut encoder = GzEncoder::new(&mut value, Compression::default());
    encoder.write_all(&old)?;
    write(&mut encoder, lines)?;
    encoder.finish()?;
    Ok((value.len() - kept < plain).then_some(value))
}

/// Packs records in place of all others.
pub(super) fn value_of(lines: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    write(&mut encoder, lines)?;
    encoder.finish()
}

fn write(encoder: &mut impl Write, lines: &[Vec<u8>]) -> io::Result<()> {
    lines.iter().try_for_each(|line| encoder.write_all(line).and_then(|()| encoder.write_all(b"\n")))
}

/// The records in a packed value.
pub(super) fn unpacked(value: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let text = text(value)?;
    let lines = text.strip_suffix(b"\n").map(|lines| lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect());
    Ok(lines.unwrap_or_default())
}

fn text(value: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    // Nothing is packed.
    if value.is_empty() {
        return Ok(text);
    }
    MultiGzDecoder::new(value).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(from: u64, to: u64) -> Vec<Vec<u8>> {
        let noise = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(n as u32 % 64);
        let line = |seq: u64| (0..16).map(|n| format!("{:016x}", noise(seq * 16 + n))).collect::<String>();
        (from..to).map(|seq| format!(r#"{{"seq":{seq},"noise":"{}"}}"#, line(seq)).into_bytes()).collect()
    }

    #[test]
    fn what_is_packed_in_parts_is_unpacked_whole() {
        let all = lines(0, 2000);
        let mut value = Vec::new();
        for part in all.chunks(100) {
            value = packed(&value, part).unwrap().unwrap();
        }
        assert!(value.len() > 2 * AGAIN, "some parts were added");
        assert_eq!(unpacked(&value).unwrap(), all);
        assert!(unpacked(&value[..value.len() / 2]).is_err());
        assert!(unpacked(b"").unwrap().is_empty());
    }

    #[test]
    fn what_would_become_larger_is_left() {
        assert_eq!(packed(b"", &[b"{}".to_vec()]).unwrap(), None);
    }
}
