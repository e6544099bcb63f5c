//! A secret that is scrubbed is masked in the shared store too.

use super::arrive::stands_for;
use super::{Cluster, look};
use crate::ops::OpError;
use shellkeep_redact::Redactor;
use shellkeep_session::{Json, Record, SessionState};
use shellkeep_store::masked_record;

/// Masks a secret in a session's records. `state` is masked already, and the last record is its own.
pub(crate) async fn scrub(cluster: &Cluster, state: &SessionState, redactor: &Redactor) -> Result<(), OpError> {
    let (whole, redactor) = (stands_for(state, 1, "they had a secret that was masked"), redactor.clone());
    let mask = move |lines: Vec<Vec<u8>>| masked(&lines, &whole, &redactor);
    let replaced = cluster.ship.replace(&state.meta.session_id, state.seq, mask).await.map_err(look::away)?;
    match replaced {
        true => Ok(()),
        false => Err(OpError::StoreUnavailable { reason: "the shared store has other records of it".to_owned() }),
    }
}

/// The records with the secret masked. If one of them cannot be read without it, one record with the whole state takes the
/// place of all: the secret is part of a name then.
fn masked(lines: &[Vec<u8>], whole: &Record, redactor: &Redactor) -> Vec<Vec<u8>> {
    let mask = |line: &Vec<u8>| -> Option<Vec<u8>> {
        let record = Record::from_json(line).ok()?;
        let masked = masked_record(&record, redactor).ok()?;
        masked.to_json().ok().filter(|line| redactor.find(line).is_empty())
    };
    let all: Option<Vec<Vec<u8>>> = lines.iter().map(mask).collect();
    all.unwrap_or_else(|| whole.to_json().into_iter().collect())
}
