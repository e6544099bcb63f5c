//! Which bucket a URL names: `s3://BUCKET[/PREFIX][?region=REGION][&endpoint=URL]`. What it leaves out, and the credentials,
//! are in the variables of the environment that the tools of AWS read.

use rusty_s3::{Bucket, Credentials, UrlStyle};
use url::Url;

/// The region of stores that have none.
const ANY_REGION: &str = "us-east-1";

/// Why a URL names no bucket that can be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadAddress(String);

/// A bucket, with what is needed to open it.
pub struct Address {
    pub(crate) bucket: Bucket,
    pub(crate) credentials: Credentials,
    /// What the names of all objects begin with; empty, or with a slash at its end.
    pub(crate) prefix: String,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Address({}{})", self.bucket.base_url(), self.prefix)
    }
}

impl Address {
    /// Reads a URL. `variable` tells variables of the environment; one that is empty is not set.
    pub fn parse(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, BadAddress> {
        let bad = |reason: String| BadAddress(reason);
        let rest = url.strip_prefix("s3://").ok_or_else(|| bad("it does not begin with s3://".to_owned()))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (name, prefix) = place.split_once('/').unwrap_or((place, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(bad("it names no bucket; use s3://BUCKET/PREFIX".to_owned()));
        }
        let prefix = prefix.trim_end_matches('/');
        if prefix.split('/').any(|part| matches!(part, "." | "..")) || prefix.contains("//") {
            return Err(bad(format!("'{prefix}' is not a prefix of names")));
        }
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let set = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.is_empty()));
        let mut endpoint = set(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]);
        let mut region = set(&["AWS_REGION", "AWS_DEFAULT_REGION"]);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("endpoint", value)) => endpoint = Some(value.to_owned()),
                Some(("region", value)) => region = Some(value.to_owned()),
                _ => return Err(bad(format!("'{pair}' is not region=REGION or endpoint=URL"))),
            }
        }
        let (endpoint, style, region) = match (endpoint, region) {
            (Some(endpoint), region) => (endpoint, UrlStyle::Path, region.unwrap_or_else(|| ANY_REGION.to_owned())),
            (None, Some(region)) => {
                // The certificate of AWS is for one label before the region.
                let style = if name.contains('.') { UrlStyle::Path } else { UrlStyle::VirtualHost };
                (format!("https://s3.{region}.amazonaws.com"), style, region)
            }
            (None, None) => return Err(bad("it has no region; add ?region=REGION, or set AWS_REGION".to_owned())),
        };
        let endpoint = Url::parse(&endpoint).map_err(|error| bad(format!("endpoint '{endpoint}': {error}")))?;
        let bucket = Bucket::new(endpoint.clone(), style, name.to_owned(), region);
        let bucket = bucket.map_err(|_| bad(format!("endpoint '{endpoint}' is not a URL with http:// or https://")))?;
        let needed = |name: &str| set(&[name]).ok_or_else(|| bad(format!("{name} is not set")));
        let (key, secret) = (needed("AWS_ACCESS_KEY_ID")?, needed("AWS_SECRET_ACCESS_KEY")?);
        let credentials = match set(&["AWS_SESSION_TOKEN"]) {
            Some(token) => Credentials::new_with_token(key, secret, token),
            None => Credentials::new(key, secret),
        };
        Ok(Self { bucket, credentials, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, more: &[(&str, &str)]) -> Result<Address, BadAddress> {
        let keys = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "horse")];
        let all: Vec<(&str, &str)> = more.iter().copied().chain(keys).collect();
        Address::parse(url, |name| all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_url_names_a_bucket_a_prefix_and_where_they_are() {
        let told = |url: &str, more: &[(&str, &str)]| {
            let address = parse(url, more).unwrap();
            assert!(!format!("{address:?}").contains("horse"));
            (address.bucket.base_url().to_string(), address.bucket.region().to_owned(), address.prefix)
        };
        let at = |base: &str, region: &str, prefix: &str| (base.to_owned(), region.to_owned(), prefix.to_owned());
        let region = [("AWS_REGION", "eu-west-1")];
        let expected = at("https://b.s3.eu-west-1.amazonaws.com/", "eu-west-1", "");
        assert_eq!(told("s3://b", &region), expected);
        let expected = at("https://s3.eu-west-1.amazonaws.com/b.c/", "eu-west-1", "a/b/");
        assert_eq!(told("s3://b.c/a/b/", &region), expected);
        let expected = at("http://127.0.0.1:9000/b/", "us-east-1", "x/");
        assert_eq!(told("s3://b/x?endpoint=http://127.0.0.1:9000", &[]), expected);
        assert_eq!(told("s3://b/x", &[("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")]), expected);
        assert_eq!(told("s3://b?region=r1&endpoint=https://h", &region), at("https://h/b/", "r1", ""));
    }

    #[test]
    fn a_url_that_names_none_says_why() {
        for (url, reason) in [
            ("s3://", "names no bucket"),
            ("s3://b", "AWS_REGION"),
            ("s3://b?endpoint=ftp://h", "http://"),
            ("s3://b?zone=1", "'zone=1'"),
            ("s3://b/../c?region=r", "prefix"),
        ] {
            let error = parse(url, &[]).unwrap_err().to_string();
            assert!(error.contains(reason), "{url}: {error}");
        }
        let error = Address::parse("s3://b?region=r", |_| None).unwrap_err().to_string();
        assert!(error.contains("AWS_ACCESS_KEY_ID"), "{error}");
    }
}
