//! Reading the workspace: its crates, their manifests, its files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Entries that are not ours to judge: what was built, what was fetched, and git's own, which is a file in a worktree.
const NOT_OURS: &[&str] = &["target", ".git", "node_modules", ".bench-venv", "dist"];

/// A text file of the workspace.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// Path from the root, with `/` between parts.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The root of this workspace, from where cargo says this crate is.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// Every text file below `root`, in order. Binary files are passed over.
pub fn text_files(root: &Path) -> io::Result<Vec<TextFile>> {
    let (mut open, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name();
            if NOT_OURS.iter().any(|other| name == *other) {
                continue;
            }
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(&path)
            {
                let below = path.strip_prefix(root).unwrap_or(&path);
                found.push(TextFile { path: below.to_string_lossy().replace('\\', "/"), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}
