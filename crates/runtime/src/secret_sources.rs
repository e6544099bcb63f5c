//! Where the node's secrets come from: files that the host names, read before each command of a session that has them.
//! A value is kept in memory only. Every value that was read stays known until the daemon ends, because what a command
//! printed with the last one must be masked too.

use crate::given_secrets::GivenSecrets;
use crate::ops::{OpError, SessionError};
use crate::sync::lock;
use crate::user_path::apart;
use rustix::fs::OFlags;
use shellkeep_redact::why_not_maskable;
use shellkeep_session::{SecretSource, SessionMeta};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The longest value: far more than a key, and little enough to be passed to every program.
const MOST_BYTES: u64 = 64 << 10;

/// The secrets that sessions can be given.
#[derive(Debug)]
pub(crate) struct SecretSources {
    sources: Vec<Known>,
}

/// A source, and what was read from it.
struct Known {
    source: SecretSource,
    values: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl std::fmt::Debug for Known {
    /// Without the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(&self.source, f)
    }
}

impl SecretSources {
    /// Reads all of them once, so that a value is masked before the first command that gets it. Blocks.
    pub(crate) fn new(sources: Vec<SecretSource>) -> Self {
        let known = sources.into_iter().map(|source| {
            let values = match read(&source.file) {
                Ok(value) => BTreeSet::from([value]),
                Err(reason) => {
                    tracing::warn!(secret = source.name, reason, "sessions with this secret cannot run commands");
                    BTreeSet::new()
                }
            };
            Known { source, values: Arc::new(Mutex::new(values)) }
        });
        Self { sources: known.collect() }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether a session of this agent, or of none, can be given this secret.
    pub(crate) fn can_give(&self, name: &str, agent: Option<&str>) -> bool {
        self.find(name, agent).is_some()
    }

    /// The secrets of a session as far as they were read before.
    pub(crate) fn known(&self, meta: &SessionMeta) -> GivenSecrets {
        let mut given = GivenSecrets::default();
        for (name, known) in self.of(meta) {
            if let Some(known) = known {
                given.add(name, None, &lock(&known.values));
            }
        }
        given
    }

    /// The secrets of a session with the values that they have now. An error if one of them cannot be read: a command
    /// would miss it, and its value could not be masked.
    pub(crate) async fn read(&self, meta: &SessionMeta) -> Result<GivenSecrets, OpError> {
        let mut given = GivenSecrets::default();
        if self.is_empty() && meta.secrets.is_empty() {
            return Ok(given);
        }
        for (name, known) in self.of(meta) {
            let unavailable = |reason: String| {
                let (session_id, name) = (meta.session_id.to_string(), name.to_owned());
                OpError::Session(SessionError::SecretUnavailable { session_id, name, reason })
            };
            let Some(known) = known else { return Err(unavailable("it is not in the daemon's settings".to_owned())) };
            let file = known.source.file.clone();
            let value = apart(move || read(&file)).await.map_err(unavailable)?;
            let mut values = lock(&known.values);
            values.insert(value.clone());
            given.add(name, Some(value), &values);
        }
        Ok(given)
    }

    /// The names that a session is given, each with its source if there is one.
    fn of<'a>(&'a self, meta: &'a SessionMeta) -> Vec<(&'a str, Option<&'a Known>)> {
        let agent = meta.agent.as_deref();
        let of_agent = self.sources.iter().map(|known| &known.source);
        let of_agent = of_agent.filter(|source| agent.is_some() && source.agent.as_deref() == agent);
        let names: BTreeSet<&str> =
            of_agent.map(|source| source.name.as_str()).chain(meta.secrets.iter().map(String::as_str)).collect();
        names.into_iter().map(|name| (name, self.find(name, agent))).collect()
    }

    /// The source for sessions of this agent, or of none; the agent's own comes first.
    fn find(&self, name: &str, agent: Option<&str>) -> Option<&Known> {
        let fit = self.sources.iter().filter(|known| known.source.name == name && known.source.is_for(agent));
        fit.max_by_key(|known| known.source.agent.is_some())
    }
}

/// The value in a file, without the line break at its end.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let wrong = |what: &str| Err(format!("{} {what}", path.display()));
    let file = open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return wrong("is not a regular file; name a file that holds the value");
    }
    let mut value = Vec::new();
    // One byte more for the line break, and one to notice that it is too long.
    file.take(MOST_BYTES + 2).read_to_end(&mut value).map_err(failed)?;
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    match why_not_maskable(&value) {
        _ if value.len() as u64 > MOST_BYTES => wrong("has more than 64 KiB"),
        _ if value.contains(&0) => wrong("has a zero byte, which no variable can hold"),
        Some(why) => wrong(&format!("has a value that cannot be masked: {why}; use a longer random one")),
        None => Ok(value),
    }
}

