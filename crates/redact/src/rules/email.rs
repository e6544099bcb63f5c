//! E-mail addresses, by their `@`.

use crate::class::{Class, DIGIT, WORD};
use crate::found::{Found, Tail};
use crate::rules::Rule;
use crate::view::View;

/// Longest part before the `@`, by RFC 5321.
const LOCAL: usize = 64;
/// Longest top-level domain there is.
const TOP_LEVEL: usize = 24;

/// What is before the `@` in the addresses that people use.
static LOCAL_BYTES: Class = Class::of(b"a-zA-Z0-9._%+-");
static LABEL: Class = Class::of(b"a-zA-Z0-9-");
static DOMAIN: Class = Class::of(b"a-zA-Z0-9.-");

/// Names that look like a top-level domain and are none: units of systemd, images (`icon@2x.png`), local networks.
const NOT_TOP_LEVEL: &[&[u8]] = &[
    b"service",
    b"socket",
    b"timer",
    b"target",
    b"mount",
    b"automount",
    b"slice",
    b"scope",
    b"device",
    b"path",
    b"swap",
    b"png",
    b"jpg",
    b"jpeg",
    b"gif",
    b"svg",
    b"webp",
    b"ico",
    b"bmp",
    b"pdf",
    b"html",
    b"json",
    b"yaml",
    b"yml",
    b"toml",
    b"js",
    b"ts",
    b"jsx",
    b"tsx",
    b"mjs",
    b"css",
    b"scss",
    b"local",
    b"localdomain",
    b"internal",
    b"lan",
    b"tgz",
    b"gz",
];

/// Users under which machines log in to code hosts; not people.
const NOT_PEOPLE: &[&[u8]] = &[b"git", b"hg"];

/// An address around the `@` at `at`.
pub(crate) fn find(view: &View, at: usize, after: usize) -> Option<Found> {
    let user = view.before(at).is_some_and(|byte| LOCAL_BYTES.has(byte) || byte >= 0x80);
    if !user || !view.rules().has(Rule::Email) {
        return None;
    }
    let stop = domain_end(view, after)?;
    let start = local_start(view, at)?;
    if NOT_PEOPLE.contains(&view.slice(start, at)) || view.ends(start, b"://") {
        return None;
    }
    let tail = Tail::Class(if view.is_open(stop) { &DOMAIN } else { &WORD });
    Some(Found { rule: Rule::Email, start, solid: stop, tail })
}

/// Where the part before the `@` begins.
fn local_start(view: &View, at: usize) -> Option<usize> {
    let mut start = at;
    // Letters of other alphabets have two bytes in UTF-8; three bytes are Chinese or Japanese, which has no spaces, so
    // that an address directly follows them.
    while at - start < LOCAL {
        let run = view.back(start, &LOCAL_BYTES, LOCAL - (at - start));
        start = match two_byte_letter_before(view, run) {
            true => run - 2,
            false if run == start => break,
            false => run,
        };
    }
    start = view.without_escape(start, at + 1);
    while start < at && view.at(start).is_some_and(|byte| byte < 0x80 && !WORD.has(byte)) {
        start += if view.at(start) == Some(b'%') && at - start > 3 { 3 } else { 1 };
    }
    (start < at && view.boundary(start)).then_some(start)
}

fn two_byte_letter_before(view: &View, at: usize) -> bool {
    let lead = at.checked_sub(1).and_then(|before| view.before(before));
    view.before(at).is_some_and(|byte| (0x80..0xc0).contains(&byte))
        && lead.is_some_and(|byte| (0xc3..0xe0).contains(&byte))
}

/// Where the domain ends, if one of its parts may be a top-level domain.
fn domain_end(view: &View, from: usize) -> Option<usize> {
    let mut at = from;
    let mut labels = 0;
    let mut known = false;
    let mut end = from;
    loop {
        let stop = label_end(view, at);
        if stop == at {
            break;
        }
        labels += 1;
        end = stop;
        known |= labels > 1 && is_top_level(view, at, stop);
        if view.at(stop) != Some(b'.') {
            break;
        }
        at = stop + 1;
    }
    let version = labels > 1 && is_version(view, from);
    let last = view.slice(from, end).iter().rev().take_while(|byte| **byte == b'-').count();
    (known && !version && view.at(from) != Some(b'-')).then_some(end - last)
}

/// Whether there is a version, as behind the name of a package: `left-pad@1.2.3-beta.x`, `net@v0.1.0-rc.one`.
fn is_version(view: &View, from: usize) -> bool {
    let number = from + usize::from(view.at(from) == Some(b'v'));
    let stop = view.run(number, &DIGIT, 8);
    stop > number && view.at(stop) == Some(b'.') && view.at(stop + 1).is_some_and(|byte| byte.is_ascii_digit())
}

/// The end of the part of a domain that begins at `at`.
fn label_end(view: &View, at: usize) -> usize {
    let mut stop = at;
    loop {
        stop = view.run(stop, &LABEL, usize::MAX);
        let letter = view.at(stop).is_some_and(|byte| (0xc3..0xe0).contains(&byte));
        if !letter || !view.at(stop + 1).is_some_and(|byte| (0x80..0xc0).contains(&byte)) {
            return stop;
        }
        stop += 2;
    }
}

fn is_top_level(view: &View, from: usize, to: usize) -> bool {
    let label = view.slice(from, to);
    let letters = label.iter().all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80);
    let known = NOT_TOP_LEVEL.iter().any(|name| name.eq_ignore_ascii_case(label));
    // A mask may begin right behind a letter of another alphabet, so there the mask shows that the part continued.
    let cut = !label.is_ascii() && view.is(to, crate::MASK);
    letters && (2..=TOP_LEVEL).contains(&label.len()) && !known && !cut && view.at(to) != Some(b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_hold_no_star() {
        assert!([&LOCAL_BYTES, &LABEL, &DOMAIN].iter().all(|class| !class.has(b'*')));
    }
}
