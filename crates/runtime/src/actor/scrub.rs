//! Scrubs a secret: from the session's records and files (by the store), from the actor's state, and from the
//! checkpoints of its files.

use super::files::Files;
use super::journal::Journal;
use super::rest_reason::RestReason;
use super::session::Session;
use crate::cluster;
use crate::ops::{CheckpointError, FilesReason, OpError, RecordError, Scrubbed, Secret};
use crate::state_file;
use crate::tasks;
use shellkeep_record::beside;
use shellkeep_redact::Redactor;
use shellkeep_session::{Content, Event, OutOfReach, SessionState, Timestamp};
use shellkeep_store::{StoreScrubbed, masked_state};
use shellkeep_workspace::checkpointer;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Masks a secret in everything that is stored. The shell is dropped first: it knows the secret, which would be
/// recorded again.
pub(super) async fn scrub(session: &mut Session, secret: Secret) -> Result<Scrubbed, OpError> {
    session.rest(RestReason::Scrubbed);
    let Secret { text, force } = secret;
    let redactor = match force {
        true => shellkeep_record::scrub::forced_redactor(text.as_bytes()),
        false => shellkeep_record::scrub::redactor([text]),
    };
    let redactor = redactor.map_err(|error| OpError::StoreUnavailable { reason: error.to_string() })?;
    let checkpoints = purge_checkpoints(&mut session.files, &mut session.journal, &redactor).await?;
    // The checkpoints are purged: from here on a failure leaves some of it done.
    let session_id = session.id().to_string();
    let failed =
        |reason: String| OpError::Record(RecordError::ScrubIncomplete { session_id: session_id.clone(), reason });
    let services = session.ctx.data_dir.services(session.id());
    let mask = redactor.clone();
    let logs = tasks::blocking(move || mask_in_place(&services, "services", &mask)).await?;
    let mut files = logs.map_err(|error| failed(format!("cannot mask a service's log: {error}")))?;
    let (kv, keys) = session.kv.scrub(&session.journal, &redactor).await?;
    files.extend(keys.iter().map(|key| format!("kv/{key}")));
    if let Some(shared) = session.ctx.shared_files() {
        // What another node wrote is masked here, and put back.
        shared.fetch_all(session.id(), &session.outputs).await.map_err(&failed)?;
    }
    let outputs = Some(session.outputs.to_path_buf());
    let scrubbed = session.ctx.store.scrub(session.id(), &redactor, outputs).await;
    let StoreScrubbed { masked: scrubbed, mut out_of_reach } = scrubbed.map_err(|error| failed(error.to_string()))?;
    files.extend(scrubbed.files);
    session.late.mask(&redactor);
    session.ctx.secrets.forget(session.id());
    let masked = masked_state(session.journal.state(), &redactor);
    let mut state = masked.map_err(|error| failed(error.to_string()))?;
    let measured = tasks::in_place(|| measure_again(&session.outputs, &mut state, &files));
    session.journal.replace_state(state);
    measured.map_err(|error| failed(format!("cannot read the agent's state: {error}")))?;
    let has_masked_values = !kv.is_empty();
    let event = Event::Scrubbed {
        by: None,
        seqs: scrubbed.seqs.clone(),
        files: files.clone(),
        sums: scrubbed.sums,
        kv,
        checkpoints: checkpoints.clone(),
        shell: Box::new(session.journal.state().shell.clone()),
        agent_state: session.journal.state().agent_state.clone(),
    };
    session.journal.record(event);
    session.journal.sync().await;
    if let Some(cluster) = &session.ctx.cluster {
        cluster::scrub::scrub(cluster, session.journal.state(), &redactor)
            .await
            .map_err(|error| failed(error.to_string()))?;
    }
    if let Some(shared) = session.ctx.shared_files() {
        let files = tasks::in_place(|| outputs_now(&session.outputs)).map_err(|error| failed(error.to_string()))?;
        shared.replace(session.journal.state(), files).await.map_err(&failed)?;
    }
    // Values that are no longer kept here may still be there.
    session.kv.share_all(&session.journal).await.map_err(|error| failed(error.to_string()))?;
    if has_masked_values {
        session.kv.scrub_recorded(&session.journal).await;
    }
    let state = session.journal.state();
    let earlier_nodes: Vec<String> = state.claims.earlier_nodes().into_iter().map(str::to_owned).collect();
    if !earlier_nodes.is_empty() {
        out_of_reach.push(OutOfReach::EarlierNodes);
    }
    let (seq, seqs, at) = (state.seq, scrubbed.seqs, Timestamp::now());
    Ok(Scrubbed { seq, seqs, files, checkpoints, out_of_reach, earlier_nodes, forks: Vec::new(), at })
}

/// The files that records name, each with its hash now.
fn outputs_now(directory: &Path) -> io::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => {
            for entry in entries? {
                let path = entry?.path();
                if path.is_file() {
                    let hash = beside::sum_file(&path)?.hash;
                    files.push((path, hash));
                }
            }
        }
    }
    Ok(files)
}

/// An agent's state that was masked in its file has another length and hash from now on.
fn measure_again(outputs: &Path, state: &mut SessionState, masked: &[String]) -> io::Result<()> {
    if let Some(agent_state) = &mut state.agent_state
        && let Content::File { name, .. } = &agent_state.content
        && masked.contains(name)
    {
        agent_state.content = state_file::measured(outputs, name.clone())?;
    }
    Ok(())
}

/// Removes the checkpoints that contain the secret: their names follow from every byte in them, so a part cannot be masked.
/// Returns their names.
async fn purge_checkpoints(
    files: &mut Files,
    journal: &mut Journal,
    redactor: &Redactor,
) -> Result<Vec<String>, OpError> {
    // First waits for the last command's checkpoint; then no other work is in progress.
    files.settle(journal).await;
    files.leave();
    files.settle(journal).await;
    let checkpoints = &files.ctx.checkpoints;
    let (home, faults, redactor) = (checkpoints.home(journal.id()), checkpoints.faults().clone(), redactor.clone());
    let purge = move || checkpointer::purge(&home, &faults, &|bytes| !redactor.find(bytes).is_empty());
    let purged = tasks::blocking(purge).await?;
    files.ctx.share_files(journal.state());
    purged.map_err(|trouble| {
        OpError::Checkpoint(CheckpointError::Failed {
            session_id: journal.id().to_string(),
            what: "with the secret could not be purged from the checkpoints",
            reason: FilesReason::from(&trouble as &dyn std::error::Error),
            state: "nothing else was masked; fix the cause and scrub again",
        })
    })
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
        // A log removes its oldest files while it is written.
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