/// Opens a file without waiting: a FIFO may have no writer, and a terminal must not become the daemon's controlling terminal.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use shellkeep_session::SessionId;
    use std::collections::BTreeMap;

    fn meta(agent: Option<&str>, secrets: &[&str]) -> SessionMeta {
        SessionMeta {
            agent: agent.map(str::to_owned),
            secrets: secrets.iter().map(|name| (*name).to_owned()).collect(),
            ..SessionMeta::of_name(SessionId::parse("a").unwrap())
        }
    }

    fn variables(given: &GivenSecrets) -> Vec<(String, String)> {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let given = given.variables(&BTreeMap::new()).into_iter();
        given.map(|(name, value)| (text(name), text(value))).collect()
    }

    #[tokio::test]
    async fn a_session_gets_those_of_its_agent_and_those_it_was_created_with() {
        let home = tempfile::tempdir().unwrap();
        let source = |name: &str, agent: Option<&str>, value: &str| {
            let file = home.path().join(format!("{name}-{}", agent.unwrap_or("all")));
            std::fs::write(&file, value).unwrap();
            SecretSource { name: name.to_owned(), agent: agent.map(str::to_owned), file }
        };
        let sources = SecretSources::new(vec![
            source("TOKEN", None, "token-of-all\n"),
            source("TOKEN", Some("ann"), "token-of-ann"),
            source("KEY", None, "two\nlines of it\n"),
        ]);
        let one = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(variables(&sources.read(&meta(None, &[])).await.unwrap()), []);
        assert_eq!(variables(&sources.read(&meta(Some("bob"), &[])).await.unwrap()), []);
        assert_eq!(variables(&sources.read(&meta(Some("ann"), &[])).await.unwrap()), [one("TOKEN", "token-of-ann")]);
        let both = sources.read(&meta(Some("bob"), &["TOKEN", "KEY"])).await.unwrap();
        assert_eq!(variables(&both), [one("KEY", "two\nlines of it"), one("TOKEN", "token-of-all")]);
        let error = sources.read(&meta(None, &["OTHER"])).await.unwrap_err().to_string();
        assert!(error.contains("'OTHER'") && error.contains("settings"), "{error}");
    }

    #[tokio::test]
    async fn a_new_value_is_there_at_once_and_the_old_one_stays_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first-value").unwrap();
        let source = SecretSource { name: "TOKEN".to_owned(), agent: None, file: file.path().to_owned() };
        let (sources, meta) = (SecretSources::new(vec![source]), meta(None, &["TOKEN"]));
        assert_eq!(sources.known(&meta).values().collect::<Vec<_>>(), [b"first-value"]);
        std::fs::write(file.path(), "second-value").unwrap();
        let given = sources.read(&meta).await.unwrap();
        assert_eq!(variables(&given), [("TOKEN".to_owned(), "second-value".to_owned())]);
        assert_eq!(given.values().count(), 2);
        for wrong in ["", "abc", "password", "with a\0zero"] {
            std::fs::write(file.path(), wrong).unwrap();
            assert!(sources.read(&meta).await.is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_is_at_most_64_kib_and_a_line_break_does_not_count() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let most: String = ('a'..='z').cycle().take(64 << 10).collect();
        for (text, is_taken) in [(most.clone(), true), (format!("{most}\n"), true), (format!("{most}b"), false)] {
            std::fs::write(file.path(), &text).unwrap();
            assert_eq!(read(file.path()).is_ok(), is_taken, "{} bytes", text.len());
        }
    }

    /// They have no end or no writer: a daemon that reads them hangs, or fills its memory.
    #[tokio::test]
    async fn what_is_not_a_file_is_refused_without_waiting() {
        let home = tempfile::tempdir().unwrap();
        let fifo = home.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink("/dev/zero", home.path().join("device")).unwrap();
        for name in ["fifo", "device", "."] {
            let source = SecretSource { name: "TOKEN".to_owned(), agent: None, file: home.path().join(name) };
            let sources = SecretSources::new(vec![source]);
            let error = sources.read(&meta(None, &["TOKEN"])).await.unwrap_err().to_string();
            assert!(error.contains("is not a regular file"), "{name}: {error}");
        }
    }
}
