//! Who may do what. The host may do everything; an agent is identified by a token and may access only its own sessions.
//! A token's secret is returned once, when it is created; what is kept is its hash.

use crate::console_codes::ConsoleCodes;
use crate::ops::{
    ConsoleRight, IssuedToken, NewBearer, NewToken, OpError, ReaderRole, TokenBearer, TokenError, TokenView,
};
use crate::sync::{lock, read, write};
use crate::token_holders::TokenHolders;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use shellkeep_session::{SessionId, Timestamp, id};
use shellkeep_store::{OpenError, TokenFile, TokenRecord};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// The prefix of every agent's token, so that people and secret scanners recognise one.
pub const TOKEN_PREFIX: &str = "sk_";
/// Random bytes of a secret: those of a 256-bit key, which cannot be guessed.
const SECRET_BYTES: usize = 32;
/// Random bytes of a token's public name; enough that two never collide.
const ID_BYTES: usize = 8;
/// Random bytes of a code for the console: 128 bits, which cannot be guessed in its minute.
const CODE_BYTES: usize = 16;
/// Longest name of an agent with a token: `thread_{agent}_` and a UUID must fit into a session's id.
const MAX_AGENT: usize = 64;
/// Longest name of a token; it is shown in tables.
const MAX_NAME: usize = 100;
/// Maximum number of valid tokens. Each is some 300 bytes in a file that is written as a whole.
const MAX_TOKENS: usize = 10_000;
/// Revoked tokens that are remembered, so that ids in the audit trail can be looked up; older ones are forgotten.
const MAX_REVOKED: usize = 1_000;
/// How long a token of the console is valid: a working day, because it is in a browser's memory.
const CONSOLE_LIFETIME: Duration = Duration::from_secs(12 * 3600);

/// On whose behalf an engine is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All rights.
    Host,
    /// Only this agent's sessions.
    Agent {
        agent: String,
        /// Whether it may restart its sessions.
        may_restart: bool,
        /// The id of its token.
        token: String,
    },
    /// Reads everything of all sessions, and changes nothing.
    Auditor {
        /// The id of its token.
        token: String,
    },
    /// Reads the daemon's health and figures.
    Metrics {
        /// The id of its token.
        token: String,
    },
    /// A person at the console who may use all sessions, as the host. The door rejects the rest of the host's rights.
    Console {
        /// The id of the token.
        token: String,
    },
    /// Only this session: one of its own processes, without a token, in a session without an agent.
    Session { session_id: SessionId },
}

/// The agent of a session's own process if there is none. No agent can have an empty name, so it matches nothing.
const NO_AGENT: &str = "";
/// The name of a session's own process in records, where others have the id of their token.
const OWN_PROCESS: &str = "session";

impl Scope {
    /// The agent whose sessions it is limited to; `None` for the host, the console and read-only tokens.
    pub fn agent(&self) -> Option<&str> {
        match self {
            Self::Host | Self::Auditor { .. } | Self::Metrics { .. } | Self::Console { .. } => None,
            Self::Agent { agent, .. } => Some(agent),
            Self::Session { .. } => Some(NO_AGENT),
        }
    }

    /// The author for records: the id of a token, or a word that is not a token's id; `None` for the host.
    pub fn token(&self) -> Option<&str> {
        match self {
            Self::Host => None,
            Self::Agent { token, .. } | Self::Auditor { token } | Self::Metrics { token } | Self::Console { token } => {
                Some(token)
            }
            Self::Session { .. } => Some(OWN_PROCESS),
        }
    }

    /// The only session it may access, if it is limited to one.
    pub fn only_session(&self) -> Option<&SessionId> {
        match self {
            Self::Session { session_id } => Some(session_id),
            Self::Host | Self::Agent { .. } | Self::Auditor { .. } | Self::Metrics { .. } | Self::Console { .. } => {
                None
            }
        }
    }
}

