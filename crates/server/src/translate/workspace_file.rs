//! Single files of a workspace: between the wire and the runtime's vocabulary.

use super::condition::{Condition, condition};
use super::files::path;
use crate::refusal::Refusal;
use axum::http::HeaderMap;
use shellkeep_protocol as wire;
use shellkeep_protocol::text;
use shellkeep_runtime::{
    DEFAULT_FILE_PAGE, EntryKind, ExpectedFile, FileEntry, FileListing, FileRemoved, FileWritten, MAX_FILE_PAGE,
};
use shellkeep_session::bytes::map::{key_bytes, key_text};
use shellkeep_session::{ByteString, Timestamp};

/// Digits of a SHA-256 in hexadecimal.
const SHA256_DIGITS: usize = 64;
/// The bits of a mode that a file can be written with.
const PERMISSIONS: u32 = 0o777;

/// The path of a request about one file.
pub fn file_path(text: Option<String>, base64: Option<String>) -> Result<ByteString, Refusal> {
    path(text, base64)?.ok_or_else(|| Refusal::invalid("path: missing; name the file"))
}

/// The number of entries per page.
pub fn file_limit(limit: Option<usize>) -> Result<usize, Refusal> {
    match limit.unwrap_or(DEFAULT_FILE_PAGE) {
        limit @ 1..=MAX_FILE_PAGE => Ok(limit),
        limit => Err(Refusal::invalid(format!("limit: {limit} is not between 1 and {MAX_FILE_PAGE}"))),
    }
}

/// Where a page starts.
pub fn file_after(after: Option<String>) -> Result<ByteString, Refusal> {
    let after = after.map(key_bytes).transpose();
    after.map(Option::unwrap_or_default).map_err(|error| Refusal::invalid(format!("after: {error}")))
}

/// Permissions in octal.
pub fn file_mode(mode: Option<&str>) -> Result<Option<u32>, Refusal> {
    let Some(mode) = mode else { return Ok(None) };
    let digits = (3..=4).contains(&mode.len()) && mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    match u32::from_str_radix(mode, 8) {
        Ok(bits) if digits && bits <= PERMISSIONS => Ok(Some(bits)),
        Ok(_) if digits => {
            let detail = format!("mode: '{mode}' is more than permissions (0000 to 0777); for other bits run chmod");
            Err(Refusal::invalid(detail))
        }
        _ => Err(Refusal::invalid(format!("mode: '{}' is not 3 or 4 octal digits, as in 0644", mode.escape_debug()))),
    }
}

/// What must be at a path, from the headers.
pub fn expected_file(headers: &HeaderMap) -> Result<ExpectedFile, Refusal> {
    let valid = "send either if-match: \"SHA256\" (64 hexadecimal digits, as in the ETag; or * for any file) or \
                 if-none-match: *";
    let hash = |tag: &str| {
        let is_hash = tag.len() == SHA256_DIGITS && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| tag.to_ascii_lowercase())
    };
    Ok(match condition(headers, valid, hash)? {
        Condition::Anything => ExpectedFile::Anything,
        Condition::Something => ExpectedFile::Something,
        Condition::Nothing => ExpectedFile::Nothing,
        Condition::Tag(hash) => ExpectedFile::Sha256(hash),
    })
}

/// What is at a path, for the caller.
pub fn file_listing(listing: FileListing) -> wire::FileListing {
    wire::FileListing {
        file: file_entry(listing.file),
        files: listing.files.map(|files| files.into_iter().map(file_entry).collect()),
        next: listing.next.map(|name| key_text(&name).into_owned()),
    }
}

fn file_entry(entry: FileEntry) -> wire::FileEntry {
    let name = entry.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let name = if name.is_empty() { ".".into() } else { String::from_utf8_lossy(name).into_owned() };
    let (path, path_base64) = shown(entry.path);
    let (seconds, nanoseconds) = entry.modified;
    // A file system may report times that are out of range.
    let modified = i32::try_from(nanoseconds).ok().and_then(|nanoseconds| Timestamp::new(seconds, nanoseconds).ok());
    wire::FileEntry {
        path,
        path_base64,
        name,
        kind: match entry.kind {
            EntryKind::File => wire::FileKind::File,
            EntryKind::Directory => wire::FileKind::Directory,
            EntryKind::Symlink => wire::FileKind::Symlink,
            EntryKind::Other => wire::FileKind::Other,
        },
        size: entry.size,
        mode: format!("{:04o}", entry.mode),
        modified_at: modified.unwrap_or_default().to_string(),
        target: entry.target.map(|target| String::from_utf8_lossy(&target).into_owned()),
    }
}

/// A file that was written, for the caller.
pub fn file_written(written: FileWritten) -> wire::FileWritten {
    let (path, path_base64) = shown(written.path.0);
    let FileWritten { size, sha256, seq, notices, .. } = written;
    wire::FileWritten { path, path_base64, size, sha256, seq, notices: notices.into_iter().map(Into::into).collect() }
}

/// A file that was removed, for the caller.
pub fn file_removed(removed: FileRemoved) -> wire::FileRemoved {
    let (path, path_base64) = shown(removed.path.0);
    let FileRemoved { seq, notices, .. } = removed;
    wire::FileRemoved { path, path_base64, seq, notices: notices.into_iter().map(Into::into).collect() }
}

fn shown(path: Vec<u8>) -> (String, Option<String>) {
    if path.is_empty() { (".".to_owned(), None) } else { text::encode(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, header};

    #[test]
    fn permissions_are_octal_digits() {
        assert_eq!(file_mode(Some("0644")).unwrap(), Some(0o644));
        assert_eq!((file_mode(Some("755")).unwrap(), file_mode(None).unwrap()), (Some(0o755), None));
        for wrong in ["", "8", "64", "00644", "-644", "0x1ff", "rwx", "+644"] {
            assert!(file_mode(Some(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_must_be_there_is_read_from_the_headers() {
        let with = |name: HeaderName, value: &str| HeaderMap::from_iter([(name, value.parse().unwrap())]);
        let hash = "AB".repeat(32);
        assert_eq!(expected_file(&HeaderMap::new()).unwrap(), ExpectedFile::Anything);
        let expected = ExpectedFile::Sha256("ab".repeat(32));
        assert_eq!(expected_file(&with(header::IF_MATCH, &format!("\"{hash}\""))).unwrap(), expected);
        assert_eq!(expected_file(&with(header::IF_MATCH, "*")).unwrap(), ExpectedFile::Something);
        assert_eq!(expected_file(&with(header::IF_NONE_MATCH, "*")).unwrap(), ExpectedFile::Nothing);
        for wrong in ["", "\"3\"", "W/\"3\"", "\u{e9}"] {
            assert!(expected_file(&with(header::IF_MATCH, wrong)).is_err(), "{wrong}");
        }
        assert!(expected_file(&with(header::IF_NONE_MATCH, &hash)).is_err());
    }
}
