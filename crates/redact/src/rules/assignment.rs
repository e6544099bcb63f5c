//! Values whose names look secret: `PASSWORD=…`, `"api_key": "…"`, `--token …`, `X-Api-Key: …`, `<secret>…</secret>`.

use crate::class::{BARE, Class, ENV_BARE, LETTER, NAME, SPACE};
use crate::found::Found;
use crate::names::{self, Kind};
use crate::rules::value::{self, Manner, Opening};
use crate::rules::{Rule, header};
use crate::view::{LOOK_BACK, View};

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
    "bindpw",
    "rootpw",
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
    let kind = classify(view, begin, name);
    if kind == Kind::Plain || !separator.fits(view, begin, name) {
        return None;
    }
    let manner = separator.manner(view, begin, name);
    let bare: &'static Class = if manner == Manner::Environment { &ENV_BARE } else { &BARE };
    let typed = if matches!(kind, Kind::Weak | Kind::Strong) { separator.behind_type(view) } else { None };
    let opening = Opening::at(view, typed.unwrap_or(separator.value), bare);
    let found = match kind {
        Kind::Weak | Kind::Strong
            if separator.sign == Sign::Equals && opening.is_bare() && is_bound(view, begin, stop) =>
        {
            false
        }
        Kind::Authorization | Kind::Cookie if separator.sign == Sign::Call => false,
        Kind::Weak | Kind::Strong if separator.sign == Sign::Is => value::told(view, &opening),
        Kind::Plain => false,
        Kind::Weak => value::weak(view, &opening),
        Kind::Strong => value::strong(view, &opening, manner),
        Kind::Authorization => return header::authorization(view, &opening),
        Kind::Cookie => return header::cookie(view, &opening),
    };
    let assigned = found && (manner == Manner::Environment || !is_itself(view, name, opening.value));
    (assigned && view.rules().has(Rule::Assignment))
        .then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}

/// Whether the value is the name once more, as in `self.cookie2 = cookie2` and `signature = asn1.signature`.
fn is_itself(view: &View, name: &[u8], value: usize) -> bool {
    let last = memchr::memrchr(b'.', name).map_or(name, |dot| &name[dot + 1..]);
    let stop = view.run(value, &NAME, LENGTH + 32);
    let path = view.slice(value, stop);
    path.strip_suffix(last).is_some_and(|before| before.is_empty() || before.ends_with(b"."))
}

/// Whether source code binds the name between `begin` and `stop` to a value, as in `let name = …`: what has no quotes there
/// is an expression. A flag of a command is none (`-var name=…`), and neither is what a shell assigns (`let name=…`).
fn is_bound(view: &View, begin: usize, stop: usize) -> bool {
    let words: &[&[u8]] = &[b"let ", b"let mut ", b"const ", b"var ", b"val "];
    let is_keyword = |start: usize| view.boundary(start) && view.before(start) != Some(b'-');
    view.at(stop) == Some(b' ') && words.iter().any(|word| view.ends(begin, word) && is_keyword(begin - word.len()))
}

/// Whether a name is that of a method that sets something: `setPassword`, `user.set_password`, `withApiKey`.
fn is_setter(name: &[u8]) -> bool {
    let method = memchr::memrchr(b'.', name).map_or(name, |dot| &name[dot + 1..]);
    let sets = |verb: &[u8]| {
        let rest = method.get(..verb.len()).filter(|begins| begins.eq_ignore_ascii_case(verb));
        rest.is_some() && method.get(verb.len()).is_some_and(|next| next.is_ascii_uppercase() || *next == b'_')
    };
    sets(b"set") || sets(b"with")
}

/// What a name says about its value. A key has the decisive word before it: `API key`.
fn classify(view: &View, begin: usize, name: &[u8]) -> Kind {
    view.count(names::EFFORT);
    let before = begin.saturating_sub(1);
    if !name.eq_ignore_ascii_case(b"key") || view.before(begin) != Some(b' ') {
        return names::classify(name);
    }
    let start = view.back(before, &LETTER, 12);
    let known = view.boundary(start) && names::classify(view.slice(start, begin + name.len())) == Kind::Strong;
    if known { Kind::Weak } else { Kind::Plain }
}

/// Where a name begins: not in the escape sequence before it.
fn name_start(view: &View, keyword: usize) -> usize {
    view.without_escape(view.back(keyword, &NAME, LENGTH), keyword + 1)
}

/// What is between a name and its value.
pub(crate) struct Separator {
    pub(crate) sign: Sign,
    /// Whether there is no space in it.
    tight: bool,
    /// Where the value, or the quote before it, begins.
    pub(crate) value: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Equals,
    Colon,
    Space,
    /// The `is` of a sentence.
    Is,
    /// The `>` of `<name>`.
    Element,
    /// The parenthesis of a call, and a quote.
    Call,
}

