//! What the scripts answer.

use crate::tier::{Appended, ClaimAnswer, ForkNote, NoClaim};
use shellkeep_session::ownership::{Claimed, Head, NotAClaim, Point, Refusal};

/// A head, from the texts in Redis.
pub(super) fn head(owner: &str, seq: &str, at: &str, claims: &str) -> Result<Head, NotAClaim> {
    let wrong = || NotAClaim { text: seq.to_owned() };
    let seq = seq.parse().map_err(|_| wrong())?;
    let at = if at.is_empty() { None } else { Some(at.parse()?) };
    Ok(Head { owner: owner.parse()?, last: Point { seq, at }, claims: claims.parse()? })
}

/// The answer of `append.lua`.
pub(super) fn appended(answer: &[String]) -> Result<Appended, NotAClaim> {
    let part = |index: usize| answer.get(index).map_or("", String::as_str);
    match part(0) {
        "ok" => Ok(Ok(ForkNote::all_of(part(1)))),
        "apart" => Ok(Err(Refusal::Apart(Box::new(head(part(1), part(2), part(3), part(4))?)))),
        "fenced" if part(1).is_empty() => Ok(Err(Refusal::Fenced(None))),
        "fenced" => Ok(Err(Refusal::Fenced(Some(part(1).parse()?)))),
        other => Err(NotAClaim { text: other.to_owned() }),
    }
}

/// The answer of `claim.lua`.
pub(super) fn claimed(answer: &[String]) -> Result<ClaimAnswer, NotAClaim> {
    let part = |index: usize| answer.get(index).map_or("", String::as_str);
    let owned = || head(part(1), part(2), part(3), part(4));
    match part(0) {
        "removed" => Ok(Err(NoClaim::Removed)),
        "full" => {
            let used = part(1).parse().map_err(|_| NotAClaim { text: part(1).to_owned() })?;
            Ok(Err(NoClaim::Full { used }))
        }
        "held" => Ok(Ok(Claimed::Held(part(1).parse()?))),
        "new" => Ok(Ok(Claimed::New(owned()?))),
        "kept" => Ok(Ok(Claimed::Kept(owned()?))),
        "taken" => Ok(Ok(Claimed::Taken(owned()?))),
        other => Err(NotAClaim { text: other.to_owned() }),
    }
}
