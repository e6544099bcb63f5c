//! Which users of the machine are for agents, in the sandbox `user`.

use serde::Deserialize;
use std::fmt;
use std::str::FromStr;

/// Below are the users of the system.
const FIRST: u32 = 1000;
/// `nobody`, and the number that means no user in 16 bits.
const NOBODIES: [u32; 2] = [65534, 65535];

/// Numbers of users that are for agents, from the first to the last: `200000-265535`. A group has the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UserRange {
    first: u32,
    last: u32,
}

impl UserRange {
    /// The lowest.
    pub fn first(self) -> u32 {
        self.first
    }

    /// The highest.
    pub fn last(self) -> u32 {
        self.last
    }

    /// Whether a user is one of them.
    pub fn contains(self, user: u32) -> bool {
        (self.first..=self.last).contains(&user)
    }
}

impl Default for UserRange {
    /// Eight million that neither distributions nor container engines nor systemd give to anyone.
    fn default() -> Self {
        Self { first: 1_879_048_192, last: 1_887_436_799 }
    }
}

impl fmt::Display for UserRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl FromStr for UserRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let range = text.split_once('-').and_then(|(first, last)| {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(Self { first, last })
        });
        let Some(range) = range else {
            return Err(format!("'{text}' is not a range of users; write the first and the last, as in 200000-265535"));
        };
        if range.first < FIRST || range.last == u32::MAX || NOBODIES.into_iter().any(|user| range.contains(user)) {
            return Err(format!(
                "'{text}' has users of the system: use numbers from {FIRST} on, without 65534 and 65535"
            ));
        }
        Ok(range)
    }
}

impl TryFrom<String> for UserRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_back_and_users_of_the_system_are_never_in_one() {
        let range: UserRange = "200000-265535".parse().unwrap();
        assert_eq!((range.first(), range.last(), range.to_string().parse()), (200_000, 265_535, Ok(range)));
        assert!(range.contains(265_535) && !range.contains(199_999));
        assert_eq!(UserRange::default().to_string().parse(), Ok(UserRange::default()));
        for wrong in ["", "5", "9-5", "a-b", "0-2000", "999-2000", "60000-70000", "2000-4294967295", "-1-5"] {
            assert!(wrong.parse::<UserRange>().is_err(), "{wrong}");
        }
    }
}
