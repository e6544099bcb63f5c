//! Passwords on command lines whose flags do not tell: `curl -u user:password`, `mysql -ppassword`.

use crate::class::{BARE, Class, SPACE, WORD};
use crate::found::Found;
use crate::rules::Rule;
use crate::rules::value::{self, Opening};
use crate::view::View;

/// Longest user name.
const USER: usize = 64;
/// How far behind the program's name its flag is looked for.
const FLAG: usize = 96;

static USER_BYTES: Class = Class::visible_but(b" \"'`\\:;|&<>()[]{}*$/,");
/// Where a command ends.
static COMMAND: Class = Class::visible_but(b";|&*\"`");

/// `user:password` after the `-u` or `--user` that ends at `end`.
pub(crate) fn user_flag(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::UserFlag) || view.at(start).is_some_and(|byte| byte == b'-') && !view.boundary(start) {
        return None;
    }
    let equals = usize::from(view.at(end) == Some(b'='));
    let after = view.run(end + equals, &SPACE, 4);
    let opening = Opening::at(view, after, &BARE);
    if after == end {
        return None;
    }
    let colon = view.run(opening.value, &USER_BYTES, USER);
    if view.at(colon) != Some(b':') || colon == opening.value {
        return None;
    }
    let password = opening.from(colon + 1);
    // `docker run -u 1000:1000` and `-u node:node` are a user and a group.
    let user = view.slice(opening.value, colon);
    let word = view.slice(colon + 1, view.run(colon + 1, &WORD, USER));
    let group = user == word || (is_number(user) && is_number(word));
    (!group && value::credentials(view, &password)).then(|| Found::open(Rule::UserFlag, colon + 1, password.tail()))
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// A program and the flag before its password.
struct Program {
    name: &'static str,
    flag: &'static [u8],
    /// Whether the password follows without a space.
    glued: bool,
}

const PROGRAMS: &[Program] = &[
    Program { name: "sshpass", flag: b" -p", glued: false },
    Program { name: "sshpass", flag: b" -p", glued: true },
    Program { name: "mysql", flag: b" -p", glued: true },
    Program { name: "mysqldump", flag: b" -p", glued: true },
    Program { name: "mysqladmin", flag: b" -p", glued: true },
    Program { name: "mariadb", flag: b" -p", glued: true },
    Program { name: "redis-cli", flag: b" -a", glued: false },
    Program { name: "docker login", flag: b" -p", glued: false },
    Program { name: "podman login", flag: b" -p", glued: false },
    Program { name: "openssl", flag: b" pass:", glued: true },
    Program { name: "unzip", flag: b" -P", glued: false },
    Program { name: "zip", flag: b" -P", glued: false },
    Program { name: "7z x", flag: b" -p", glued: true },
    Program { name: "7z a", flag: b" -p", glued: true },
    Program { name: "curl", flag: b" -u", glued: true },
    Program { name: "mongo", flag: b" -p", glued: false },
    Program { name: "mongosh", flag: b" -p", glued: false },
    Program { name: "mongodump", flag: b" -p", glued: false },
    Program { name: "mongorestore", flag: b" -p", glued: false },
    Program { name: "ldapsearch", flag: b" -w", glued: false },
    Program { name: "ldapmodify", flag: b" -w", glued: false },
    Program { name: "ldapadd", flag: b" -w", glued: false },
    Program { name: "mosquitto_pub", flag: b" -P", glued: false },
    Program { name: "mosquitto_sub", flag: b" -P", glued: false },
    Program { name: "az login", flag: b" -p", glued: false },
    Program { name: "registry login", flag: b" -p", glued: false },
];

/// The names by which programs are looked for.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    names.dedup();
    names.into_iter()
}

/// The password on the command line of the program whose name is between `start` and `end`.
pub(crate) fn program(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::CommandFlag) || view.at(end) != Some(b' ') || !view.boundary(start) {
        return None;
    }
    let stop = view.run(end, &COMMAND, FLAG);
    let line = view.slice(end, stop);
    let name = view.slice(start, end);
    // Most command lines have no such flag, and that is seen at once.
    memchr::memchr2(b'-', b':', line)?;
    let known = PROGRAMS.iter().filter(|program| program.name.as_bytes() == name);
    known.filter_map(|program| flag_value(view, program, line, end)).next()
}

fn flag_value(view: &View, program: &Program, line: &[u8], from: usize) -> Option<Found> {
    let flag_end = from + memchr::memmem::find(line, program.flag)? + program.flag.len();
    let after = view.run(flag_end, &SPACE, 4);
    if program.glued != (after == flag_end) {
        return None;
    }
    let opening = Opening::at(view, after, &BARE);
    let dash = view.at(opening.value) == Some(b'-');
    (!dash && value::credentials(view, &opening)).then(|| Found::open(Rule::CommandFlag, opening.value, opening.tail()))
}

/// Programs for shares of files, which take `-U user%password`.
pub(crate) const SHARES: &[&str] = &["smbclient", "rpcclient", "smbget", "smbcacls"];
static SHARE_USER: Class = Class::visible_but(b" \"'`%;|&<>()[]{}*$,");

/// The password behind the user on the command line of the program whose name, one of [`SHARES`], is between `start` and
/// `end`.
pub(crate) fn share(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::CommandFlag) || view.at(end) != Some(b' ') || !view.boundary(start) {
        return None;
    }
    let line = view.slice(end, view.run(end, &COMMAND, FLAG));
    let flags: &[&[u8]] = &[b" -U", b" --user=", b" --user"];
    let behind = |flag: &&[u8]| Some(end + memchr::memmem::find(line, flag)? + flag.len());
    let flag_end = flags.iter().find_map(behind)?;
    let opening = Opening::at(view, view.run(flag_end, &SPACE, 4), &BARE);
    let percent = view.run(opening.value, &SHARE_USER, USER);
    let password = opening.from(percent + 1);
    let named = percent > opening.value && view.at(percent) == Some(b'%');
    (named && value::credentials(view, &password))
        .then(|| Found::open(Rule::CommandFlag, password.value, password.tail()))
}

/// What in a command line says that it reads a password from a pipe.
const READERS: &[&[u8]] = &[b"sudo -S", b"chpasswd", b"passwd --stdin", b"--password-stdin"];
/// Longest password that is written to a pipe.
const ECHOED: usize = 96;

/// The password that `echo`, whose name ends at `end`, writes to a command that reads one: `echo … | sudo -S true`.
pub(crate) fn echoed(view: &View, start: usize, end: usize) -> Option<Found> {
    if !view.rules().has(Rule::CommandFlag) || !view.boundary(start) {
        return None;
    }
    let flag = if view.is(end, b"-n ") { 3 } else { 0 };
    let opening = Opening::at(view, end + flag, &BARE);
    let word_end = opening.end(view, ECHOED)?;
    let pipe = view.run(word_end, &SPACE, 4);
    if view.at(pipe) != Some(b'|') {
        return None;
    }
    let command = view.slice(pipe, view.run(pipe + 1, &COMMAND, FLAG));
    let reader = READERS.iter().find(|reader| memchr::memmem::find(command, reader).is_some())?;
    let user = view.run(opening.value, &USER_BYTES, USER);
    // For `chpasswd` the user comes first.
    let with_user = *reader == b"chpasswd" && view.at(user) == Some(b':');
    let secret = opening.from(if with_user { user + 1 } else { opening.value });
    value::credentials(view, &secret).then(|| Found::open(Rule::CommandFlag, secret.value, secret.tail()))
}
