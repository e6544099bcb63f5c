//! Which names look secret: of environment variables, keys, headers and flags. A name is read as the words it is made of
//! (`secretAccessKey`, `DB_PASSWORD`, `x-api-key`), and its last words decide.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

/// What a name says about its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Plain,
    /// It may be a secret, if it looks like one.
    Weak,
    /// It is a secret.
    Strong,
    /// It is the value of an `Authorization` header.
    Authorization,
    /// It is a cookie.
    Cookie,
}

/// Whether a name, of an environment variable for example, says that its value is a secret.
pub fn looks_secret(name: &str) -> bool {
    classify(name.as_bytes()) != Kind::Plain
}

/// Words behind a telling one that change nothing.
const NEUTRAL: &str = "\
    old new prod production dev development staging stage test testing live value hex base plain raw primary \
    secondary backup main local default encoded";
/// What it costs to classify a name, in bytes looked at.
pub(crate) const EFFORT: usize = 64;
/// Words of a name that are looked at, from its end.
const WORDS: usize = 12;
/// Words behind the telling one that no one knows, at most: `PASSWORD_FOR_BILLING`. With one, the value must look like a
/// secret too.
const UNKNOWN: usize = 2;

/// Words that name a secret, alone or at the end of a longer word (`dbpassword`).
const STRONG: &[&[u8]] = &[
    b"password",
    b"passwd",
    b"passphrase",
    b"passcode",
    b"passwort",
    b"secret",
    b"apikey",
    b"secretkey",
    b"privatekey",
    b"accesskey",
    b"authkey",
    b"masterkey",
    b"signingkey",
    b"encryptionkey",
    b"accountkey",
    b"sharedkey",
    b"sharedaccesskey",
    b"storepass",
    b"keypass",
    b"requirepass",
    b"masterauth",
    b"dbpass",
    b"userpass",
    b"rootpass",
    b"adminpass",
    b"smtppass",
    b"mailpass",
    b"bindpw",
    b"rootpw",
];
/// Shortest of them.
const STRONG_LEAST: usize = 6;
/// Words that name a secret only when they stand alone between separators.
const STRONG_ALONE: &str = "pwd psk";
/// Words that do so only behind another word: `DB_PASS`.
const STRONG_BEHIND: &str = "pass pw";
/// Words that may name one.
const WEAK: &str = "jwt auth credential credentials creds cred bearer signature sas authz authn oauth";
const WEAK_BEHIND: &str = "pat sig";
/// Words before `key` that make it a secret for certain.
const STRONG_KEYS: &str =
    "api secret private signing encryption master account access auth shared preshared decryption";
/// Words before `key` that may make it one.
const WEAK_KEYS: &str = "\
    app application client admin service storage subscription license webhook deploy ssh session server \
    integration functions host root token jwt cookie hmac aes rsa";
/// Words before `key` with which it is none, even in capitals.
const NOT_KEYS: &str = "\
    public primary foreign cache partition sort row object group routing index map hash unique composite \
    idempotency range search lookup dictionary registry hot host ssh gpg";
/// Words before `token` with which it is none: pages of lists, and parsers.
const NOT_TOKENS: &str = "\
    next page continuation pagination cancellation eos bos pad unk sep mask stop special start end first last \
    current prev previous peek lookahead input output num per total max min unexpected expected sync resume \
    invalid missing no";
/// Words after a secret's name which say that the value describes the secret and is not it.
const ABOUT: &str = "\
    count counts limit limits type types url uri endpoint expires expiry expiration exp expired ttl name names \
    id ids length len size file files filename path paths dir directory policy enabled disabled required field \
    fields prompt env ref refs arn usage index at in status state format version versions list map kind class \
    error errors invalid valid validator validation strength min max rate budget cost price hint label text \
    title message msg placeholder reset manager provider providers store helper generator rotation scope scopes \
    bucket header headers param params stream span offset position line column source symbol buffer regex \
    pattern separator sock socket agent pid host port addr address server domain user username login method mode \
    scheme realm module plugin backend handler service audience issuer algorithm alg age days hours minutes \
    seconds ms date time timeout created updated changed issued last attempts retries config settings info \
    description example template schema model lifetime duration authority callback redirect mask masked exists \
    set fingerprint encoding cmd command script flow level middleware router routes controller encryption";