impl Separator {
    /// The separator behind a name that ends at `end`.
    pub(crate) fn after(view: &View, end: usize) -> Option<Self> {
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
            b'(' if at == end && matches!(second, Some(b'"' | b'\'')) => (Sign::Call, at + 1),
            0xef if view.is(at, "：".as_bytes()) => (Sign::Colon, at + "：".len()),
            _ => match behind_is(view, at) {
                Some(next) => (Sign::Is, next),
                None if at > name_end => (Sign::Space, at),
                None => return None,
            },
        };
        let value = view.run(colours(view, next), &SPACE, SPACES);
        Some(Self { sign, tight: at == name_end && value == next, value })
    }

    /// Whether this may stand behind a name of this kind.
    fn fits(&self, view: &View, begin: usize, name: &[u8]) -> bool {
        match self.sign {
            Sign::Equals | Sign::Colon | Sign::Is => true,
            Sign::Element => view.before(begin) == Some(b'<'),
            Sign::Call => is_setter(name),
            Sign::Space => {
                let quoted = || Opening::at(view, self.value, &BARE).is_single_quoted();
                let flag = is_flag(view, begin, name) && view.at(self.value) != Some(b'-');
                let password = name.eq_ignore_ascii_case(b"password");
                flag || (password && (quoted() || login(view, begin).is_some())) || self.is_setting(view, begin, name)
            }
        }
    }

    /// Where the value begins if the type of the name stands before it: `name: string = "…"`.
    fn behind_type(&self, view: &View) -> Option<usize> {
        const ALTERNATIVES: usize = 4;
        let mut at = Some(self.value).filter(|_| self.sign == Sign::Colon)?;
        for _ in 0..ALTERNATIVES {
            let word = if view.is(at, STATIC) { at + STATIC.len() } else { at };
            let stop = view.run(word, &TYPE, 48);
            let sign = view.run(stop, &SPACE, 2);
            match view.at(sign).filter(|_| stop > word)? {
                b'|' => at = view.run(sign + 1, &SPACE, 2),
                b'=' => {
                    let value = view.run(sign + 1, &SPACE, 2);
                    return (!Opening::at(view, value, &BARE).is_bare()).then_some(value);
                }
                _ => return None,
            }
        }
        None
    }

    /// Whether a line of its own says `password VALUE`, as in the settings of many programs.
    fn is_setting(&self, view: &View, begin: usize, name: &[u8]) -> bool {
        let names: &[&[u8]] =
            &[b"password", b"passwd", b"passphrase", b"requirepass", b"masterauth", b"bindpw", b"rootpw"];
        let line = view.back(begin, &SPACE, 32);
        let begins = matches!(view.before(line), None | Some(b'\n'))
            && names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let stop = view.run(self.value, &BARE_NO_STAR, 64);
        let end = view.run(stop, &SPACE, 8);
        let ends = view.at(end).is_none_or(|byte| byte == b'\r') && !view.is_open(end);
        begins && ends && !view.slice(self.value, stop).iter().all(u8::is_ascii_alphabetic)
    }

    fn manner(&self, view: &View, begin: usize, name: &[u8]) -> Manner {
        let capitals = || name.iter().all(|byte| !byte.is_ascii_lowercase());
        match self.sign {
            Sign::Element => Manner::Element,
            _ if is_flag(view, begin, name) => Manner::Flag,
            Sign::Space => login(view, begin).unwrap_or(Manner::Loose),
            Sign::Equals if self.tight && capitals() => Manner::Environment,
            Sign::Equals if self.tight => Manner::Tight,
            _ => Manner::Loose,
        }
    }
}

/// Behind the word at `at` by which a sentence states a value: `is`, with a colon or without.
fn behind_is(view: &View, at: usize) -> Option<usize> {
    let words: &[&str] = &["is", "was", "是", "为", "為"];
    let word = words.iter().find(|word| view.is_any_case(at, word.as_bytes()))?;
    let end = at + word.len();
    match view.at(end)? {
        b':' => Some(end + 1),
        b' ' => Some(end),
        _ => (!word.is_ascii()).then_some(end),
    }
}

/// Whether a name is a flag of a command: `--token`, `-storepass`.
fn is_flag(view: &View, begin: usize, name: &[u8]) -> bool {
    let alone = || matches!(view.before(begin), None | Some(b' ' | b'\n' | b'\t' | b'"' | b'\''));
    name.starts_with(b"--") || (name.starts_with(b"-") && name.len() > 4 && alone())
}

/// How a password is after the user it belongs to, as in `.netrc`: `login NAME password …`, in one line or two. A mask
/// may stand for the name.
fn login(view: &View, begin: usize) -> Option<Manner> {
    let user_end = view.back(begin, &BREAKS, 16);
    if user_end == begin {
        return None;
    }
    let two_lines = view.slice(user_end, begin).contains(&b'\n');
    if view.after_mask(user_end) {
        return (!two_lines).then_some(Manner::Loose);
    }
    let user = view.back(user_end, &BARE_NO_STAR, 48);
    let word = view.back(user, &SPACE, 8);
    let known = user < user_end && word < user;
    match () {
        () if known && view.ends(word, b"login") => Some(Manner::Flag),
        () if known && two_lines && view.ends(word, b"user") => Some(Manner::Loose),
        () => None,
    }
}

