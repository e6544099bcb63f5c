//! Names: those that git refuses are stored escaped, and tags get names that a ref may have.

use super::{Kind, RepoError, Result};
use gix_validate::path::component;
use std::borrow::Cow;

/// A stored name that begins so is escaped: every `%` in it has two hexadecimal digits of a byte behind it.
const ESCAPE: u8 = b'%';

/// Longer tags would not fit into a file name together with what makes them unique and the lock's ending.
const TAG_BYTES: usize = 200;

/// The name under which an entry is stored. Git refuses what another system could take for `.git`, and a `.gitmodules`
/// that is a link; a fine name stays as it is.
pub(super) fn stored(name: &[u8], kind: Kind) -> Result<Cow<'_, [u8]>> {
    let reason = match name {
        b"" => Some("it is empty"),
        b"." | b".." => Some("it leads elsewhere"),
        _ if name.contains(&b'/') || name.contains(&0) => Some("it has a slash or a zero byte"),
        _ => None,
    };
    if let Some(reason) = reason {
        return Err(RepoError::Name { name: String::from_utf8_lossy(name).into_owned(), reason });
    }
    if name[0] != ESCAPE && !is_refused(name, kind) {
        return Ok(Cow::Borrowed(name));
    }
    let mut escaped = Vec::with_capacity(name.len() + 2);
    for (place, byte) in name.iter().enumerate() {
        // The backslash too: what follows one is a name of its own to some systems.
        if place == 0 || matches!(*byte, ESCAPE | b'\\') {
            escaped.extend_from_slice(format!("%{byte:02x}").as_bytes());
        } else {
            escaped.push(*byte);
        }
    }
    Ok(Cow::Owned(escaped))
}

/// The true name of what is stored so.
pub(super) fn true_name(stored: &[u8]) -> Vec<u8> {
    if stored.first() != Some(&ESCAPE) {
        return stored.to_vec();
    }
    let mut name = Vec::with_capacity(stored.len());
    let mut rest = stored;
    while let Some((byte, after)) = rest.split_first() {
        let digits = (*byte == ESCAPE).then(|| after.get(..2)).flatten();
        match digits.and_then(|digits| std::str::from_utf8(digits).ok()).map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(escaped)) => {
                name.push(escaped);
                rest = &after[2..];
            }
            _ => {
                name.push(*byte);
                rest = after;
            }
        }
    }
    name
}

/// A tag's name that a ref may have: letters, digits and a few signs, no `..`, nothing that git gives a meaning to.
pub(super) fn tag(wanted: &str) -> String {
    let mut name = String::with_capacity(wanted.len());
    for letter in wanted.chars() {
        let fine = letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '+');
        let dot = letter == '.' && !name.is_empty() && !name.ends_with('.');
        name.push(if fine || dot { letter } else { '_' });
    }
    name.truncate(TAG_BYTES);
    if name.starts_with('-') {
        name.replace_range(..1, "_");
    }
    if name.ends_with('.') || name.ends_with(".lock") {
        name.push('_');
    }
    if name.is_empty() { "_".to_owned() } else { name }
}

fn is_refused(name: &[u8], kind: Kind) -> bool {
    // Most names are no relation of `.git`; all the forms begin with a dot, a g, or bytes that HFS+ passes over.
    let suspect = |part: &[u8]| part.first().is_some_and(|byte| matches!(byte, b'.' | b'g' | b'G') || !byte.is_ascii());
    let options = component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };
    let mode = (kind == Kind::Link).then_some(component::Mode::Symlink);
    name.split(|byte| *byte == b'\\').any(|part| {
        suspect(part)
            && part != b"."
            && part != b".."
            && gix_validate::path::component(part.into(), mode, options).is_err()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Kind = Kind::File { executable: false };

    #[test]
    fn names_that_git_refuses_come_back_as_they_were() {
        let refused: [&[u8]; 12] = [
            b".git",
            b".GIT",
            b"git~1",
            b"GIT~1",
            b".git ",
            b".git.",
            b".git::$INDEX_ALLOCATION",
            ".g\u{200c}it".as_bytes(),
            b"a\\.git",
            b"%2egit",
            b"%",
            b"%zz\\%",
        ];
        for name in refused {
            let stored = stored(name, FILE).unwrap();
            assert_ne!(stored, name);
            assert_eq!(true_name(&stored), name, "{}", name.escape_ascii());
        }
        for name in [&b"git"[..], b".gitignore", b".gitmodules", b"a%2e", b"..a", b"\xff\xfe", b"a\nb", b"a\\b", b"..."]
        {
            assert_eq!(stored(name, FILE).unwrap(), name);
            assert_eq!(true_name(name), name);
        }
        assert_eq!(&*stored(b".gitmodules", Kind::Link).unwrap(), b"%2egitmodules");
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
            assert!(matches!(stored(name, FILE), Err(RepoError::Name { .. })));
        }
    }

    #[test]
    fn a_tag_is_a_name_that_a_ref_may_have() {
        assert_eq!(tag("tool_bash_20261115T183000.123456Z"), "tool_bash_20261115T183000.123456Z");
        assert_eq!(tag("tool_my tool:é/x..y_1"), "tool_my_tool___x._y_1");
        assert_eq!((tag("-a"), tag(".a"), tag("a."), tag("a.lock"), tag("")).0, "_a");
        assert_eq!([tag(".a"), tag("a."), tag("a.lock"), tag("")], ["_a", "a._", "a.lock_", "_"]);
        assert_eq!(tag(&"x".repeat(1000)).len(), TAG_BYTES);
    }
}