/// Words that are values everywhere, and secrets nowhere.
const COMMON: &str = "\
    true false null none nil undefined yes no on off required optional string str int integer bytes bool boolean \
    number object any array list dict text varchar char float unknown missing invalid valid empty unset set \
    username redacted masked hidden removed default example placeholder changeme self this value env file prompt stdin \
    ask void arg args argument disabled enabled basic expired incorrect wrong ok failed success denied xxx xxxx xxxxx xxxxxx \
    xxxxxxx xxxxxxxx readonly private public static const final let var new await return if else and or not is \
    not_set notset n_a u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 int8 int16 int32 int64 uint8 \
    uint16 uint32 uint64 c_int c_uint c_long c_ulong c_char c_void size_t dword ulong __u8 __u16 __u32 __u64 __s32 __s64 option \
    options flag flags parameter parameters";

/// What a word of a value says that it is itself the name of a secret.
const TELLING: &str = "passw secret token key credential passphrase pwd auth";

/// What a name says about its value.
pub(crate) fn classify(name: &[u8]) -> Kind {
    if name == b"PWD" || name == b"OLDPWD" {
        return Kind::Plain;
    }
    let mut words: [&[u8]; WORDS] = [b""; WORDS];
    let count = split(name, &mut words);
    let words = &words[..count];
    let mut unknown = 0;
    for at in (0..words.len()).rev() {
        let word = words[at];
        let lists = Lists::of(word);
        if word.len() == 1 || word.iter().all(u8::is_ascii_digit) || lists.has(List::Neutral) {
            continue;
        }
        let kind = telling(name, words, at, lists);
        if kind != Kind::Plain {
            return if at + 1 == words.len() || (unknown == 0 && kind == Kind::Strong) { kind } else { Kind::Weak };
        }
        unknown += 1;
        if lists.has(List::About) || unknown > UNKNOWN {
            return Kind::Plain;
        }
    }
    Kind::Plain
}

/// What the word at `at` says, with the words before it.
fn telling(name: &[u8], words: &[&[u8]], at: usize, lists: Lists) -> Kind {
    let word = words[at];
    let before = || at.checked_sub(1).map(|before| Lists::of(words[before]));
    let behind = at > 0;
    let is = |known: &str| word.eq_ignore_ascii_case(known.as_bytes());
    let last = word.last().map(u8::to_ascii_lowercase);
    let is_strong = |known: &&[u8]| known.last().copied() == last && ends_with(word, known);
    let strong = || word.len() >= STRONG_LEAST && STRONG.iter().any(is_strong);
    // What `sudoers` calls the absence of one.
    if is("nopasswd") {
        return Kind::Plain;
    }
    if strong() || lists.has(List::StrongAlone) || (behind && lists.has(List::StrongBehind)) {
        return Kind::Strong;
    }
    if is("authorization") {
        return Kind::Authorization;
    }
    if is("cookie") {
        // The headers themselves; other cookies are values like any other.
        let header = words.len() == 1 || (words.len() == 2 && words[0].eq_ignore_ascii_case(b"set"));
        return if header { Kind::Cookie } else { Kind::Weak };
    }
    if ends_with(word, b"token") {
        let plain = before().is_some_and(|before| before.has(List::NotTokens));
        return if plain { Kind::Plain } else { Kind::Weak };
    }
    if is("key") {
        return key(name, before());
    }
    if lists.has(List::Weak) || (behind && lists.has(List::WeakBehind)) { Kind::Weak } else { Kind::Plain }
}

