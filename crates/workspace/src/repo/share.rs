//! A fork's repository: the same objects under other names, as they never change.

use super::{Repo, Result, build, damaged, pack, refs};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

impl Repo {
    /// A fork's repository with all that is published here. Object files are linked where the file system allows, so a
    /// fork takes next to no space; neither side ever changes one.
    pub fn share_into(&self, directory: &Path) -> Result<Repo> {
        let all: BTreeMap<_, _> = self.refs.all()?;
        build(directory, |new| {
            share_below(&self.directory.join("objects"), &new.join("objects"))?;
            for file in ["config", "info/attributes", "shallow", "HEAD"] {
                match fs::copy(self.directory.join(file), new.join(file)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::write(new.join("packed-refs"), refs::packed_text(&all))
        })?;
        Repo::open(directory, &self.faults)?.ok_or_else(|| damaged("the fork is gone right after it was made"))
    }
}

fn share_below(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_unfinished(&name) {
            continue;
        }
        let target = to.join(&name);
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            share_below(&entry.path(), &target)?;
        } else if fs::hard_link(entry.path(), &target).is_err() {
            // Another file system, or one without links, or a file with too many.
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

fn is_unfinished(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(pack::UNFINISHED.as_bytes())
}