/// The name by which an agent's session is stored: `thread_{agent}_{id}`, so that no agent can name, and thereby probe
/// for, a session of another. `None` if that is too long.
pub fn bound(agent: &str, id: &SessionId) -> Option<SessionId> {
    let rest = id.as_str().strip_prefix("thread_").and_then(|rest| rest.strip_prefix(agent));
    if rest.is_some_and(|rest| rest.len() > 1 && rest.starts_with('_')) {
        return Some(id.clone());
    }
    SessionId::bound(agent, id.as_str()).ok()
}

/// A valid token: its scope, and a way to learn that it was revoked.
#[derive(Clone)]
pub struct Bearer {
    pub scope: Arc<Scope>,
    /// Ends with the token.
    pub revocation: Revocation,
}

/// Ends when a token is revoked or expires.
#[derive(Clone)]
pub struct Revocation {
    alive: Option<watch::Receiver<()>>,
    /// When the token expires, if it does.
    expiry: Option<tokio::time::Instant>,
}

impl Revocation {
    /// For rights without a token.
    pub fn never() -> Self {
        Self { alive: None, expiry: None }
    }

    /// Returns when the token has been revoked, or has expired.
    pub async fn happened(self) {
        let Self { alive, expiry } = self;
        let revoked = async {
            let Some(mut alive) = alive else { return std::future::pending().await };
            // Nothing is ever sent: the sender lives as long as the token is valid.
            while alive.changed().await.is_ok() {}
        };
        match expiry {
            Some(expiry) => drop(tokio::time::timeout_at(expiry, revoked).await),
            None => revoked.await,
        }
    }
}

/// A valid token.
struct Active {
    scope: Arc<Scope>,
    expires_at: Option<Timestamp>,
    alive: watch::Sender<()>,
}

/// The agents' tokens. The daemon is the only writer of their file.
pub struct Identities {
    file: TokenFile,
    /// What the file says. Held while the file is written, so that two writers cannot overtake each other.
    records: Mutex<Vec<TokenRecord>>,
    /// Looked up by hash, and hashes compare in constant time: the time of a rejection reveals nothing about a secret.
    active: RwLock<HashMap<blake3::Hash, Active>>,
    /// The agents of all tokens.
    holders: Arc<TokenHolders>,
    /// The default of `may_restart`.
    may_restart: bool,
    /// Codes with which a browser gets a token.
    codes: ConsoleCodes,
}

impl Identities {
    /// Reads the file.
    pub fn load(file: TokenFile, may_restart: bool) -> Result<Self, OpenError> {
        let records = file.load()?;
        let mut active = HashMap::new();
        for record in records.iter().filter(|record| record.revoked_at.is_none()) {
            match blake3::Hash::from_hex(&record.hash) {
                Ok(hash) => drop(active.insert(hash, Active::new(record))),
                Err(error) => tracing::warn!(token = record.id, %error, "cannot read a token's hash; the token is \
                    rejected"),
            }
        }
        let holders = Arc::new(TokenHolders::of(records.iter()));
        let (records, active) = (Mutex::new(records), RwLock::new(active));
        Ok(Self { file, records, active, holders, may_restart, codes: ConsoleCodes::default() })
    }

    /// The agents that have or had a token.
    pub(crate) fn holders(&self) -> Arc<TokenHolders> {
        Arc::clone(&self.holders)
    }

    /// The token with this secret.
    pub fn authenticate(&self, secret: &[u8]) -> Option<Bearer> {
        if !secret.starts_with(TOKEN_PREFIX.as_bytes()) {
            return None;
        }
        let active = read(&self.active);
        active.get(&blake3::hash(secret)).and_then(|active| active.bearer(Timestamp::now()))
    }

    /// The rights of an agent without its secret: those of the token `preferred`, or of another valid token of it.
    pub fn rights_of(&self, agent: &str, preferred: Option<&str>) -> Option<Bearer> {
        let active = read(&self.active);
        let of_agent = active.values().filter(|active| active.scope.agent() == Some(agent));
        let found = of_agent.min_by_key(|active| (active.scope.token() != preferred, active.scope.token()));
        found.and_then(|active| active.bearer(Timestamp::now()))
    }

