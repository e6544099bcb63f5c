//! `shellkeep verify`: proves that nothing in a recording was changed, dropped or reordered, and who signed it.

mod anchors;

use super::key;
use super::replay::source::{self, LocalSession, local_session, outputs_beside};
use super::replay::target::Target;
use crate::cli::{ClientArgs, DaemonArgs};
use crate::client::{self, Client};
use crate::failure::{CANNOT_START, Failure};
use crate::terminal;
use anchors::Anchors;
use clap::{Args, ValueHint};
use serde_json::json;
use shellkeep_protocol as wire;
use shellkeep_record::{Bad, Checks, PublicKey, Recording, SignatureChecks};
use shellkeep_session::SessionId;
use shellkeep_store::keyed;
use shellkeep_terminal::words;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code when the recording is consistent, but signed by an unknown key.
const KEY_NOT_KNOWN: u8 = 3;

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each event carries a hash of itself and of the previous one, and the daemon signs the chain. So this detects every
change to the events, long outputs, agent states, keyed values and the configuration. It trusts the signing key;
--key says which key it must be, and `shellkeep key` prints it. A recording that was truncated at the end together
with its signatures is detected with --anchors, or by the daemon, which knows the session's last record.

An export can be verified on its own, even if secrets were masked in it. A session's own files are checked by its
daemon, or here with the keys in their data directory.

Examples:
  shellkeep verify demo
  shellkeep verify --key 3b6a…29 ./demo.jsonl
  shellkeep verify --anchors /mnt/elsewhere/heads.jsonl demo
  shellkeep verify demo --json | jq .head.hash

Exit codes: 0 intact and signed by a known key, 1 not intact, 2 it could not be checked, 3 intact, but signed by
an unknown key: pass it with --key if it is the right one."
)]
pub struct VerifyArgs {
    /// The session, or a file or directory with a recording
    #[arg(value_name = "SESSION|FILE|DIR", value_hint = ValueHint::AnyPath)]
    target: String,
    /// The public key that must have signed it, or a file that contains it; may be repeated [default: DATA/sign.pub]
    #[arg(long = "key", value_name = "KEY|FILE")]
    keys: Vec<String>,
    /// Compare with anchored heads: a file with what record.anchor wrote, posted or logged
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    anchors: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

pub fn execute(args: VerifyArgs) -> Result<ExitCode, Failure> {
    let verdict = check(&args).map_err(|failure| failure.with_code(CANNOT_START))?;
    if args.client.json {
        terminal::json(&verdict)?;
    } else {
        tell(&verdict);
    }
    Ok(match (verdict.intact, verdict.key_is_known) {
        (true, true) => ExitCode::SUCCESS,
        (true, false) => ExitCode::from(KEY_NOT_KNOWN),
        (false, _) => ExitCode::FAILURE,
    })
}

fn check(args: &VerifyArgs) -> Result<wire::Verdict, Failure> {
    let keys = args.keys.iter().map(|text| named_key(text)).collect::<Result<Vec<_>, _>>()?;
    let anchors = args.anchors.as_deref().map(Anchors::read).transpose()?;
    match Target::parse(&args.target)? {
        Target::Session(session) => {
            let asked = async {
                let mut client = Client::open(&args.client.daemon).await?;
                let path = format!("/v1/sessions/{session}/verify");
                let nothing = json!({});
                let verdict = terminal::patiently("checking", client.post(&path, &nothing)).await?;
                let verdict = signed_by(verdict, &keys);
                match &anchors {
                    Some(anchors) => anchors.check_session(verdict, &session, &keys, &mut client).await,
                    None => Ok(verdict),
                }
            };
            source::runtime()?.block_on(asked)
        }
        Target::Path(path) => {
            let known = if keys.is_empty() { known_here(&path, &args.client.daemon) } else { keys };
            let (place, keys) = (path.clone(), known.clone());
            let checking = async { tokio::task::spawn_blocking(move || of_files(&place, &keys)).await };
            let checked = source::runtime()?.block_on(terminal::patiently("checking", checking));
            let (verdict, recording) = checked.map_err(Failure::client)??;
            match &anchors {
                Some(anchors) => anchors.check_files(verdict, &recording, &known),
                None => Ok(verdict),
            }
        }
    }
}

/// A key in hex, or a file that contains one.
fn named_key(text: &str) -> Result<PublicKey, Failure> {
    let in_file = || PublicKey::parse(std::fs::read_to_string(text).ok()?.trim());
    PublicKey::parse(text).or_else(in_file).ok_or_else(|| {
        Failure::client(format!("--key {text}: neither 64 hex digits nor a file with them; `shellkeep key` prints one"))
    })
}

/// The keys that this machine knows: that of the recording's data directory, or of the daemon in use.
fn known_here(path: &Path, daemon: &DaemonArgs) -> Vec<PublicKey> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let beside = if path.is_dir() { key::of_directory(&source::data_of(&path)) } else { None };
    let used = || key::of_directory(&client::data_directory(daemon).ok()?);
    beside.or_else(used).into_iter().collect()
}

