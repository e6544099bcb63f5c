//! Comparing two directories: the same names, kinds, permissions and contents.

use super::even::Even;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Most files and directories of a workspace that is compared.
const MOST_ENTRIES: usize = 500_000;
/// Largest file that is normalised; a larger one must be identical.
const MOST_EVENED: u64 = 64 << 20;
/// Bytes read at a time.
const PART: usize = 256 << 10;

/// A file that is not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileDifference {
    /// Its path in the workspace.
    pub path: String,
    /// What differs: `missing`, `new`, `kind`, `mode`, `target` or `content`.
    pub what: &'static str,
    /// How it was.
    pub expected: String,
    /// How it is.
    pub got: String,
}

/// What a comparison found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// How many were compared.
    pub files: u64,
    /// The first that differs, by its path.
    pub first: Option<FileDifference>,
}

/// Compares two directories.
pub fn compare(expected: &Path, got: &Path, even: &Even, ignore: &[PathBuf]) -> io::Result<Compared> {
    let skip = Skip { ignore, exact: even.is_exact() };
    let (old, new) = (walk(expected, &skip)?, walk(got, &skip)?);
    let mut compared = Compared::default();
    let paths: std::collections::BTreeSet<&PathBuf> = old.keys().chain(new.keys()).collect();
    for path in paths {
        compared.files += 1;
        let side = |root: &Path, about| Side { path: root.join(path), about };
        let found = match (old.get(path), new.get(path)) {
            (Some(old), Some(new)) => entry(&side(expected, old), &side(got, new), even)?,
            (Some(old), None) => Some(Mismatch::new("missing", kind(old), "nothing")),
            (None, Some(new)) => Some(Mismatch::new("new", "nothing", kind(new))),
            (None, None) => None,
        };
        if let Some(Mismatch { what, expected, got }) = found {
            compared.first = Some(FileDifference { path: path.display().to_string(), what, expected, got });
            break;
        }
    }
    Ok(compared)
}

struct Skip<'a> {
    ignore: &'a [PathBuf],
    exact: bool,
}

impl Skip<'_> {
    fn skips(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        // Git's index contains times and inode numbers.
        let by_itself = !self.exact && name == ".git";
        by_itself || self.ignore.iter().any(|ignored| path.starts_with(ignored) || ignored.as_os_str() == name)
    }
}

fn walk(root: &Path, skip: &Skip<'_>) -> io::Result<BTreeMap<PathBuf, Metadata>> {
    let mut found = BTreeMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let path = directory.join(entry?.file_name());
            if skip.skips(&path) {
                continue;
            }
            let metadata = root.join(&path).symlink_metadata()?;
            if metadata.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, metadata);
            if found.len() > MOST_ENTRIES {
                return Err(io::Error::other(format!("{} has more than {MOST_ENTRIES} files", root.display())));
            }
        }
    }
    Ok(found)
}

/// A file on one of the two sides.
struct Side<'a> {
    path: PathBuf,
    about: &'a Metadata,
}

/// What differs in a file, and how it is on both sides.
struct Mismatch {
    what: &'static str,
    expected: String,
    got: String,
}

