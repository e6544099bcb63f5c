//! Normalises what may differ between two runs of the same command: where it ran, when, and how long it took.
//!
//! | in the output | becomes |
//! |---|---|
//! | the path of the workspace | `$WORKSPACE` |
//! | the name of the session | `$SESSION` |
//! | `2026-01-02T03:04:05Z`, `Fri Jan  2 03:04:05 UTC 2026`, `03:04:05` | `$TIME` |
//! | `Jan  2 03:04`, `Jan  2  2026`, as in `ls -l` | `$DATE` |
//! | the spaces that align the columns of `ls -l`, before the date | one space |
//! | the line of `..` in `ls -la`, which may be outside of the workspace | `$ABOVE` |
//! | `0.01s`, `12 ms`, `0m0.003s`, `1.5 seconds` | `$DURATION` |
//! | `/tmp/tmp.AbCdEf1234`, `/tmp/tmpab12cd_e`, `/tmp/ccAbCdEf` | `$TMP` |
//! | `0x7f3a12345678` | `$ADDRESS` |

use regex::bytes::{NoExpand, Regex};
use std::borrow::Cow;

const MONTH: &str = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)";

/// What `ls -la` says about the directory above.
const ABOVE: &[u8] = b"$ABOVE";

/// What makes two outputs comparable. The same is done to both, so that a name that happens to be a word stays equal.
pub struct Even {
    names: Vec<(Vec<u8>, &'static str)>,
    patterns: Vec<(Regex, &'static str)>,
    /// The beginning of a line of `ls -l`, up to its date; none to compare byte for byte.
    listed: Option<Regex>,
}

impl Even {
    /// For sessions with these names that worked in these directories.
    pub fn new(workspaces: &[&str], sessions: &[&str]) -> Result<Self, regex::Error> {
        let patterns = [
            (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?(?:Z|[+-]\d\d:?\d\d))?".to_owned(), "$TIME"),
            (
                format!(
                    r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +(?:{MONTH} +\d+|\d+ {MONTH}) +(?:\d{{4}} +)?\d\d:\d\d:\d\d(?: [AP]M)?(?: [A-Z]{{3,5}})?(?: \d{{4}})?"
                ),
                "$TIME",
            ),
            (format!(r"\b{MONTH} +\d{{1,2}} +(?:\d\d:\d\d\b|\d{{4}}\b)"), "$DATE"),
            (r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b".to_owned(), "$TIME"),
            (r"\b\d+m\d+(?:\.\d+)?s\b".to_owned(), "$DURATION"),
            (r"\b\d+\.\d+ ?(?:s|secs?|seconds?)\b".to_owned(), "$DURATION"),
            (r"\b\d+(?:\.\d+)? ?(?:ms|us|\xc2\xb5s|ns|milliseconds?|microseconds?)\b".to_owned(), "$DURATION"),
            (r"/tmp/(?:tmp\.?[A-Za-z0-9_]{6,12}|cc[A-Za-z0-9]{6})\b".to_owned(), "$TMP"),
            (r"\b0x[0-9a-f]{8,16}\b".to_owned(), "$ADDRESS"),
        ];
        let compiled = |(pattern, name): (String, &'static str)| bytes_regex(&pattern).map(|regex| (regex, name));
        // Of `long-iso` and the like too. Behind the date is a name, whose spaces count.
        let listed = Some(bytes_regex(r"^[bcdlps-][rwxsStT-]{9}[.+@]? +\d+ [^$]*\$(?:DATE|TIME) ")?);
        let names =
            workspaces.iter().map(|path| (*path, "$WORKSPACE")).chain(sessions.iter().map(|id| (*id, "$SESSION")));
        let mut names: Vec<_> =
            names.filter(|(text, _)| text.len() > 1).map(|(text, name)| (text.as_bytes().to_vec(), name)).collect();
        // A session's name is a part of its workspace's path.
        names.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Ok(Self { names, patterns: patterns.into_iter().map(compiled).collect::<Result<_, _>>()?, listed })
    }

    /// One that compares byte for byte.
    pub fn exact() -> Self {
        Self { names: Vec::new(), patterns: Vec::new(), listed: None }
    }

    /// Whether it changes nothing.
    pub fn is_exact(&self) -> bool {
        self.names.is_empty() && self.patterns.is_empty()
    }

    /// A line, normalised.
    pub fn line<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let mut text = self.named(line);
        for (pattern, name) in &self.patterns {
            if let Cow::Owned(changed) = pattern.replace_all(&text, NoExpand(name.as_bytes())) {
                text = Cow::Owned(changed);
            }
        }
        match self.listing(&text) {
            Some(listing) => Cow::Owned(listing),
            None => text,
        }
    }

    /// A line of `ls -l`: how wide its columns are depends on the other lines, as on the owner of `..`.
    fn listing(&self, line: &[u8]) -> Option<Vec<u8>> {
        let columns = self.listed.as_ref()?.find(line)?;
        let name = &line[columns.end()..];
        if name.trim_ascii_end() == b".." {
            return Some([ABOVE, &name[2..]].concat());
        }
        let mut even = Vec::with_capacity(line.len());
        for byte in columns.as_bytes() {
            if *byte != b' ' || even.last() != Some(&b' ') {
                even.push(*byte);
            }
        }
        even.extend_from_slice(name);
        Some(even)
    }

    /// Bytes without the names of workspace and session: for files, whose times may be intended.
    pub fn named<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut text = Cow::Borrowed(bytes);
        for (old, new) in &self.names {
            if let Some(changed) = replaced(&text, old, new.as_bytes()) {
                text = Cow::Owned(changed);
            }
        }
        text
    }
}

/// A pattern for outputs, which are bytes. The patterns are ASCII.
fn bytes_regex(pattern: &str) -> Result<Regex, regex::Error> {
    regex::bytes::RegexBuilder::new(pattern).unicode(false).build()
}

/// The bytes with all occurrences replaced, if there are any.
pub fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let find =
        |from: usize| bytes[from..].windows(old.len()).position(|window| window == old).map(|place| from + place);
    let mut place = find(0)?;
    let mut out = Vec::with_capacity(bytes.len());
    let mut done = 0;
    loop {
        out.extend_from_slice(&bytes[done..place]);
        out.extend_from_slice(new);
        done = place + old.len();
        match find(done) {
            Some(next) => place = next,
            None => break,
        }
    }
    out.extend_from_slice(&bytes[done..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_differ_is_evened_out() {
        let even =
            Even::new(&["/data/workspaces/build-12", "/data/workspaces/replay-7"], &["build-12", "replay-7"]).unwrap();
        for (line, expected) in [
            ("make: Entering directory '/data/workspaces/build-12/src'", "make: Entering directory '$WORKSPACE/src'"),
            ("session build-12 is here", "session $SESSION is here"),
            ("/data/workspaces/replay-7/x of replay-7", "$WORKSPACE/x of $SESSION"),
            ("2026-01-02T03:04:05.678Z up", "$TIME up"),
            ("2026-01-02 03:04:05 +0000 up", "$TIME up"),
            ("2026-01-02 03:04 file", "$TIME file"),
            ("Fri Jan  2 03:04:05 UTC 2026", "$TIME"),
            ("Fri, 02 Jan 2026 03:04:05 GMT", "$TIME"),
            ("-rw-r--r-- 1 root root 12 Jan  2 03:04 a.c", "-rw-r--r-- 1 root root 12 $DATE a.c"),
            ("-rw-r--r-- 1 root root 12 Nov 30  2025 a.c", "-rw-r--r-- 1 root root 12 $DATE a.c"),
            ("drwxr-x---+  2 ann      staff  4096 Jan  2 03:04 a  b", "drwxr-x---+ 2 ann staff 4096 $DATE a  b"),
            ("crw-rw-rw- 1 root root  1,   3 2026-01-02 03:04 null", "crw-rw-rw- 1 root root 1, 3 $TIME null"),
            ("drwx------ 11 root root 4096 Nov 30  2025 ..\n", "$ABOVE\n"),
            ("-rw-r--r-- 1 root root 12 Jan  2 03:04 ..a", "-rw-r--r-- 1 root root 12 $DATE ..a"),
            ("a  table  of  words", "a  table  of  words"),
            ("at 03:04:05 sharp", "at $TIME sharp"),
            ("Ran 3 tests in 0.001s", "Ran 3 tests in $DURATION"),
            ("real\t0m0.003s", "real\t$DURATION"),
            ("took 12ms, 1.5 seconds", "took $DURATION, $DURATION"),
            ("/tmp/tmp.AbCdEf1234/x /tmp/ccQwErTy.o /tmp/tmpab12cd_e", "$TMP/x $TMP.o $TMP"),
            ("<object at 0x7f3a12345678>", "<object at $ADDRESS>"),
            ("plain 5s 12 3.14 v1.2.3 10:30", "plain 5s 12 3.14 v1.2.3 10:30"),
            ("sum 0x12", "sum 0x12"),
        ] {
            assert_eq!(String::from_utf8_lossy(&even.line(line.as_bytes())), expected);
        }
        assert_eq!(&*Even::exact().line(b"0.001s /data"), b"0.001s /data");
        assert_eq!(&*even.line(b"\xff\xfe 0.5s"), b"\xff\xfe $DURATION");
    }
}
