//! Changes as a patch in git's format, which `git apply` takes.

use super::lines::{self, Region};
use super::quote::quoted;
use super::{Change, FilePatch, Patch, PatchOptions, Repos, Side, binary};
use crate::repo::{Kind, ObjectId, Repo, RepoError, Result};

/// Git looks for a zero byte in this much of a file to tell whether it is text.
const TEXT_PROBE: usize = 8000;

/// Longer files are not compared line by line.
const TEXT_BYTES: u64 = 16 << 20;

/// The changes as a patch. Empty directories have no place in one and are passed over.
pub fn patch<'a>(repos: impl Into<Repos<'a>>, changes: &[Change], options: PatchOptions) -> Result<Patch> {
    let repos = repos.into();
    let mut patch = Patch::default();
    for change in changes {
        for (old, new) in pairs(change) {
            let mut text = Vec::new();
            let mut file = Writer { repos, options, change, out: &mut text }.write(old, new)?;
            if patch.text.len() + text.len() > options.max_bytes {
                patch.left_out += 1;
                // What follows may be short, but a patch with holes in the middle would surprise.
                continue;
            }
            file.path.clone_from(&change.path);
            patch.text.append(&mut text);
            patch.files.push(file);
        }
    }
    Ok(patch)
}

/// The sides as git would tell them: another kind of thing is a deletion and an addition.
fn pairs(change: &Change) -> Vec<(Option<Side>, Option<Side>)> {
    let in_patch = |side: &Side| side.kind != Kind::Directory;
    let (old, new) = (change.old.filter(in_patch), change.new.filter(in_patch));
    let is_link = |side: Side| side.kind == Kind::Link;
    match (old, new) {
        (None, None) => Vec::new(),
        (Some(old), Some(new)) if is_link(old) != is_link(new) => vec![(Some(old), None), (None, Some(new))],
        pair => vec![pair],
    }
}

