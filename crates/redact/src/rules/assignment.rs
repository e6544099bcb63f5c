//! Values whose names look secret: `PASSWORD=…`, `"api_key": "…"`, `--token …`, `X-Api-Key: …`, `<secret>…</secret>`.

use crate::class::{BARE, Class, ENV_BARE, NAME, SPACE};
use crate::found::Found;
use crate::names::{self, Kind};
use crate::rules::value::{self, Manner, Opening};
use crate::rules::{Rule, header};
use crate::view::View;

/// What every secret name has in it.
pub(crate) const KEYWORDS: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "cred",
    "jwt",
    "psk",
    "signature",
    "_pw",
    "_pat",
    "_sig",
    "sas",
    "cookie",
];

/// Longest name, to each side of its keyword.
const LENGTH: usize = 64;
/// Most spaces around a separator: tables of settings are aligned.
const SPACES: usize = 24;

/// The value of the name around the keyword between `start` and `end`.
pub(crate) fn keyword(view: &View, start: usize, end: usize) -> Option<Found> {
    if end <= view.name_end().get() {
        return None;
    }
    let stop = view.run(end, &NAME, LENGTH);
    view.name_end().set(stop);
    if stop - end == LENGTH {
        return None;
    }
    let separator = Separator::after(view, stop)?;
    let begin = name_start(view, start);
    let name = view.slice(begin, stop);
    let kind = names::classify(name);
    view.count(names::EFFORT);
    if kind == Kind::Plain || !separator.fits(view, begin, name) {
        return None;
    }
    let manner = separator.manner(view, begin, name);
    let bare: &'static Class = if manner == Manner::Environment { &ENV_BARE } else { &BARE };
    let opening = Opening::at(view, separator.value, bare);
    let found = match kind {
        Kind::Plain => false,
        Kind::Weak => value::weak(view, &opening),
        Kind::Strong => value::strong(view, &opening, manner),
        Kind::Authorization => return header::authorization(view, &opening),
        Kind::Cookie => return header::cookie(view, &opening),
    };
    (found && view.rules().has(Rule::Assignment)).then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}

/// Where a name begins: not in the escape sequence before it.
fn name_start(view: &View, keyword: usize) -> usize {
    view.without_escape(view.back(keyword, &NAME, LENGTH), keyword + 1)
}

/// What stands between a name and its value.
struct Separator {
    sign: Sign,
    /// Whether there is no space in it.
    tight: bool,
    /// Where the value, or the quote before it, begins.
    value: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Equals,
    Colon,
    Space,
    /// The `>` of `<name>`.
    Element,
}

impl Separator {
    /// The separator behind a name that ends at `end`.
    fn after(view: &View, end: usize) -> Option<Self> {
        let name_end = closing_quote(view, colours(view, end));
        let at = view.run(name_end, &SPACE, SPACES);
        let second = view.at(at + 1);
        let (sign, next) = match view.at(at)? {
            b'=' if matches!(second, Some(b'=' | b'~')) => return None,
            b'=' if second == Some(b'>') => (Sign::Equals, at + 2),
            b'=' => (Sign::Equals, at + 1),
            b':' if matches!(second, Some(b':' | b'?')) => return None,
            b':' if second == Some(b'=') => (Sign::Equals, at + 2),
            b':' => (Sign::Colon, at + 1),
            b'%' if view.is_any_case(at, b"%3d") || view.is_any_case(at, b"%3a") => (Sign::Equals, at + 3),
            b'>' if at == end => (Sign::Element, at + 1),
            _ if at > name_end => (Sign::Space, at),
            _ => return None,
        };
        let value = view.run(colours(view, next), &SPACE, SPACES);
        Some(Self { sign, tight: at == name_end && value == next, value })
    }

    /// Whether this may stand behind a name of this kind.
    fn fits(&self, view: &View, begin: usize, name: &[u8]) -> bool {
        match self.sign {
            Sign::Equals | Sign::Colon => true,
            Sign::Element => view.before(begin) == Some(b'<'),
            Sign::Space => {
                let quoted = || Opening::at(view, self.value, &BARE).is_single_quoted();
                let flag = is_flag(name) && view.at(self.value) != Some(b'-');
                let password = name.eq_ignore_ascii_case(b"password");
                flag || (password && (quoted() || after_login(view, begin)))
            }
        }
    }

    fn manner(&self, view: &View, begin: usize, name: &[u8]) -> Manner {
        let capitals = || name.iter().all(|byte| !byte.is_ascii_lowercase());
        let login = || self.sign == Sign::Space && after_login(view, begin);
        match self.sign {
            Sign::Element => Manner::Element,
            _ if is_flag(name) || login() => Manner::Flag,
            Sign::Equals if self.tight && capitals() => Manner::Environment,
            Sign::Equals if self.tight => Manner::Tight,
            _ => Manner::Loose,
        }
    }
}

/// Whether a name is a flag of a command: `--token`.
fn is_flag(name: &[u8]) -> bool {
    name.starts_with(b"--")
}

/// Whether `login NAME` stands before, as in `.netrc`.
fn after_login(view: &View, begin: usize) -> bool {
    let user_end = view.back(begin, &SPACE, 8);
    let user = view.back(user_end, &BARE_NO_STAR, 64);
    let login = view.back(user, &SPACE, 8);
    user_end < begin && user < user_end && login < user && view.ends(login, b"login")
}

static BARE_NO_STAR: Class = Class::visible_but(b" \"'`\\,;&|<>()[]{}*");

/// Behind the quote that closes a name, and the bracket around it: `["password"]`, `\"password\"`.
fn closing_quote(view: &View, at: usize) -> usize {
    let is_quote = |at: usize| matches!(view.at(at), Some(b'"' | b'\'' | b'`'));
    let quote = match view.at(at) {
        Some(b'\\') if is_quote(at + 1) => at + 2,
        Some(_) if is_quote(at) => at + 1,
        _ => at,
    };
    if quote > at && view.at(quote) == Some(b']') { quote + 1 } else { quote }
}

/// Behind the terminal's control sequences at `at`: `grep` colours what it found, and that may be the name.
fn colours(view: &View, at: usize) -> usize {
    const MOST: usize = 3;
    let mut at = at;
    for _ in 0..MOST {
        if !view.is(at, b"\x1b[") {
            break;
        }
        let end = view.run(at + 2, &PARAMETERS, 12);
        at = end + usize::from(view.at(end).is_some_and(|byte| byte.is_ascii_alphabetic()));
    }
    at
}

static PARAMETERS: Class = Class::of(b"0-9;?");

/// A password in SQL, behind `IDENTIFIED BY` that ends at `end`.
pub(crate) fn identified_by(view: &View, start: usize, end: usize) -> Option<Found> {
    let opening = Opening::at(view, view.run(end, &SPACE, 4), &BARE);
    let found = view.boundary(start) && opening.is_single_quoted() && value::credentials(view, &opening);
    (found && view.rules().has(Rule::Assignment)).then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}
