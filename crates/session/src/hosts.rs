//! Which hosts the rooms of a node may connect to.

use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The longest name of a host.
const MOST_NAME_BYTES: usize = 253;

/// A host and a port that rooms may connect to: `pypi.org:443`, `*.pythonhosted.org:443` for every name below, or
/// `git.corp:22=10.0.0.7` for a host with this address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct AllowedHost {
    /// In lower case, without the star.
    name: String,
    port: u16,
    place: Place,
}

/// Where a host is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// By its name.
    Named,
    /// Every name below, by that name.
    Below,
    /// At an address that was given.
    At(IpAddr),
}

impl AllowedHost {
    /// Whether a name, in any case, is meant.
    pub fn matches(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        match name.strip_suffix(&self.name) {
            Some("") => self.place != Place::Below,
            Some(below) => self.place == Place::Below && below.ends_with('.') && below.len() > 1,
            None => false,
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address that was given, which may be a private one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.place {
            Place::At(address) => Some(address),
            Place::Named | Place::Below => None,
        }
    }
}

impl fmt::Display for AllowedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port, place } = self;
        match place {
            Place::Named => write!(f, "{name}:{port}"),
            Place::Below => write!(f, "*.{name}:{port}"),
            Place::At(address) => write!(f, "{name}:{port}={address}"),
        }
    }
}

impl FromStr for AllowedHost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not a host with a port; write NAME:PORT, *.NAME:PORT or NAME:PORT=ADDRESS, as in pypi.org:443"
            )
        };
        let (host, address) = text.trim().split_once('=').map_or((text.trim(), None), |(host, at)| (host, Some(at)));
        let address = address.map(|address| address.parse::<IpAddr>().map_err(|_| wrong())).transpose()?;
        let (name, port) = host.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
        let (name, place) = match (name.strip_prefix("*."), address) {
            (Some(name), None) => (name, Place::Below),
            (None, Some(address)) => (name, Place::At(address)),
            (None, None) => (name, Place::Named),
            (Some(_), Some(_)) => return Err(wrong()),
        };
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        if name.len() > MOST_NAME_BYTES || !name.split('.').all(is_label) {
            return Err(wrong());
        }
        Ok(Self { name: name.to_ascii_lowercase(), port, place })
    }
}

impl TryFrom<String> for AllowedHost {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_by_itself_or_with_everything_below() {
        let exact: AllowedHost = "PyPI.org:443".parse().unwrap();
        let below: AllowedHost = "*.pypi.org:443".parse().unwrap();
        for (name, is_exact, is_below) in [
            ("pypi.org", true, false),
            ("PYPI.ORG.", true, false),
            ("files.pypi.org", false, true),
            ("a.b.pypi.org", false, true),
            ("notpypi.org", false, false),
            (".pypi.org", false, false),
            ("pypi.org.evil.com", false, false),
        ] {
            assert_eq!((exact.matches(name), below.matches(name)), (is_exact, is_below), "{name}");
        }
        for text in ["pypi.org:443", "*.pypi.org:443", "git.corp:22=10.0.0.7"] {
            assert_eq!(text.parse::<AllowedHost>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_not_a_host_is_refused() {
        for text in [
            "",
            "pypi.org",
            "pypi.org:0",
            "pypi.org:99999",
            "*:443",
            "a..b:443",
            "a b:443",
            ":443",
            "*.*.x:1",
            "a:1=b",
            "*.a:1=::1",
        ] {
            assert!(text.parse::<AllowedHost>().unwrap_err().contains("NAME:PORT"), "{text}");
        }
    }
}
