//! Masking a secret in the files of one session.

use super::files::{RESUMES, SessionFiles};
use super::formats::StateFile;
use super::json::{failed, read, write};
use super::requests::REQUESTS;
use crate::backend::BackendError;
use crate::mask;
use serde_json::Value;
use shellkeep_record::Masker;
use shellkeep_redact::Redactor;
use shellkeep_session::{Content, ShellState};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Fields with names, which are not masked.
const NAMES: [&str; 4] = ["session_id", "agent", "by", "run_id"];

impl SessionFiles {
    /// Masks what the redactor finds in all files.
    pub(super) fn scrub(&self, redactor: &Redactor) -> Result<(), BackendError> {
        let masker = Masker::of_values(redactor.clone());
        let path = |name: &str| self.directory.join(name);
        if let Some(mut state) = read::<StateFile>(&path("state.json"), self.sealed)? {
            let shell = mask::shell(&state.shell, &masker)?;
            state.shell = ShellState::default();
            let content = state.agent_state.as_ref().map(|saved| saved.content.clone());
            let mut masked = mask::masked(&state, &masker, "state.json")?;
            masked.shell = shell;
            if let (Some(shown), Some(Content::Inline(bytes))) = (&mut masked.agent_state, content) {
                shown.content = Content::Inline(redactor.redact(bytes.as_bytes()).into());
            }
            write(&path("state.json"), &masked)?;
        }
        if let Some(shell) = read::<ShellState>(&path("first_shell.json"), self.sealed)? {
            write(&path("first_shell.json"), &mask::shell(&shell, &masker)?)?;
        }
        scrub_json(&path("meta.json"), self.sealed, &masker)?;
        for directory in ["runs", "messages"] {
            for file in files_in(&path(directory))? {
                scrub_json(&file, self.sealed, &masker)?;
            }
        }
        for file in files_in(&path(REQUESTS))?.into_iter().chain(files_in(&path(RESUMES))?) {
            let name = file.file_name().unwrap_or_default().as_encoded_bytes();
            if redactor.redact(name) != name {
                fs::remove_file(&file).map_err(|error| failed(&file, &error))?;
            }
        }
        // A failed attempt may have left a file that is never read.
        for file in files_in(&self.directory)?.into_iter().filter(|file| file.extension().is_some_and(|e| e == "tmp")) {
            fs::remove_file(&file).map_err(|error| failed(&file, &error))?;
        }
        Ok(())
    }
}

fn scrub_json(path: &Path, sealed: bool, masker: &Masker) -> Result<(), BackendError> {
    if path.extension().is_some_and(|extension| extension == "tmp") {
        return fs::remove_file(path).map_err(|error| failed(path, &error));
    }
    let Some(mut value) = read::<Value>(path, sealed)? else { return Ok(()) };
    let names: Vec<_> = NAMES.iter().filter_map(|name| Some((*name, value.get(name)?.clone()))).collect();
    if !masker.mask_value(&mut value) {
        return Ok(());
    }
    if let Value::Object(fields) = &mut value {
        fields.extend(names.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    write(path, &value)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, BackendError> {
    match fs::read_dir(directory) {
        Ok(entries) => Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(directory, &error)),
    }
}
