//! Types of settings that are neither numbers nor text: each is written the same way in a file, in the environment and
//! on the command line.

use clap::ValueEnum;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What an answered command survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// A crash of the daemon.
    Process,
    /// A power failure.
    Power,
    /// The loss of its node, where nodes share a store.
    Node,
}

impl FromStr for Durability {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "process" => Ok(Self::Process),
            "power" => Ok(Self::Power),
            "node" => Ok(Self::Node),
            _ => Err("it is `process`, `power` or `node`"),
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "process",
            Self::Power => "power",
            Self::Node => "node",
        })
    }
}

/// What happens to services when the daemon stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum OnStop {
    /// They keep running, and the next daemon takes them over.
    Keep,
    /// They are stopped.
    Stop,
}

/// What a node does while the shared store is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum WhenAlone {
    /// Continue to serve its sessions, until another node may have taken them over.
    Serve,
    /// Start nothing new.
    Refuse,
}

/// How processes are tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Cages {
    /// With what the machine supports.
    Auto,
    /// With control groups, but as if there were no pids controller.
    NoLimits,
    /// Without control groups: with marks in the environment.
    Marks,
}

/// The log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object on each line.
    Json,
}

macro_rules! by_name {
    ($kind:ident: $($name:literal = $value:ident),*) => {
        impl FromStr for $kind {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($name => Ok(Self::$value),)*
                    _ => Err(format!("it is one of {}", [$($name),*].join(", "))),
                }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $name,)*
                })
            }
        }
    };
}

by_name!(WhenAlone: "serve" = Serve, "refuse" = Refuse);
by_name!(OnStop: "keep" = Keep, "stop" = Stop);
by_name!(LogFormat: "text" = Text, "json" = Json);
by_name!(Cages: "auto" = Auto, "no_limits" = NoLimits, "marks" = Marks);

/// A duration such as `90s`, `15min`, `2h` or `7d`; `never` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span(pub Option<Duration>);

/// The units, the largest first.
const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "never" {
            return Ok(Self(None));
        }
        let wrong = || format!("'{text}' is not a duration; use 90s, 15min, 2h or 7d, or never");
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(digits);
        let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        number.checked_mul(seconds).map(|seconds| Self(Some(Duration::from_secs(seconds)))).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(time) = self.0 else { return f.write_str("never") };
        let fits = |(_, seconds): &(&str, u64)| time.as_secs() % seconds == 0 && time.as_secs() >= *seconds;
        let (name, seconds) = UNITS.into_iter().find(fits).unwrap_or(("s", 1));
        write!(f, "{}{name}", time.as_secs() / seconds)
    }
}

/// A duration for each of some agents, as in `ci=7d,law=never`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ByAgent(pub BTreeMap<String, Span>);

impl FromStr for ByAgent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let one = |part: &str| {
            let (agent, span) =
                part.split_once('=').filter(|(agent, _)| !agent.trim().is_empty()).ok_or_else(|| {
                    format!(
                        "'{part}' is not an agent with a duration; use AGENT=TIME, as in ci=7d, separated by commas"
                    )
                })?;
            Ok((agent.trim().to_owned(), span.trim().parse()?))
        };
        text.split(',').filter(|part| !part.trim().is_empty()).map(one).collect::<Result<_, _>>().map(Self)
    }
}

impl TryFrom<String> for ByAgent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl fmt::Display for ByAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.0.iter().map(|(agent, span)| format!("{agent}={span}")).collect();
        f.write_str(&parts.join(","))
    }
}

/// Refuses what is not the form of an address to listen on. The system has other words for it, which name no form.
pub(super) fn check_listen(address: &str) -> Result<(), String> {
    let is_whole = |(host, port): (&str, &str)| !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok();
    if address.rsplit_once(':').is_some_and(is_whole) {
        return Ok(());
    }
    Err(format!(
        "listen is '{address}'; it must be HOST:PORT, as in 127.0.0.1:7433, or 0.0.0.0:7433 for all addresses of this machine"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were "invalid socket address" or "failed to lookup address information".
    #[test]
    fn an_address_to_listen_on_has_a_host_and_a_port() {
        for right in ["127.0.0.1:0", "localhost:7433", "[::1]:7433", "0.0.0.0:65535"] {
            assert_eq!(check_listen(right), Ok(()));
        }
        for wrong in
            ["", "abc", ":17960", "17960", "127.0.0.1", "h:", "h:65536", "http://127.0.0.1:80", "http://h", "unix:/s"]
        {
            assert!(check_listen(wrong).unwrap_err().contains("it must be HOST:PORT"), "{wrong}");
        }
    }

    #[test]
    fn durations_by_agent_are_written_as_they_are_read() {
        for (text, shown) in [("", ""), ("ci=7d", "ci=7d"), ("law = never , ci=7d,", "ci=7d,law=never")] {
            assert_eq!(text.parse::<ByAgent>().unwrap().to_string(), shown);
        }
        for wrong in ["ci", "=7d", "ci=7", "ci=7d;law=never"] {
            assert!(wrong.parse::<ByAgent>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["0s", "90s", "15min", "2h", "7d", "never"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for wrong in ["", "2", "h", "2 h", "-1s", "2weeks", "99999999999999999999d", "184467440737095516d"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
