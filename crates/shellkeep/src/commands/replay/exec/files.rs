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
        let found = match (old.get(path), new.get(path)) {
            (Some(one), Some(other)) => entry(&expected.join(path), one, &got.join(path), other, even)?,
            (Some(one), None) => Some(("missing", kind(one).to_owned(), "nothing".to_owned())),
            (None, Some(other)) => Some(("new", "nothing".to_owned(), kind(other).to_owned())),
            (None, None) => None,
        };
        if let Some((what, expected, got)) = found {
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

type Found = Option<(&'static str, String, String)>;

fn entry(one: &Path, old: &Metadata, other: &Path, new: &Metadata, even: &Even) -> io::Result<Found> {
    if kind(old) != kind(new) {
        return Ok(Some(("kind", kind(old).to_owned(), kind(new).to_owned())));
    }
    if old.is_symlink() {
        let target = |path: &Path| -> io::Result<String> {
            let target = fs::read_link(path)?;
            Ok(String::from_utf8_lossy(&even.named(target.as_os_str().as_bytes())).into_owned())
        };
        let (was, is) = (target(one)?, target(other)?);
        return Ok((was != is).then_some(("target", was, is)));
    }
    let mode = |metadata: &Metadata| metadata.permissions().mode() & 0o7777;
    if mode(old) != mode(new) {
        return Ok(Some(("mode", format!("{:04o}", mode(old)), format!("{:04o}", mode(new)))));
    }
    if !old.is_file() || same_bytes(one, old, other, new)? || same_evened(one, old, other, new, even)? {
        return Ok(None);
    }
    Ok(Some(("content", sample(one, other, even, true)?, sample(one, other, even, false)?)))
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

fn same_bytes(one: &Path, old: &Metadata, other: &Path, new: &Metadata) -> io::Result<bool> {
    if old.len() != new.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    let (mut left, mut right) = (vec![0; PART], vec![0; PART]);
    loop {
        let (a, b) = (fill(&mut one, &mut left)?, fill(&mut other, &mut right)?);
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
fn same_evened(one: &Path, old: &Metadata, other: &Path, new: &Metadata, even: &Even) -> io::Result<bool> {
    if even.is_exact() || old.len().max(new.len()) > MOST_EVENED {
        return Ok(false);
    }
    let (left, right) = (fs::read(one)?, fs::read(other)?);
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

/// What a report shows of a content: the first line that differs, or how long it is.
fn sample(one: &Path, other: &Path, even: &Even, old: bool) -> io::Result<String> {
    let bytes = |path: &Path| -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MOST_EVENED).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let (left, right) = (bytes(one)?, bytes(other)?);
    let (Ok(left_text), Ok(right_text)) = (std::str::from_utf8(&left), std::str::from_utf8(&right)) else {
        return Ok(format!("{} bytes of binary data", if old { left.len() } else { right.len() }));
    };
    let mut lines = (left_text.lines(), right_text.lines());
    let mut number = 0;
    loop {
        number += 1;
        let (was, is) = (lines.0.next(), lines.1.next());
        let evened = |line: Option<&str>| line.map(|line| even.line(line.as_bytes()).into_owned());
        if was.is_none() && is.is_none() || evened(was) != evened(is) {
            let line = if old { was } else { is };
            let shown: String = line.unwrap_or("(no such line)").chars().take(500).collect();
            return Ok(format!("line {number}: {}", shown.escape_debug()));
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