/// What the name of a type is made of, and what stands before it in Rust.
static TYPE: Class = Class::of(b"a-zA-Z0-9_.&?<>[]");
const STATIC: &[u8] = b"&'static ";

static BREAKS: Class = Class::of(b" \t\r\n");
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
    let escapes: &[&[u8]] = &[b"\x1b[", b"\\u001b[", b"\\x1b[", b"\\033["];
    let mut at = at;
    for _ in 0..MOST {
        if !matches!(view.at(at), Some(b'\x1b' | b'\\')) {
            break;
        }
        let Some(escape) = escapes.iter().find(|escape| view.is(at, escape)) else { break };
        let end = view.run(at + escape.len(), &PARAMETERS, 12);
        at = end + usize::from(view.at(end).is_some_and(|byte| byte.is_ascii_alphabetic()));
    }
    at
}

static PARAMETERS: Class = Class::of(b"0-9;?");

/// The new value behind an old one that was masked, as tools tell of changes: `"old" -> "new"`.
pub(crate) fn changed(view: &View, start: usize, end: usize) -> Option<Found> {
    let opening = Opening::at(view, end - 1, &BARE);
    let found = view.after_mask(start) && value::strong(view, &opening, Manner::Loose);
    (found && view.rules().has(Rule::Assignment)).then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}

/// Words for a password in other languages than the one programs are written in.
pub(crate) const FOREIGN: &[&str] = &[
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "비밀번호",
    "пароль",
    "Пароль",
    "contraseña",
    "senha",
    "mot de passe",
    "kennwort",
    "wachtwoord",
    "hasło",
    "şifre",
];

/// The value behind a word of [`FOREIGN`] that ends at `end`. Such words stand in sentences, so it must look like one.
pub(crate) fn foreign(view: &View, start: usize, end: usize) -> Option<Found> {
    let separator = Separator::after(view, end)?;
    let opening = Opening::at(view, separator.value, &ASCII);
    let signed = matches!(separator.sign, Sign::Equals | Sign::Colon | Sign::Is);
    let found = signed && view.boundary(start) && value::told(view, &opening);
    (found && view.rules().has(Rule::Assignment)).then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}

/// A value without quotes among words of other alphabets.
static ASCII: Class = Class::of(b"a-zA-Z0-9_!#$%&*+./:=?@^~-");

/// A password in SQL, behind `IDENTIFIED BY` that ends at `end`.
pub(crate) fn identified_by(view: &View, start: usize, end: usize) -> Option<Found> {
    let opening = Opening::at(view, view.run(end, &SPACE, 4), &BARE);
    let quoted = view.boundary(start) && opening.is_single_quoted() && is_sql(view, start, end);
    let found = quoted && value::credentials(view, &opening);
    (found && view.rules().has(Rule::Assignment)).then(|| Found::open(Rule::Assignment, opening.value, opening.tail()))
}

/// How statements of SQL begin that have `IDENTIFIED BY`: a word, and how the next one begins.
const STATEMENTS: &[(&[u8], &[u8])] = &[
    (b"create", b"user"),
    (b"create", b"role"),
    (b"alter", b"user"),
    (b"alter", b"role"),
    (b"replace", b"user"),
    (b"replace", b"role"),
    (b"connect", b"to"),
    (b"grant", b""),
];

/// Whether `IDENTIFIED BY` between `start` and `end` is SQL and not a sentence: in capitals, behind a name in quotes, or in a
/// statement.
fn is_sql(view: &View, start: usize, end: usize) -> bool {
    if !view.slice(start, end).iter().any(u8::is_ascii_lowercase) {
        return true;
    }
    if matches!(view.before(view.back(start, &SPACE, SPACES)), Some(b'\'' | b'`' | b'"')) {
        return true;
    }
    view.count(LOOK_BACK);
    let before = view.slice(start.saturating_sub(LOOK_BACK), start);
    // What is before a mask was nearer or further away than it is now.
    let known = memchr::memmem::rfind(before, crate::MASK).map_or(before, |mask| &before[mask..]);
    has_statement(known)
}

/// Whether a statement with `IDENTIFIED BY` begins in the text, with any spaces between its words.
fn has_statement(text: &[u8]) -> bool {
    let ends = |word: &[u8], end: &[u8]| {
        word.len().checked_sub(end.len()).is_some_and(|start| word[start..].eq_ignore_ascii_case(end))
    };
    let begins =
        |word: &[u8], start: &[u8]| word.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start));
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(mut word) = words.next() else { return false };
    words.any(|next| {
        let before = std::mem::replace(&mut word, next);
        STATEMENTS.iter().any(|(verb, object)| ends(before, verb) && begins(next, object))
    })
}
