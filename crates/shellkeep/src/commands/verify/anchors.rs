//! Compares anchored heads with a recording: each head names a line by number and hash, and that line must exist.

use crate::client::Client;
use crate::failure::Failure;
use shellkeep_protocol as wire;
use shellkeep_record::{PublicKey, Recording, SignedHead};
use shellkeep_session::SessionId;
use std::path::Path;

/// How a head begins in a file, in a posted body, and in a log.
const BEGINS: &str = "{\"session_id\"";

/// The heads in a file.
pub struct Anchors {
    file: String,
    heads: Vec<SignedHead>,
}

impl Anchors {
    /// Reads all heads in a file, whatever surrounds them.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::client(format!("--anchors {}: {error}", path.display())))?;
        let heads: Vec<SignedHead> = text
            .match_indices(BEGINS)
            .filter_map(|(at, _)| serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok())
            .collect();
        if heads.is_empty() {
            return Err(Failure::client(format!("--anchors {}: it contains no heads", path.display())));
        }
        Ok(Self { file: path.display().to_string(), heads })
    }

    /// Compares them with a recording in files.
    pub fn check_files(
        &self,
        verdict: wire::Verdict,
        recording: &Recording,
        keys: &[PublicKey],
    ) -> Result<wire::Verdict, Failure> {
        let line = recording.first().map_err(Failure::client)?;
        let exported = line.and_then(|line| line.proof.signed).map(|signed| signed.session_id);
        let directory = recording.files().first().and_then(|path| path.canonicalize().ok());
        let of_directory = || {
            let name = directory.as_ref()?.parent()?.file_name()?;
            Some(name.to_string_lossy().into_owned())
        };
        let Some(session) = exported.or_else(of_directory) else { return Ok(verdict) };
        let mut verdict = verdict;
        for head in self.of(&session) {
            let line = recording.before(head.seq + 1).map_err(Failure::client)?;
            let found = line.filter(|line| line.through() == head.seq).map(|line| line.proof.hash.to_string());
            if !self.compare(&mut verdict, head, found, keys) {
                break;
            }
        }
        Ok(self.conclude(verdict, &session))
    }

    /// Compares them with a daemon's recording, whose hash chain the daemon has checked.
    pub async fn check_session(
        &self,
        verdict: wire::Verdict,
        session: &SessionId,
        keys: &[PublicKey],
        client: &mut Client,
    ) -> Result<wire::Verdict, Failure> {
        let mut verdict = verdict;
        for head in self.of(session.as_str()) {
            let path = format!("/v1/sessions/{session}/events?after={}&limit=1", head.seq - 1);
            let page: wire::EventList = client.get(&path).await?;
            let found = page.events.into_iter().find(|event| event.seq == head.seq).map(|event| event.hash);
            if !self.compare(&mut verdict, head, found, keys) {
                break;
            }
        }
        Ok(self.conclude(verdict, session.as_str()))
    }

    fn of<'a>(&'a self, session: &'a str) -> impl Iterator<Item = &'a SignedHead> {
        self.heads.iter().filter(move |head| head.session_id == session && head.seq > 0)
    }

    /// Whether a head is right.
    fn compare(
        &self,
        verdict: &mut wire::Verdict,
        head: &SignedHead,
        found: Option<String>,
        keys: &[PublicKey],
    ) -> bool {
        let reason = if !head.is_signed() || (!keys.is_empty() && !keys.contains(&head.key)) {
            format!("the anchor for event {} is not signed by a known key", head.seq)
        } else if found.is_none() {
            format!("event {} was anchored on {} and is missing", head.seq, head.at)
        } else if found.as_deref() != Some(&head.hash.to_string()) {
            format!(
                "event {} is not the one that was anchored on {}: it or one before it was changed",
                head.seq, head.at
            )
        } else {
            return true;
        };
        verdict.intact = false;
        verdict.bad = Some(wire::Bad { file: self.file.clone(), line: 0, seq: Some(head.seq), reason });
        false
    }

    fn conclude(&self, mut verdict: wire::Verdict, session: &str) -> wire::Verdict {
        let seqs: Vec<u64> = self.of(session).map(|head| head.seq).collect();
        verdict.remarks.push(match seqs.iter().max() {
            Some(last) => format!("compared with {} anchors, the last for event {last}", seqs.len()),
            None => format!("{} has no anchor of this session", self.file),
        });
        verdict
    }
}