    /// Creates a token. Waits for the disk.
    pub fn issue(&self, request: NewToken) -> Result<IssuedToken, OpError> {
        let now = Timestamp::now();
        let mut records = self.records();
        // Those that have expired use up nothing.
        records.retain(|record| record.expires_at.is_none_or(|at| at > now));
        write(&self.active).retain(|_, active| active.expires_at.is_none_or(|at| at > now));
        check(&request, &records)?;
        let bearer = match request.bearer {
            NewBearer::Agent { agent, may_restart } => {
                TokenBearer::Agent { agent, may_restart: may_restart.unwrap_or(self.may_restart) }
            }
            NewBearer::Reader(role) => TokenBearer::Reader { role },
            NewBearer::Console(console) => TokenBearer::Console { console },
        };
        let expires_at = matches!(bearer, TokenBearer::Console { .. }).then(|| now + CONSOLE_LIFETIME);
        let failed = |error: io::Error| unwritten("no token was created", &error);
        let secret = format!("{TOKEN_PREFIX}{}", random_text(SECRET_BYTES).map_err(failed)?);
        let hash = blake3::hash(secret.as_bytes());
        let record = TokenRecord {
            id: format!("tok_{}", random_text(ID_BYTES).map_err(failed)?),
            bearer,
            name: request.name,
            created_at: now,
            hash: hash.to_hex().to_string(),
            revoked_at: None,
            expires_at,
        };
        let mut next = records.clone();
        next.push(record.clone());
        self.file.save(&next).map_err(failed)?;
        *records = next;
        self.holders.add(&record);
        write(&self.active).insert(hash, Active::new(&record));
        Ok(IssuedToken { token: view(&record), secret })
    }

    /// A code with which a browser gets a token, once.
    pub fn console_code(&self, right: ConsoleRight) -> Result<String, OpError> {
        let code = random_text(CODE_BYTES).map_err(|error| unwritten("no code was created", &error))?;
        self.codes.add(&code, right);
        Ok(code)
    }

    /// The token for a code; `None` if the code is unknown, used or too old. Waits for the disk.
    pub fn console_login(&self, code: &str) -> Result<Option<IssuedToken>, OpError> {
        let Some(right) = self.codes.redeem(code) else { return Ok(None) };
        self.issue(NewToken { bearer: NewBearer::Console(right), name: None }).map(Some)
    }

    /// Revokes a token of the console on behalf of its own holder; false if it is not one.
    pub fn console_logout(&self, id: &str) -> Result<bool, OpError> {
        let is_console = |record: &TokenRecord| record.id == id && matches!(record.bearer, TokenBearer::Console { .. });
        if !self.records().iter().any(is_console) {
            return Ok(false);
        }
        self.revoke(id).map(|()| true)
    }

    /// All tokens, the oldest first.
    pub fn list(&self) -> Vec<TokenView> {
        self.records().iter().map(view).collect()
    }

    /// What is kept of all tokens.
    pub(crate) fn kept(&self) -> Vec<TokenRecord> {
        self.records().clone()
    }

    /// What is kept of one token.
    pub(crate) fn kept_of(&self, id: &str) -> Option<TokenRecord> {
        self.records().iter().find(|record| record.id == id).cloned()
    }

    /// Takes over what other nodes know: tokens that they created, and which they revoked. Returns those that are revoked from
    /// now on. Waits for the disk; a file that cannot be written is written with the next change.
    pub(crate) fn adopt(&self, others: Vec<TokenRecord>) -> Vec<String> {
        let mut records = self.records();
        let (mut revoked, mut is_changed) = (Vec::new(), false);
        for other in others {
            let Ok(hash) = blake3::Hash::from_hex(&other.hash) else { continue };
            match records.iter_mut().find(|record| record.id == other.id) {
                Some(known) if other.revoked_at.is_some() && known.revoked_at.is_none() => {
                    known.revoked_at = other.revoked_at;
                    write(&self.active).remove(&hash);
                    revoked.push(other.id);
                }
                None if other.revoked_at.is_none() => {
                    self.holders.add(&other);
                    write(&self.active).insert(hash, Active::new(&other));
                    records.push(other);
                }
                // Of an agent that this node does not know to have had one.
                None if self.holders.add(&other) => records.push(other),
                _ => continue,
            }
            is_changed = true;
        }
        forget_the_oldest(&mut records);
        if is_changed && let Err(error) = self.file.save(&records) {
            tracing::warn!(%error, "tokens of other nodes could not be saved; they are fetched again after a restart");
        }
        revoked
    }