impl Mismatch {
    fn new(what: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Self {
        Self { what, expected: expected.into(), got: got.into() }
    }
}

fn entry(old: &Side<'_>, new: &Side<'_>, even: &Even) -> io::Result<Option<Mismatch>> {
    if kind(old.about) != kind(new.about) {
        return Ok(Some(Mismatch::new("kind", kind(old.about), kind(new.about))));
    }
    if old.about.is_symlink() {
        let target = |side: &Side<'_>| -> io::Result<String> {
            let target = fs::read_link(&side.path)?;
            Ok(String::from_utf8_lossy(&even.named(target.as_os_str().as_bytes())).into_owned())
        };
        let (was, is) = (target(old)?, target(new)?);
        return Ok((was != is).then(|| Mismatch::new("target", was, is)));
    }
    let mode = |side: &Side<'_>| side.about.permissions().mode() & 0o7777;
    if mode(old) != mode(new) {
        return Ok(Some(Mismatch::new("mode", format!("{:04o}", mode(old)), format!("{:04o}", mode(new)))));
    }
    if !old.about.is_file() || same_bytes(old, new)? || same_evened(old, new, even)? {
        return Ok(None);
    }
    content(old, new, even).map(Some)
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_file() => "a file",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

fn same_bytes(old: &Side<'_>, new: &Side<'_>) -> io::Result<bool> {
    if old.about.len() != new.about.len() {
        return Ok(false);
    }
    let (mut old, mut new) = (BufReader::new(File::open(&old.path)?), BufReader::new(File::open(&new.path)?));
    let (mut left, mut right) = (vec![0; PART], vec![0; PART]);
    loop {
        let (a, b) = (fill(&mut old, &mut left)?, fill(&mut new, &mut right)?);
        if left[..a] != right[..b] {
            return Ok(false);
        }
        if a == 0 {
            return Ok(true);
        }
    }
}

fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Whether two files are the same except for where and when they were created.
fn same_evened(old: &Side<'_>, new: &Side<'_>, even: &Even) -> io::Result<bool> {
    if even.is_exact() || old.about.len().max(new.about.len()) > MOST_EVENED {
        return Ok(false);
    }
    let (left, right) = (fs::read(&old.path)?, fs::read(&new.path)?);
    if std::str::from_utf8(&left).is_ok() && std::str::from_utf8(&right).is_ok() {
        let mut lines = (left.split_inclusive(|byte| *byte == b'\n'), right.split_inclusive(|byte| *byte == b'\n'));
        loop {
            match (lines.0.next(), lines.1.next()) {
                (None, None) => return Ok(true),
                (Some(old), Some(new)) if old == new || even.line(old) == even.line(new) => {}
                _ => return Ok(false),
            }
        }
    }
    Ok(even.named(&left) == even.named(&right))
}

/// What a report shows of two contents: the first line that differs, or how long they are.
fn content(old: &Side<'_>, new: &Side<'_>, even: &Even) -> io::Result<Mismatch> {
    let bytes = |side: &Side<'_>| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(&side.path)?.take(MOST_EVENED).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let (left, right) = (bytes(old)?, bytes(new)?);
    let (Ok(left_text), Ok(right_text)) = (std::str::from_utf8(&left), std::str::from_utf8(&right)) else {
        let shown = |bytes: &[u8]| format!("{} bytes of binary data", bytes.len());
        return Ok(Mismatch::new("content", shown(&left), shown(&right)));
    };
    let mut lines = (left_text.lines(), right_text.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (was, is) = (lines.0.next(), lines.1.next());
        let evened = |line: Option<&str>| line.map(|line| even.line(line.as_bytes()).into_owned());
        if was.is_none() && is.is_none() || evened(was) != evened(is) {
            let shown = |line: Option<&str>| {
                let shown: String = line.unwrap_or("(no such line)").chars().take(500).collect();
                format!("line {number}: {}", shown.escape_debug())
            };
            return Ok(Mismatch::new("content", shown(was), shown(is)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Pair {
        home: tempfile::TempDir,
    }

    impl Pair {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            for side in ["old", "new"] {
                let root = home.path().join(side);
                fs::create_dir_all(root.join("src")).unwrap();
                fs::write(root.join("src/a.c"), "int main;\n").unwrap();
                fs::write(root.join("log"), format!("built in {} in 0.{}s\n", root.display(), side.len())).unwrap();
                symlink(root.join("src"), root.join("link")).unwrap();
            }
            Self { home }
        }

        fn path(&self, side: &str, name: &str) -> PathBuf {
            self.home.path().join(side).join(name)
        }

        fn first(&self, even: &Even, ignore: &[&str]) -> Option<(String, &'static str)> {
            let ignore: Vec<PathBuf> = ignore.iter().map(PathBuf::from).collect();
            let found = compare(&self.path("old", ""), &self.path("new", ""), even, &ignore).unwrap();
            found.first.map(|first| (first.path, first.what))
        }

        fn even(&self) -> Even {
            let path = |side: &str| self.home.path().join(side).display().to_string();
            Even::new(&[&path("old"), &path("new")], &[]).unwrap()
        }
    }

    #[test]
    fn the_same_work_in_two_places_is_the_same() {
        let pair = Pair::new();
        assert_eq!(pair.first(&pair.even(), &[]), None);
        assert_eq!(pair.first(&Even::exact(), &[]), Some(("link".to_owned(), "target")));
        assert_eq!(pair.first(&Even::exact(), &["link"]), Some(("log".to_owned(), "content")));
        assert_eq!(pair.first(&Even::exact(), &["link", "log"]), None);
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let differs = |change: &dyn Fn(&Pair)| {
            let pair = Pair::new();
            change(&pair);
            pair.first(&pair.even(), &[])
        };
        let found = |path: &str, what| Some((path.to_owned(), what));
        assert_eq!(
            differs(&|pair| fs::write(pair.path("new", "src/a.c"), "int mein;\n").unwrap()),
            found("src/a.c", "content")
        );
        assert_eq!(differs(&|pair| fs::remove_file(pair.path("new", "src/a.c")).unwrap()), found("src/a.c", "missing"));
        assert_eq!(differs(&|pair| fs::write(pair.path("new", "src/b.c"), "").unwrap()), found("src/b.c", "new"));
        let mode = fs::Permissions::from_mode(0o755);
        assert_eq!(
            differs(&|pair| fs::set_permissions(pair.path("new", "src/a.c"), mode.clone()).unwrap()),
            found("src/a.c", "mode")
        );
        assert_eq!(
            differs(&|pair| {
                fs::remove_file(pair.path("new", "log")).unwrap();
                fs::create_dir(pair.path("new", "log")).unwrap();
            }),
            found("log", "kind")
        );
        assert_eq!(
            differs(&|pair| {
                fs::write(pair.path("old", "m.bin"), b"\xff one").unwrap();
                fs::write(pair.path("new", "m.bin"), b"\xff two").unwrap();
            }),
            found("m.bin", "content")
        );
    }
}
