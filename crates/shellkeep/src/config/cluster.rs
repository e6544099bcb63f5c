//! The settings of a node among others, and what the URL of a shared store means.

use crate::failure::Failure;

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
    fn names_and_urls_are_checked_and_passwords_are_not_shown() {
        assert!(check("n-1.example_org", "").is_ok() && check("n", "http://10.0.0.5:7433").is_ok());
        assert!(check("", "").is_err() && check("a b", "").is_err() && check(&"x".repeat(65), "").is_err());
        assert!(check("n", "10.0.0.5:7433").is_err() && check("n", "http://").is_err());
        assert!(check(&host_name(), "").is_ok());
        assert_eq!(without_login("redis://u:secret@h:1/2"), "redis://h:1/2");
        assert_eq!(without_login("file://a@b"), "file://a@b");
    }
}