/// The daemon knows its own key, but the caller may expect another one.
fn signed_by(mut verdict: wire::Verdict, keys: &[PublicKey]) -> wire::Verdict {
    if keys.is_empty() {
        return verdict;
    }
    let is_named = |signed: &&wire::Signed| keys.iter().any(|named| named.to_string() == signed.key);
    let mut signatures = verdict.also_signed.iter().chain(&verdict.signed);
    verdict.key_is_known = verdict.signed.is_some() && signatures.clone().all(|signed| is_named(&signed));
    if let Some(signed) = signatures.find(|signed| !is_named(signed)) {
        let reason = format!("it is signed by {}, which is not the expected key", signed.key);
        verdict.intact = false;
        verdict.bad = Some(wire::Bad { file: "heads.jsonl".to_owned(), line: 0, seq: None, reason });
    }
    verdict
}

fn of_files(path: &Path, keys: &[PublicKey]) -> Result<(wire::Verdict, Recording), Failure> {
    let opened = if path.is_dir() { Recording::open(path) } else { Recording::open_export(path) };
    let recording = opened.map_err(Failure::client)?;
    let LocalSession { name, key } = local_session(path);
    if key.is_none() && !recording.is_export() {
        return Err(Failure::client(
            "a session's own files need the key of their data directory, which is missing; pass the session's name \
                instead of a path, or export it",
        ));
    }
    let session_id = SessionId::parse(&name).ok().filter(|_| !recording.is_export());
    let signatures = SignatureChecks { session_id: session_id.as_ref(), keys, through: None };
    let outputs = outputs_beside(path);
    // Only a daemon knows a session's last record.
    let checks = Checks { key: key.as_ref(), expected: None, signatures: Some(signatures), outputs: Some(&outputs) };
    let mut verdict = shellkeep_record::check(&recording, &checks).map_err(Failure::client)?;
    if let Some(session_id) = session_id.filter(|_| verdict.bad.is_none()) {
        verdict.bad = wrong_key(path, &session_id, &recording)?;
    }
    Ok((verdict.into(), recording))
}

/// Where the keyed store beside a verified recording differs from it. That of a removed session was removed.
fn wrong_key(path: &Path, session_id: &SessionId, recording: &Recording) -> Result<Option<Bad>, Failure> {
    let path = path.canonicalize().map_err(Failure::client)?;
    if source::removed_as(&path).is_some() {
        return Ok(None);
    }
    let told = shellkeep_record::kv_told(recording, u64::MAX).map_err(Failure::client)?;
    if told.version() == 0 {
        return Ok(None);
    }
    let directory = keyed::directory(&source::data_of(&path), session_id.as_str());
    let wrong = keyed::compare_files(&directory, &told).map_err(Failure::client)?;
    let bad = |reason| Bad { file: keyed::FILE.to_owned(), line_number: 0, seq: None, reason };
    Ok(wrong.into_iter().next().map(bad))
}

fn tell(verdict: &wire::Verdict) {
    let wire::Verdict { events, masked_fields, files, files_reclaimed, .. } = verdict;
    if verdict.intact {
        let events = words::counted(*events as usize, "event");
        say(&format!("{}: {events}, none changed, dropped or reordered", good("intact")));
    } else {
        let failed = bad("VERIFICATION FAILED");
        say(&match events {
            0 => format!("{failed}: not even the first event checks out"),
            1 => format!("{failed}: only the first event checks out"),
            _ => format!("{failed}: only the first {events} events check out"),
        });
    }
    if let Some(wrong) = &verdict.bad {
        let seq = wrong.seq.map_or_else(String::new, |seq| format!(" (event {seq})"));
        let place = if wrong.line == 0 { wrong.file.clone() } else { format!("{}:{}", wrong.file, wrong.line) };
        say(&format!("first bad line: {place}{seq}: {}", wrong.reason));
    }
    for hole in &verdict.holes {
        let kind = if hole.declared { "declared lost" } else { "missing" };
        say(&format!("events {} to {} are {kind}: {}", hole.from, hole.through, hole.reason));
    }
    if *masked_fields > 0 {
        let fields = were(*masked_fields, "field");
        say(&format!("{fields} masked; the rest is still proven"));
    }
    if *files > 0 {
        let verb = if *files == 1 { "matches its hash" } else { "match their hashes" };
        say(&format!("{} {verb}", words::counted(*files as usize, "attached file")));
    }
    if *files_reclaimed > 0 {
        let files = were(*files_reclaimed, "file");
        say(&format!("{files} deleted to make room; their hashes still prove their contents"));
    }
    verdict.remarks.iter().for_each(|remark| say(remark));
    if let Some(head) = &verdict.head {
        say(&format!("last: event {}, hash {}", head.seq, head.hash));
    }
    for signed in verdict.also_signed.iter().chain(&verdict.signed) {
        say(&format!("signed by {}, up to event {}, on {}", signed.key, signed.seq, signed.at));
    }
    if verdict.signed.is_some() && !verdict.key_is_known {
        say(match verdict.also_signed.is_empty() {
            true => {
                "That key is not known here: this only shows that the recording fits the key it carries. If it is the right \
                 one, pass it with --key."
            }
            false => {
                "Not all of these keys are known here: this only shows that the recording fits the keys it carries. If they \
                 are the right ones, pass each with --key."
            }
        });
    }
}

/// Prints a sentence, broken where the terminal ends.
fn say(text: &str) {
    terminal::sentence("", 0, text);
}

/// `1 field was`, `2 fields were`.
fn were(number: u64, thing: &str) -> String {
    format!("{} {}", words::counted(number as usize, thing), if number == 1 { "was" } else { "were" })
}

fn good(word: &str) -> String {
    terminal::coloured(word, terminal::Colour::Green)
}

fn bad(word: &str) -> String {
    terminal::coloured(word, terminal::Colour::Red)
}
