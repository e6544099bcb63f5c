//! What is named on the command line: a session of the daemon, a session's directory, or an exported file.

use crate::failure::Failure;
use shellkeep_session::SessionId;
use std::path::PathBuf;

/// A recording by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A session of the daemon.
    Session(SessionId),
    /// A directory or a file on this machine.
    Path(PathBuf),
}

impl Target {
    /// A text that contains a slash or ends like an export is a path; anything else is the name of a session. So a file
    /// with the name of a session changes nothing.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.contains('/') || text.ends_with(".jsonl") {
            let path = PathBuf::from(text);
            return match path.exists() {
                true => Ok(Self::Path(path)),
                false => Err(Failure::client(format!("there is no file or directory {text}"))),
            };
        }
        let wrong = |error| Failure::client(format!("{error}; for a file or a directory write ./{text}"));
        SessionId::parse(text).map(Self::Session).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_looks_like_one() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("demo.jsonl");
        let text = file.to_str().unwrap();
        assert_eq!(Target::parse(text).unwrap_err().to_string(), format!("there is no file or directory {text}"));
        std::fs::write(&file, "").unwrap();
        assert_eq!(Target::parse(text).unwrap(), Target::Path(file.clone()));
        assert!(Target::parse("./no-demo").is_err() && Target::parse("no-demo.jsonl").is_err());
        assert_eq!(Target::parse("demo").unwrap(), Target::Session(SessionId::parse("demo").unwrap()));
        assert!(Target::parse("de mo").is_err());
    }
}