    /// Revokes a token. From then on it is rejected, even if the file cannot be written; revoking it again retries the
    /// write.
    pub fn revoke(&self, id: &str) -> Result<(), OpError> {
        let mut records = self.records();
        let Some(record) = records.iter_mut().find(|record| record.id == id) else {
            return Err(OpError::Token(TokenError::NotFound { token_id: id.to_owned() }));
        };
        record.revoked_at.get_or_insert_with(Timestamp::now);
        if let Ok(hash) = blake3::Hash::from_hex(&record.hash) {
            write(&self.active).remove(&hash);
        }
        forget_the_oldest(&mut records);
        self.file.save(&records).map_err(|error| {
            let detail = "the token is revoked only until the daemon restarts, because the change could not be saved";
            unwritten(detail, &error)
        })
    }

    fn records(&self) -> MutexGuard<'_, Vec<TokenRecord>> {
        lock(&self.records)
    }
}

impl Active {
    fn new(record: &TokenRecord) -> Self {
        let token = record.id.clone();
        let scope = match &record.bearer {
            TokenBearer::Agent { agent, may_restart } => {
                Scope::Agent { agent: agent.clone(), may_restart: *may_restart, token }
            }
            TokenBearer::Reader { role: ReaderRole::Auditor }
            | TokenBearer::Console { console: ConsoleRight::Watch } => Scope::Auditor { token },
            TokenBearer::Console { console: ConsoleRight::Act } => Scope::Console { token },
            TokenBearer::Reader { role: ReaderRole::Metrics } => Scope::Metrics { token },
        };
        Self { scope: Arc::new(scope), expires_at: record.expires_at, alive: watch::Sender::new(()) }
    }

    /// What it gives its holder; `None` if it has expired.
    fn bearer(&self, now: Timestamp) -> Option<Bearer> {
        let expiry = match self.expires_at {
            None => None,
            Some(at) => {
                let left = Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())?;
                Some(tokio::time::Instant::now() + left)
            }
        };
        let revocation = Revocation { alive: Some(self.alive.subscribe()), expiry };
        Some(Bearer { scope: Arc::clone(&self.scope), revocation })
    }
}

fn check(request: &NewToken, records: &[TokenRecord]) -> Result<(), OpError> {
    let invalid = |detail: String| Err(OpError::Invalid { detail });
    if let NewBearer::Agent { agent, .. } = &request.bearer {
        check_agent(agent, records)?;
    }
    let bad_name =
        |name: &String| name.trim().is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control);
    if request.name.as_ref().is_some_and(bad_name) {
        return invalid(format!("name must be 1 to {MAX_NAME} characters on one line"));
    }
    if records.iter().filter(|record| record.revoked_at.is_none()).count() >= MAX_TOKENS {
        return invalid(format!("there are already {MAX_TOKENS} tokens; revoke some that are no longer needed"));
    }
    Ok(())
}

fn check_agent(agent: &str, records: &[TokenRecord]) -> Result<(), OpError> {
    let invalid = |detail: String| Err(OpError::Invalid { detail });
    if let Err(error) = id::check(agent) {
        return invalid(format!("agent: {error}"));
    }
    if agent.len() > MAX_AGENT {
        return invalid(format!(
            "agent is {} characters long; the name of an agent with a token may have at most {MAX_AGENT}",
            agent.len()
        ));
    }
    // `thread_a_b_c` could be b_c of a, or c of a_b. One could reach sessions of the other.
    let extends = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('_'));
    let others = records.iter().filter_map(|record| match &record.bearer {
        TokenBearer::Agent { agent, .. } => Some(agent),
        TokenBearer::Reader { .. } | TokenBearer::Console { .. } => None,
    });
    match others.into_iter().find(|other| extends(other, agent) || extends(agent, other)) {
        None => Ok(()),
        Some(other) => invalid(format!(
            "agent: '{agent}' and '{other}' have the same prefix up to a _, so their session ids could collide; choose \
                another name"
        )),
    }
}