/// What `key` says behind the word `before`.
fn key(name: &[u8], before: Option<Lists>) -> Kind {
    let Some(before) = before else { return Kind::Plain };
    let capitals = name.iter().all(|byte| !byte.is_ascii_lowercase());
    match () {
        () if before.has(List::StrongKeys) => Kind::Strong,
        () if before.has(List::WeakKeys) => Kind::Weak,
        () if capitals && name.contains(&b'_') && !before.has(List::NotKeys) => Kind::Weak,
        () => Kind::Plain,
    }
}

/// Splits a name into its words; keeps the last ones if there are too many. Gives how many there are.
fn split<'a>(name: &'a [u8], words: &mut [&'a [u8]; WORDS]) -> usize {
    let mut count = 0;
    let mut start = 0;
    for at in 0..=name.len() {
        let byte = name.get(at).copied();
        let ends = byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
        if (ends || starts_word(name, start, at)) && at > start {
            if count == WORDS {
                words.rotate_left(1);
                count -= 1;
            }
            words[count] = &name[start..at];
            count += 1;
            start = at;
        }
        if ends {
            start = at + 1;
        }
    }
    count
}

/// Whether a new word begins at `at` without a separator: `aB`, `ABc`, `a1`, `1a`.
fn starts_word(name: &[u8], start: usize, at: usize) -> bool {
    let (Some(before), Some(byte)) = (at.checked_sub(1).and_then(|at| name.get(at)), name.get(at)) else {
        return false;
    };
    let next_is_lower = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
    at > start
        && ((before.is_ascii_lowercase() && byte.is_ascii_uppercase())
            || (before.is_ascii_uppercase() && byte.is_ascii_uppercase() && next_is_lower)
            || before.is_ascii_digit() != byte.is_ascii_digit())
}

/// Which lists of words a word is in.
#[derive(Clone, Copy, Default)]
struct Lists(u16);

/// Every word of the lists above, in small letters, with the lists it is in.
static DICTIONARY: LazyLock<HashMap<u128, Lists, BuildHasherDefault<Quick>>> = LazyLock::new(|| {
    let lists = [
        (STRONG_ALONE, List::StrongAlone),
        (STRONG_BEHIND, List::StrongBehind),
        (WEAK, List::Weak),
        (WEAK_BEHIND, List::WeakBehind),
        (STRONG_KEYS, List::StrongKeys),
        (WEAK_KEYS, List::WeakKeys),
        (NOT_KEYS, List::NotKeys),
        (NOT_TOKENS, List::NotTokens),
        (ABOUT, List::About),
        (NEUTRAL, List::Neutral),
        (COMMON, List::Common),
    ];
    let mut dictionary = HashMap::<u128, Lists, BuildHasherDefault<Quick>>::default();
    for (words, list) in lists {
        let words = words.split_ascii_whitespace();
        let packed = words.filter_map(|word| packed(word.as_bytes()));
        packed.for_each(|word| dictionary.entry(word).or_default().0 |= 1 << list as u16);
    }
    dictionary
});

/// A word as a number, in whatever case it is written; nothing if it is too long to be in a list. Letters differ from
/// capitals by one bit, which digits have anyway.
fn packed(word: &[u8]) -> Option<u128> {
    const LONGEST: usize = 16;
    const SMALL: u8 = 0x20;
    (word.len() <= LONGEST).then(|| word.iter().fold(0, |packed, byte| packed << 8 | u128::from(byte | SMALL)))
}

/// A quick hash for numbers that are ours, so that no one can choose them to collide.
#[derive(Default)]
pub(crate) struct Quick(u64);

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy)]
enum List {
    StrongAlone,
    StrongBehind,
    Weak,
    WeakBehind,
    StrongKeys,
    WeakKeys,
    NotKeys,
    NotTokens,
    About,
    Neutral,
    Common,
}

impl Lists {
    /// The lists that a word is in, in whatever case it is written.
    fn of(word: &[u8]) -> Self {
        packed(word).and_then(|word| DICTIONARY.get(&word)).copied().unwrap_or_default()
    }

