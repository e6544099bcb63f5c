//! The settings of a node among others, and what the URL of a shared store means.

use super::values::Durability;
use crate::failure::Failure;
use std::path::{Path, PathBuf};

/// Longest name of a node: it is part of every claim and of keys.
const MOST_NAME: usize = 64;

/// Refuses a node's name or URL that others could not use.
pub(super) fn check(name: &str, advertise: &str) -> Result<(), Failure> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if name.is_empty() || name.len() > MOST_NAME || !name.bytes().all(is_plain) {
        let message = format!("node is '{name}'; it must be 1 to {MOST_NAME} of letters, digits and . - _");
        return Err(Failure::start(message));
    }
    if !advertise.is_empty() && advertise.strip_prefix("http://").is_none_or(str::is_empty) {
        let message = format!("advertise is '{advertise}'; it must be a URL such as http://10.0.0.5:7433");
        return Err(Failure::start(message));
    }
    Ok(())
}

/// The shortest secret of a cluster: shorter ones can be guessed.
const LEAST_SECRET: usize = 16;

/// The secret that all nodes of a cluster have: from the environment or a file. Without either it is the host token, which
/// all nodes have as well.
pub fn secret(variable: Option<&String>, file: Option<&Path>, token: &str) -> Result<String, Failure> {
    let (secret, whose) = match (variable, file) {
        (Some(secret), _) => (secret.clone(), "SHELLKEEP_CLUSTER_SECRET".to_owned()),
        (None, Some(path)) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::start(format!("cannot read {} (cluster_secret_file): {error}", path.display()))
            })?;
            (text.trim().to_owned(), format!("the cluster secret in {}", path.display()))
        }
        (None, None) => return Ok(token.to_owned()),
    };
    if secret.len() < LEAST_SECRET {
        let advice = "use a longer one, for example from `openssl rand -hex 32`, the same on all nodes";
        return Err(Failure::start(format!("{whose} has fewer than {LEAST_SECRET} characters; {advice}")));
    }
    Ok(secret)
}

/// Where the URL of blobs leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobsUrl {
    /// To a directory on a file system that all nodes mount.
    Directory(PathBuf),
    /// To a bucket of S3, by this URL.
    Bucket(String),
}

/// Where the URL of blobs leads; none if there is none. A directory must be absolute, and other nodes must exist.
pub(super) fn blobs(url: &str, store: &str) -> Result<Option<BlobsUrl>, Failure> {
    if url.is_empty() {
        return Ok(None);
    }
    let place = match url.split_once("://") {
        Some(("file", path)) if path.starts_with('/') && path.len() > 1 => BlobsUrl::Directory(PathBuf::from(path)),
        Some(("s3", _)) if cfg!(feature = "s3") => BlobsUrl::Bucket(url.to_owned()),
        Some(("s3", _)) => {
            let message = "blobs is an s3:// URL, which this program was built without; build it with `--features s3`, or use \
                           a directory that all nodes share, such as file:///mnt/shellkeep";
            return Err(Failure::start(message));
        }
        _ => {
            let message = format!(
                "blobs is '{url}'; it must be a directory on a file system that all nodes share, such as \
                 file:///mnt/shellkeep, or a bucket such as s3://BUCKET/PREFIX"
            );
            return Err(Failure::start(message));
        }
    };
    if !shellkeep_shared::is_shared(store) {
        let message = "blobs is for nodes that share a store; use --store redis://HOST:PORT, or remove blobs";
        return Err(Failure::start(message));
    }
    Ok(Some(place))
}

/// Refuses a promise that needs other nodes where there are none.
pub(super) fn durability(durability: Durability, store: &str) -> Result<(), Failure> {
    if durability == Durability::Node && !shellkeep_shared::is_shared(store) {
        let message = "durability is 'node', which needs a store that nodes share; use --store redis://HOST:PORT, or set \
                       durability to 'process' or 'power'";
        return Err(Failure::start(message));
    }
    Ok(())
}

/// A store's URL without its password.
pub(super) fn without_login(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) if shellkeep_shared::is_shared(url) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
        }
        _ => url.to_owned(),
    }
}

/// The machine's name, in the letters that a node's name may have.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let plain = |char: char| if char.is_ascii_alphanumeric() || ".-_".contains(char) { char } else { '-' };
    let name: String = name.trim().chars().map(plain).take(MOST_NAME).collect();
    if name.is_empty() { "node".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_its_node_only_where_nodes_share_a_store() {
        for durability in [Durability::Process, Durability::Power, Durability::Node] {
            assert!(super::durability(durability, "redis://h:1").is_ok());
            let alone = super::durability(durability, "sqlite:///d/shellkeep.db");
            assert_eq!(alone.is_err(), durability == Durability::Node);
        }
    }

    #[test]
    fn names_and_urls_are_checked_and_passwords_are_not_shown() {
        assert!(check("n-1.example_org", "").is_ok() && check("n", "http://10.0.0.5:7433").is_ok());
        assert!(check("", "").is_err() && check("a b", "").is_err() && check(&"x".repeat(65), "").is_err());
        assert!(check("n", "10.0.0.5:7433").is_err() && check("n", "http://").is_err());
        assert!(check(&host_name(), "").is_ok());
        let redis = "redis://h:1";
        assert!(matches!(blobs("", "memory://"), Ok(None)));
        assert_eq!(blobs("file:///mnt/x", redis).ok().flatten(), Some(BlobsUrl::Directory(PathBuf::from("/mnt/x"))));
        assert_eq!(blobs("s3://b", redis).is_ok(), cfg!(feature = "s3"));
        for (url, store) in
            [("s3://b", "memory://"), ("file://x", redis), ("file:///", redis), ("file:///x", "memory://")]
        {
            assert!(blobs(url, store).is_err(), "{url} {store}");
        }
        assert_eq!(without_login("redis://u:secret@h:1/2"), "redis://h:1/2");
        assert_eq!(without_login("file://a@b"), "file://a@b");
    }

    #[test]
    fn the_secret_comes_from_the_environment_a_file_or_the_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("secret");
        std::fs::write(&file, "from-a-file-of-enough-length\n").unwrap();
        let given = "from-the-environment".to_owned();
        assert_eq!(secret(Some(&given), Some(&file), "token").unwrap(), given);
        assert_eq!(secret(None, Some(&file), "token").unwrap(), "from-a-file-of-enough-length");
        assert_eq!(secret(None, None, "token").unwrap(), "token");
        assert!(secret(Some(&"short".to_owned()), None, "token").is_err());
        assert!(secret(None, Some(&directory.path().join("none")), "token").is_err());
    }
}
