//! Masking a secret for good: in the session's records and files, which the store does, in what its owner holds, and in
//! the checkpoints of its files.

use super::{Answer, Owner};
use crate::ops::{OpError, Scrubbed, Secret};
use crate::state_file;
use crate::stored::read_error;
use shellkeep_redact::Redactor;
use shellkeep_session::{Content, Event, Timestamp};
use shellkeep_store::masked_state;
use shellkeep_workspace::keeper;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

impl Owner {
    /// Masks a secret in everything that is kept. The shell is given up first: it knows the secret, and what it knows would
    /// be written down again.
    pub(super) async fn scrub(&mut self, Secret(secret): Secret, answer: Answer<Scrubbed>) {
        self.linger();
        self.rest("scrubbed", "the last one knew a secret that was masked");
        let _ = answer.send(self.try_scrub(&secret).await);
    }

    async fn try_scrub(&mut self, secret: &str) -> Result<Scrubbed, OpError> {
        let failed = |reason: String| OpError::StoreUnavailable { reason };
        let redactor = shellkeep_record::scrub::redactor([secret]).map_err(|error| failed(error.to_string()))?;
        let checkpoints = self.purge_checkpoints(&redactor).await?;
        let services = self.engine.data_dir.services(&self.id);
        let mask = redactor.clone();
        let logs = tokio::task::spawn_blocking(move || mask_in_place(&services, "services", &mask)).await?;
        let mut files = logs.map_err(|error| failed(format!("cannot mask a service's log: {error}")))?;
        let outputs = Some(self.outputs.to_path_buf());
        let scrubbed = self.engine.store.scrub(&self.id, &redactor, outputs).await;
        let scrubbed = scrubbed.map_err(|error| read_error(&self.id, error))?;
        files.extend(scrubbed.files);
        self.late.mask(&redactor);
        self.engine.secrets.forget(&self.id);
        self.state = masked_state(&self.state, &redactor).map_err(|error| failed(error.to_string()))?;
        if let Some(state) = &mut self.state.agent_state
            && let Content::File { name, .. } = &state.content
            && files.contains(name)
        {
            // What was masked has another length and hash from now on.
            let measured = state_file::measured(&self.outputs, name.clone());
            state.content = measured.map_err(|error| failed(format!("cannot read the agent's state: {error}")))?;
        }
        let event = Event::Scrubbed {
            by: None,
            seqs: scrubbed.seqs.clone(),
            files: files.clone(),
            sums: scrubbed.sums,
            checkpoints: checkpoints.clone(),
            shell: Box::new(self.state.shell.clone()),
            agent_state: self.state.agent_state.clone(),
        };
        self.record(event);
        self.sync().await;
        Ok(Scrubbed { seq: self.state.seq, seqs: scrubbed.seqs, files, checkpoints, at: Timestamp::now() })
    }

    /// Gives up the checkpoints that hold the secret: what they are called follows from every byte in them, so there is no
    /// masking a part. Gives their names.
    async fn purge_checkpoints(&mut self, redactor: &Redactor) -> Result<Vec<String>, OpError> {
        // The last command's files first; then nobody else works with them.
        self.settle_files().await;
        self.leave_files();
        self.settle_files().await;
        let checkpoints = &self.engine.checkpoints;
        let (home, faults, redactor) = (checkpoints.home(&self.id), checkpoints.faults().clone(), redactor.clone());
        let purge = move || keeper::purge(&home, &faults, &|bytes| !redactor.find(bytes).is_empty());
        let purged = tokio::task::spawn_blocking(purge).await?;
        purged.map_err(|trouble| OpError::FilesFailed {
            session_id: self.id.to_string(),
            what: "with the secret could not be purged from the checkpoints",
            reason: crate::FilesReason::from(&trouble as &dyn std::error::Error),
            state: "nothing else was masked; fix the cause and scrub again",
        })
    }
}

/// Masks what the redactor finds in all files of a directory without moving anything: a log is read by offset, and a
/// service may be writing to its end. Gives the names of files in which there was something.
fn mask_in_place(directory: &Path, name: &str, redactor: &Redactor) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut changed = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            changed.extend(mask_in_place(&entry.path(), &name, redactor)?);
        } else if kind.is_file() && mask_file(&entry.path(), redactor)? {
            changed.push(name);
        }
    }
    Ok(changed)
}

fn mask_file(path: &Path, redactor: &Redactor) -> io::Result<bool> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        // A log gives back its oldest files while it is written.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let found = redactor.find(&bytes);
    if found.is_empty() {
        return Ok(false);
    }
    let file = File::options().write(true).open(path)?;
    for finding in found {
        file.write_all_at(&vec![b'*'; finding.range.len()], finding.range.start as u64)?;
    }
    file.sync_data()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_length() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("s2")).unwrap();
        let (log, other) = (home.path().join("s2/log-0"), home.path().join("s2/other"));
        fs::write(&log, "one horse-battery two\nhorse-battery").unwrap();
        fs::write(&other, "nothing").unwrap();
        let redactor = shellkeep_record::scrub::redactor(["horse-battery"]).unwrap();
        assert_eq!(mask_in_place(home.path(), "services", &redactor).unwrap(), ["services/s2/log-0"]);
        assert_eq!(fs::read_to_string(&log).unwrap(), "one ************* two\n*************");
        assert!(mask_in_place(home.path(), "services", &redactor).unwrap().is_empty());
        assert!(mask_in_place(&home.path().join("none"), "services", &redactor).unwrap().is_empty());
    }
}
