//! Names in a patch, quoted as git does it.

/// A name with what it is to begin with (`a/`), in quotes if it has bytes that would not survive.
pub(super) fn quoted(prefix: &str, name: &[u8]) -> Vec<u8> {
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    let mut out = prefix.as_bytes().to_vec();
    if name.iter().all(plain) {
        out.extend_from_slice(name);
        return out;
    }
    out.insert(0, b'"');
    for byte in name {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            byte if plain(byte) => out.push(*byte),
            byte => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_need_it_are_quoted() {
        assert_eq!(quoted("a/", b"with space"), b"a/with space");
        assert_eq!(quoted("b/", b"new\nline\"\\\xff\x01"), br#""b/new\nline\"\\\377\001""#);
    }
}
