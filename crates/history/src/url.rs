//! The URLs of history.

use crate::database::DatabaseError;

/// Where history goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Into a database.
    Database,
}

/// What a URL names.
pub fn kind(url: &str) -> Result<Kind, DatabaseError> {
    match url.split_once("://") {
        Some(("postgres" | "postgresql" | "mysql" | "mariadb", rest)) if !rest.is_empty() => Ok(Kind::Database),
        _ => {
            Err(bad(url, "use postgres://USER:PASSWORD@HOST:PORT/DATABASE or mysql://USER:PASSWORD@HOST:PORT/DATABASE"))
        }
    }
}

/// A URL without its user and password, for showing.
pub fn without_login(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place)),
        None => url.to_owned(),
    }
}

pub(crate) fn bad(url: &str, reason: impl ToString) -> DatabaseError {
    DatabaseError::BadUrl { url: without_login(url), reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked_and_passwords_are_not_shown() {
        for url in ["postgres://u:p@h/d", "postgresql://h/d", "mysql://h/d", "mariadb://h/d"] {
            assert_eq!(kind(url), Ok(Kind::Database), "{url}");
        }
        for url in ["", "postgres", "postgres://", "sqlite://x", "http://u:secret@h"] {
            let error = kind(url).expect_err(url).to_string();
            assert!(error.contains("postgres://USER") && !error.contains("secret"), "{error}");
        }
        assert_eq!(without_login("mysql://u:p@ss@h:1/d"), "mysql://h:1/d");
    }
}