/// One token of each agent stays, revoked or not: that it had one keeps its sessions confined.
fn forget_the_oldest(records: &mut Vec<TokenRecord>) {
    let mut revoked: Vec<Timestamp> = records.iter().filter_map(|record| record.revoked_at).collect();
    if revoked.len() <= MAX_REVOKED {
        return;
    }
    revoked.sort_unstable();
    let oldest_kept = revoked[revoked.len() - MAX_REVOKED];
    let is_kept = |record: &TokenRecord| record.revoked_at.is_none_or(|at| at >= oldest_kept);
    let kept = TokenHolders::of(records.iter().filter(|record| is_kept(record)));
    records.retain(|record| is_kept(record) || kept.add(record));
}

fn view(record: &TokenRecord) -> TokenView {
    TokenView {
        id: record.id.clone(),
        bearer: record.bearer.clone(),
        name: record.name.clone(),
        created_at: record.created_at,
        revoked_at: record.revoked_at,
        expires_at: record.expires_at,
    }
}

fn unwritten(detail: &'static str, error: &io::Error) -> OpError {
    OpError::Token(TokenError::Unavailable { detail, reason: error.into() })
}

fn random_text(length: usize) -> io::Result<String> {
    let mut bytes = vec![0_u8; length];
    // The kernel returns up to 256 bytes as a whole.
    rustix::rand::getrandom(bytes.as_mut_slice(), rustix::rand::GetRandomFlags::empty())?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identities(data: &std::path::Path) -> Identities {
        Identities::load(TokenFile::of(data), false).unwrap()
    }

    fn new(agent: &str) -> NewToken {
        NewToken { bearer: NewBearer::Agent { agent: agent.to_owned(), may_restart: None }, name: None }
    }

    #[tokio::test]
    async fn a_token_opens_until_it_is_revoked() {
        let data = tempfile::tempdir().unwrap();
        let issued = identities(data.path()).issue(new("ann")).unwrap();
        // Another daemon on the same directory knows it.
        let identities = identities(data.path());
        let bearer = identities.authenticate(issued.secret.as_bytes()).unwrap();
        let token = issued.token.id.clone();
        assert_eq!(*bearer.scope, Scope::Agent { agent: "ann".to_owned(), may_restart: false, token });
        for wrong in ["", "sk_", &issued.secret[1..], &format!("{}x", issued.secret), &issued.token.id] {
            assert!(identities.authenticate(wrong.as_bytes()).is_none(), "{wrong}");
        }
        identities.revoke(&issued.token.id).unwrap();
        bearer.revocation.happened().await;
        assert!(identities.authenticate(issued.secret.as_bytes()).is_none());
        identities.revoke(&issued.token.id).unwrap();
        assert!(matches!(identities.revoke("tok_other"), Err(OpError::Token(TokenError::NotFound { .. }))));
        assert!(Identities::load(TokenFile::of(data.path()), false).unwrap().list()[0].revoked_at.is_some());
    }

    #[test]
    fn the_secret_is_told_once_and_not_kept() {
        let data = tempfile::tempdir().unwrap();
        let issued = identities(data.path()).issue(new("ann")).unwrap();
        assert_eq!(issued.secret.len(), TOKEN_PREFIX.len() + 43);
        let kept = std::fs::read_to_string(data.path().join("tokens.json")).unwrap();
        assert!(!kept.contains(&issued.secret[TOKEN_PREFIX.len()..]), "{kept}");
        assert!(!format!("{issued:?}").contains(&issued.secret));
    }

    #[test]
    fn agents_whose_sessions_could_meet_are_kept_apart() {
        let data = tempfile::tempdir().unwrap();
        let identities = identities(data.path());
        identities.issue(new("a_b")).unwrap();
        for (agent, fits) in [("a", false), ("a_b_c", false), ("a_b", true), ("a_", true), ("ab", true), ("a-b", true)]
        {
            assert_eq!(identities.issue(new(agent)).is_ok(), fits, "{agent}");
        }
        assert!(identities.issue(new(&"x".repeat(65))).is_err());
        assert!(identities.issue(new("a/b")).is_err());
    }

    #[test]
    fn names_are_bound_once() {
        let bound = |agent: &str, id: &str| bound(agent, &SessionId::parse(id).unwrap()).map(String::from);
        assert_eq!(bound("ann", "7").as_deref(), Some("thread_ann_7"));
        assert_eq!(bound("ann", "thread_ann_7").as_deref(), Some("thread_ann_7"));
        assert_eq!(bound("ann", "thread_ann_").as_deref(), Some("thread_ann_thread_ann_"));
        assert_eq!(bound("ann", "thread_anna_7").as_deref(), Some("thread_ann_thread_anna_7"));
        assert_eq!(bound("ann", &"x".repeat(120)), None);
    }

    #[test]
    fn only_the_latest_revocations_are_remembered() {
        let of = |agent: &str, n: usize, revoked: bool| TokenRecord {
            id: format!("tok_{n}"),
            bearer: TokenBearer::Agent { agent: agent.to_owned(), may_restart: false },
            name: None,
            created_at: Timestamp::UNIX_EPOCH,
            hash: String::new(),
            revoked_at: revoked.then(|| Timestamp::from_second(n as i64).unwrap()),
            expires_at: None,
        };
        let mut records: Vec<_> = (0..MAX_REVOKED + 5).map(|n| of("ann", n, true)).collect();
        records.push(of("ann", 0, false));
        forget_the_oldest(&mut records);
        assert_eq!(records.len(), MAX_REVOKED + 1);
        assert_eq!(records[0].id, "tok_5");
        // Otherwise the sessions of an agent would not be confined any more after the next start.
        records.insert(0, of("bob", 1, true));
        forget_the_oldest(&mut records);
        assert_eq!(records.len(), MAX_REVOKED + 2);
        assert!(TokenHolders::of(records.iter()).contains("bob"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_code_of_the_console_works_once_and_its_token_expires() {
        let data = tempfile::tempdir().unwrap();
        let identities = identities(data.path());
        let code = identities.console_code(ConsoleRight::Act).unwrap();
        assert_eq!(code.len(), 22, "128 bits");
        assert!(identities.console_login("").unwrap().is_none());
        assert!(identities.console_login(&code[1..]).unwrap().is_none());
        let issued = identities.console_login(&code).unwrap().unwrap();
        assert!(identities.console_login(&code).unwrap().is_none(), "a second time");
        let bearer = identities.authenticate(issued.secret.as_bytes()).unwrap();
        assert_eq!(*bearer.scope, Scope::Console { token: issued.token.id.clone() });
        assert_eq!(issued.token.expires_at.unwrap(), issued.token.created_at + CONSOLE_LIFETIME);
        // The clock is simulated: this takes twelve hours of it.
        bearer.revocation.happened().await;
        let active = read(&identities.active);
        let token = active.values().next().unwrap();
        assert!(token.bearer(issued.token.expires_at.unwrap()).is_none());
        assert!(token.bearer(issued.token.created_at).is_some());
    }

    #[test]
    fn only_a_token_of_the_console_signs_itself_out() {
        let data = tempfile::tempdir().unwrap();
        let identities = identities(data.path());
        let agent = identities.issue(new("ann")).unwrap();
        assert!(!identities.console_logout(&agent.token.id).unwrap());
        let code = identities.console_code(ConsoleRight::Watch).unwrap();
        let watching = identities.console_login(&code).unwrap().unwrap();
        let scope = identities.authenticate(watching.secret.as_bytes()).unwrap().scope;
        assert_eq!(*scope, Scope::Auditor { token: watching.token.id.clone() });
        assert!(identities.console_logout(&watching.token.id).unwrap());
        assert!(identities.authenticate(watching.secret.as_bytes()).is_none());
        assert!(identities.authenticate(agent.secret.as_bytes()).is_some());
    }
}
