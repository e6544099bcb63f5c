//! The project that a client works in: the directory whose files a new session saves.
//!
//! The rule: the nearest directory, from the current one upwards, that has a `.git` or a project file; if there is
//! none, the current directory. Never a directory that is more than one project: `/`, what is directly in it, a home
//! directory and its parents, and directories for temporary files. The search does not go above them either, so that
//! dotfiles kept in git do not make a home directory a project.

use crate::config::Environment;
use std::path::{Path, PathBuf};

/// Files that a project has at its top.
const MARKS: [&str; 17] = [
    ".git",
    ".hg",
    ".jj",
    "Cargo.toml",
    "CMakeLists.txt",
    "Gemfile",
    "Makefile",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "deno.json",
    "go.mod",
    "mix.exs",
    "package.json",
    "pom.xml",
    "pyproject.toml",
    "setup.py",
];
/// Shared directories. What is directly in `/` is excluded anyway.
const SHARED: [&str; 4] = ["/var/tmp", "/dev/shm", "/usr/local", "/usr/src"];

/// The project that `here` is in, if its files may be saved.
pub fn of(here: &Path, env: Environment) -> Option<PathBuf> {
    let here = here.canonicalize().ok()?;
    let home = env("HOME").and_then(|home| Path::new(&home).canonicalize().ok());
    let temporary = env("TMPDIR").and_then(|path| Path::new(&path).canonicalize().ok());
    let may_be = |path: &Path| !is_shared(path, home.as_deref()) && temporary.as_deref() != Some(path);
    if !may_be(&here) {
        return None;
    }
    let upwards = here.ancestors().take_while(|path| may_be(path));
    let marked = upwards.into_iter().find(|path| MARKS.iter().any(|mark| path.join(mark).exists()));
    Some(marked.unwrap_or(&here).to_owned())
}

/// Whether a directory is more than one project.
fn is_shared(path: &Path, home: Option<&Path>) -> bool {
    let is_top = path.parent().is_none_or(|parent| parent.parent().is_none());
    let is_home = path.parent() == Some(Path::new("/home")) || home.is_some_and(|home| home.starts_with(path));
    is_top || is_home || SHARED.iter().any(|shared| path == Path::new(shared))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_project_is_where_its_mark_is() {
        let room = tempfile::tempdir().unwrap();
        let room = room.path().canonicalize().unwrap();
        let home = room.join("home/ann");
        let env = |name: &str| match name {
            "HOME" => Some(home.to_str().unwrap().to_owned()),
            "TMPDIR" => Some(room.join("tmp").to_str().unwrap().to_owned()),
            _ => None,
        };
        for directory in ["home/ann/app/src/deep", "home/ann/notes", "home/ann/.git", "tmp/work", "home/ann/go/pkg"] {
            fs::create_dir_all(room.join(directory)).unwrap();
        }
        fs::write(home.join("app/package.json"), "{}").unwrap();
        fs::write(home.join("go/pkg/go.mod"), "").unwrap();
        for (here, expected) in [
            ("home/ann/app/src/deep", Some("home/ann/app")),
            ("home/ann/app", Some("home/ann/app")),
            // A `.git` in the home directory does not make it a project.
            ("home/ann/notes", Some("home/ann/notes")),
            ("home/ann/go/pkg", Some("home/ann/go/pkg")),
            ("home/ann/go", Some("home/ann/go")),
            ("home/ann", None),
            ("home", None),
            ("tmp", None),
            ("tmp/work", Some("tmp/work")),
            ("gone", None),
        ] {
            assert_eq!(of(&room.join(here), &env), expected.map(|path| room.join(path)), "{here}");
        }
        for wide in ["/", "/tmp", "/usr", "/usr/local", "/var/tmp"].map(Path::new) {
            assert_eq!(of(wide, &env), None, "{}", wide.display());
        }
    }
}
