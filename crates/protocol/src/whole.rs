//! Whole numbers in bodies. JSON has one kind of number, and some clients write `3.0` for three.

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;

/// Up to here a floating point number represents every whole number exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a whole number")]
enum Number {
    Whole(u64),
    Float(f64),
}

impl Number {
    fn whole<E: serde::de::Error>(self) -> Result<u64, E> {
        match self {
            Self::Whole(number) => Ok(number),
            Self::Float(number) if number.fract() == 0.0 && (0.0..=EXACT).contains(&number) => Ok(number as u64),
            Self::Float(number) => {
                // As it was written: `Unexpected::Float` says "floating point `-1.0`" for -1.
                Err(E::invalid_value(Unexpected::Other(&number.to_string()), &"a whole number that is not negative"))
            }
        }
    }
}

/// Reads a number.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Number::deserialize(deserializer)?.whole()
}

/// Reads a small number.
pub(crate) fn small<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let number = number(deserializer)?;
    u16::try_from(number).map_err(|_| D::Error::custom(format!("{number} is too large")))
}

/// Reads a map of numbers; `null` is none.
pub(crate) fn by_name<'de, D>(deserializer: D) -> Result<BTreeMap<String, Option<u64>>, D::Error>
where
    D: Deserializer<'de>,
{
    let read = BTreeMap::<String, Option<Number>>::deserialize(deserializer)?;
    let whole = |(name, number): (String, Option<Number>)| match number.map(Number::whole::<D::Error>).transpose() {
        Ok(number) => Ok((name, number)),
        Err(error) => Err(D::Error::custom(format!("{name}: {error}"))),
    };
    read.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Place, QuotasRequest, TerminalSize};

    #[test]
    fn three_is_three_however_it_is_written() {
        assert_eq!(serde_json::from_str::<Place>("3.0").unwrap(), Place::Seq(3));
        assert_eq!(serde_json::from_str::<Place>("18446744073709551615").unwrap(), Place::Seq(u64::MAX));
        assert_eq!(serde_json::from_str::<Place>("\"r3\"").unwrap(), Place::Name("r3".to_owned()));
        for wrong in ["3.5", "-1", "-1.0", "1e300", "true", "null"] {
            assert!(serde_json::from_str::<Place>(wrong).is_err(), "{wrong}");
        }
        let quotas: QuotasRequest = serde_json::from_str(r#"{"processes": 10.0, "services": null}"#).unwrap();
        assert_eq!((quotas.0["processes"], quotas.0["services"]), (Some(10), None));
        assert!(serde_json::from_str::<QuotasRequest>(r#"{"processes": 1.5}"#).is_err());
        let negative = serde_json::from_str::<QuotasRequest>(r#"{"processes": -1}"#).unwrap_err().to_string();
        let told = "processes: invalid value: -1, expected a whole number that is not negative";
        assert!(negative.starts_with(told), "{negative}");
        let wide = serde_json::from_str::<TerminalSize>(r#"{"rows": 24.0, "cols": 70000}"#).unwrap_err().to_string();
        assert!(wide.starts_with("70000 is too large"), "{wide}");
    }
}
