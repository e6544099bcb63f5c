//! Which locale the variables of a shell name. Loading one is the most expensive part of becoming a session, so the zygote
//! has the usual one loaded.

use crate::facts::{Fact, attribute};

const ALL: &[u8] = b"LC_ALL";
const REST: &[u8] = b"LANG";
/// How the names of those begin that are for one thing, such as `LC_TIME`.
const ONE: &[u8] = b"LC_";

/// The locale that these variables name for everything. None if they name none, or another one for something.
pub fn named<'a>(variables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Option<&'a [u8]> {
    let (mut all, mut rest, mut is_mixed) = (None, None, false);
    for (name, value) in variables.into_iter().filter(|(_, value)| !value.is_empty()) {
        match name {
            ALL => all = Some(value),
            REST => rest = Some(value),
            _ => is_mixed |= name.starts_with(ONE),
        }
    }
    all.or(rest.filter(|_| !is_mixed))
}

/// The same for the variables of a state.
pub(crate) fn named_in(facts: &[Fact]) -> Option<&[u8]> {
    named(facts.iter().filter_map(|fact| match fact {
        Fact::Scalar { name, attributes, value } if attributes & attribute::NAMEREF == 0 => {
            Some((name.as_slice(), value.as_slice()))
        }
        // What bash makes of those is not for us to say.
        Fact::Scalar { name, .. } | Fact::Array { name, .. } | Fact::Map { name, .. } | Fact::Declared { name, .. } => {
            let is_locale = name == REST || name.starts_with(ONE);
            is_locale.then_some((ONE, b"?".as_slice()))
        }
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_names_the_locale_for_everything() {
        let table = [
            ("", None),
            ("HOME=/x LANG=a", Some("a")),
            ("LANG=a LC_ALL=b", Some("b")),
            ("LANG=a LC_ALL=", Some("a")),
            ("LANG=a LC_TIME=b", None),
            ("LC_TIME=b LC_ALL=c", Some("c")),
            ("LANGUAGE=a", None),
        ];
        for (variables, expected) in table {
            let split = variables.split_whitespace().filter_map(|word| word.split_once('='));
            let named = named(split.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
            assert_eq!(named, expected.map(str::as_bytes), "{variables}");
        }
    }

    #[test]
    fn what_is_not_a_plain_variable_names_none() {
        let lang = |attributes| Fact::Scalar { name: b"LANG".to_vec(), attributes, value: b"a".to_vec() };
        let list = Fact::Array { name: b"LC_CTYPE".to_vec(), attributes: attribute::ARRAY, elements: Vec::new() };
        assert_eq!(named_in(&[lang(attribute::EXPORTED)]), Some(b"a".as_slice()));
        assert_eq!(named_in(&[lang(attribute::NAMEREF)]), None);
        assert_eq!(named_in(&[lang(0), list]), None);
    }
}