    fn has(self, list: List) -> bool {
        self.0 & 1 << list as u16 != 0
    }
}

fn ends_with(word: &[u8], end: &[u8]) -> bool {
    word.len().checked_sub(end.len()).is_some_and(|at| word[at..].eq_ignore_ascii_case(end))
}

/// Whether a word is a value everywhere and a secret nowhere.
pub(crate) fn is_common_word(word: &[u8]) -> bool {
    Lists::of(word).has(List::Common)
}

/// Whether a text names a secret, as a label or a placeholder does.
pub(crate) fn mentions_secret(text: &[u8]) -> bool {
    let holds = |known: &str| text.windows(known.len()).any(|part| part.eq_ignore_ascii_case(known.as_bytes()));
    TELLING.split_ascii_whitespace().any(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_into_words() {
        let words = |name: &'static str| {
            let mut words: [&[u8]; WORDS] = [b""; WORDS];
            let count = split(name.as_bytes(), &mut words);
            words[..count].iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("secretAccessKey"), "secret Access Key");
        assert_eq!(words("AWS_SECRET_ACCESS_KEY"), "AWS SECRET ACCESS KEY");
        assert_eq!(words("XMLHttpAPIKey2"), "XML Http API Key 2");
        assert_eq!(words("--x-api.key--"), "x api key");
        assert_eq!(words("oauth2Token"), "oauth 2 Token");
        assert_eq!(words("a.b.c.d.e.f.g.h.i.j.k.l.m"), "b c d e f g h i j k l m");
    }

    #[test]
    fn secret_names_are_known() {
        for name in [
            "PASSWORD",
            "DB_PASSWORD",
            "dbpassword",
            "POSTGRES_PASSWORD",
            "PGPASSWORD",
            "MYSQL_ROOT_PASSWORD",
            "DB_PASS",
            "db_pw",
            "secret",
            "CLIENT_SECRET",
            "clientSecret",
            "AWS_SECRET_ACCESS_KEY",
            "secretAccessKey",
            "api_key",
            "apiKey",
            "APIKEY",
            "X-Api-Key",
            "x-auth-token",
            "GITHUB_TOKEN",
            "access_token",
            "refreshToken",
            "PRIVATE_KEY",
            "STRIPE_KEY",
            "NPM_CONFIG__AUTH",
            "GH_PAT",
            "JWT",
            "credentials",
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "set-cookie",
            "AccountKey",
            "SharedAccessKey",
            "signing_key",
            "PASSPHRASE",
            "PASSWORD_1",
            "TOKEN_GITHUB",
            "SECRET_KEY_BASE",
            "spring.datasource.password",
            "REDIS_AUTH",
            "WIFI_PSK",
            "Pwd",
            "Ocp-Apim-Subscription-Key",
        ] {
            assert!(looks_secret(name), "{name}");
        }
    }

    #[test]
    fn other_names_are_not() {
        for name in [
            "PWD",
            "OLDPWD",
            "PATH",
            "HOME",
            "max_tokens",
            "MAX_TOKENS",
            "total_tokens",
            "token_count",
            "tokenCount",
            "token_type",
            "token_url",
            "password_min_length",
            "passwordResetUrl",
            "SSH_AUTH_SOCK",
            "TOKENIZERS_PARALLELISM",
            "PASSWORD_FILE",
            "secret_name",
            "SECRET_ARN",
            "public_key",
            "primary_key",
            "PRIMARY_KEY",
            "cache_key",
            "key",
            "keyboard",
            "monkey",
            "next_page_token",
            "author",
            "passport",
            "compass",
            "pass",
            "bypass",
            "secretary",
            "AUTH0_DOMAIN",
            "GIT_ASKPASS",
            "session_id",
            "access_key_id",
            "eos_token",
            "DATABASE_URL",
            "XAUTHORITY",
            "PUBLIC_KEY",
            "token_expires_in",
            "keys",
            "authMethod",
            "unexpected_token",
            "passwords_checked",
            "auth_enabled",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }
}