struct Writer<'a> {
    repos: Repos<'a>,
    options: PatchOptions,
    change: &'a Change,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn write(&mut self, old: Option<Side>, new: Option<Side>) -> Result<FilePatch> {
        let mut file = FilePatch { path: Vec::new(), insertions: 0, deletions: 0, binary: false };
        self.head(old, new);
        if old.map(|side| side.id) == new.map(|side| side.id) {
            return Ok(file);
        }
        let texts = match (text(self.repos.old, old)?, text(self.repos.new, new)?) {
            (Some(old_text), Some(new_text)) => Some((old_text, new_text)),
            _ => None,
        };
        match texts {
            Some((old_text, new_text)) => {
                (file.insertions, file.deletions) = self.hunks((old, &old_text), (new, &new_text));
            }
            None => {
                file.binary = true;
                self.binary(old, new)?;
            }
        }
        Ok(file)
    }

    fn line(&mut self, pieces: &[&[u8]]) {
        pieces.iter().for_each(|piece| self.out.extend_from_slice(piece));
        self.out.push(b'\n');
    }

    fn names(&self) -> (&[u8], &[u8]) {
        let path = self.change.path.as_slice();
        (self.change.renamed_from.as_deref().unwrap_or(path), path)
    }

    fn head(&mut self, old: Option<Side>, new: Option<Side>) {
        let (from, to) = self.names();
        let (from, to) = (from.to_vec(), to.to_vec());
        self.line(&[b"diff --git ", &quoted("a/", &from), b" ", &quoted("b/", &to)]);
        let mode = |side: Side| format!("{:06o}", side.kind.mode()).into_bytes();
        match (old, new) {
            (None, Some(new)) => self.line(&[b"new file mode ", &mode(new)]),
            (Some(old), None) => self.line(&[b"deleted file mode ", &mode(old)]),
            (Some(old), Some(new)) if old.kind != new.kind => {
                self.line(&[b"old mode ", &mode(old)]);
                self.line(&[b"new mode ", &mode(new)]);
            }
            _ => {}
        }
        if from != to {
            self.line(&[b"similarity index 100%"]);
            self.line(&[b"rename from ", &quoted("", &from)]);
            self.line(&[b"rename to ", &quoted("", &to)]);
        }
        let (old_id, new_id) = (old.map(|side| side.id), new.map(|side| side.id));
        if old_id != new_id {
            let hex = |id: Option<ObjectId>| id.unwrap_or(ObjectId::null(gix_hash::Kind::Sha1)).to_string();
            let same = old.zip(new).filter(|(old, new)| old.kind == new.kind);
            let mode = same.map(|(_, new)| [b" ".to_vec(), mode(new)].concat()).unwrap_or_default();
            self.line(&[b"index ", hex(old_id).as_bytes(), b"..", hex(new_id).as_bytes(), &mode]);
        }
    }

    /// Writes the lines that differ and counts those that came and those that went.
    fn hunks(&mut self, (old, old_text): (Option<Side>, &[u8]), (new, new_text): (Option<Side>, &[u8])) -> (u64, u64) {
        let (old_lines, new_lines) = (lines::split(old_text), lines::split(new_text));
        let regions = lines::differing(&old_lines, &new_lines);
        if regions.is_empty() {
            return (0, 0);
        }
        let (from, to) = self.names();
        // A tab ends a name with a space in it; git leaves it out where the name is quoted.
        let named = |sign: &str, prefix: &str, path: &[u8], there: bool| {
            let name = if there { quoted(prefix, path) } else { b"/dev/null".to_vec() };
            let tab = if there && name.contains(&b' ') && !name.starts_with(b"\"") { "\t" } else { "" };
            [sign.as_bytes(), &name, tab.as_bytes()].concat()
        };
        let (minus, plus) = (named("--- ", "a/", from, old.is_some()), named("+++ ", "b/", to, new.is_some()));
        self.line(&[&minus]);
        self.line(&[&plus]);
        let together = |pair: &[Region]| pair[1].0.start - pair[0].0.end <= 2 * self.options.context;
        let mut groups: Vec<Vec<Region>> = Vec::new();
        for region in &regions {
            match groups.last_mut() {
                Some(group) if group.last().is_some_and(|last| together(&[last.clone(), region.clone()])) => {
                    group.push(region.clone());
                }
                _ => groups.push(vec![region.clone()]),
            }
        }
        for group in &groups {
            self.hunk(group, &old_lines, &new_lines);
        }
        let sum = |count: fn(&Region) -> usize| regions.iter().map(count).sum::<usize>() as u64;
        (sum(|region| region.1.len()), sum(|region| region.0.len()))
    }

    fn hunk(&mut self, group: &[Region], old: &[&[u8]], new: &[&[u8]]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let before = first.0.start.min(self.options.context);
        let after = (old.len() - last.0.end).min(self.options.context);
        let range = |start: usize, end: usize| {
            let count = end - start;
            let start = if count == 0 { start } else { start + 1 };
            if count == 1 { start.to_string() } else { format!("{start},{count}") }
        };
        let old_range = range(first.0.start - before, last.0.end + after);
        let new_range = range(first.1.start - before, last.1.end + after);
        self.line(&[format!("@@ -{old_range} +{new_range} @@").as_bytes()]);
        let mut place = first.0.start - before;
        for (old_range, new_range) in group {
            self.lines(b' ', &old[place..old_range.start]);
            self.lines(b'-', &old[old_range.clone()]);
            self.lines(b'+', &new[new_range.clone()]);
            place = old_range.end;
        }
        self.lines(b' ', &old[place..place + after]);
    }

    fn lines(&mut self, sign: u8, lines: &[&[u8]]) {
        for line in lines {
            self.out.push(sign);
            self.out.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                self.out.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    }

    fn binary(&mut self, old: Option<Side>, new: Option<Side>) -> Result<()> {
        if !self.options.binary {
            let (from, to) = self.names();
            let name = |prefix, path: &[u8], side: Option<Side>| match side {
                Some(_) => quoted(prefix, path),
                None => b"/dev/null".to_vec(),
            };
            let (from, to) = (name("a/", from, old), name("b/", to, new));
            self.line(&[b"Binary files ", &from, b" and ", &to, b" differ"]);
            return Ok(());
        }
        self.line(&[b"GIT binary patch"]);
        // Both ways, so that the patch can be taken back.
        for (repo, side) in [(self.repos.new, new), (self.repos.old, old)] {
            let bytes = match side {
                Some(side) => repo.objects.read_blob(side.id, None)?,
                None => Vec::new(),
            };
            let written = binary::literal(self.out, &bytes);
            written.map_err(|source| RepoError::Source { source })?;
        }
        Ok(())
    }
}

/// A side's bytes if they are text; a side that is not there is an empty one.
fn text(repo: &Repo, side: Option<Side>) -> Result<Option<Vec<u8>>> {
    let Some(side) = side else { return Ok(Some(Vec::new())) };
    match repo.objects.read_blob(side.id, Some(TEXT_BYTES)) {
        Ok(bytes) => Ok(Some(bytes).filter(|bytes| !bytes[..bytes.len().min(TEXT_PROBE)].contains(&0))),
        Err(RepoError::TooBig { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
