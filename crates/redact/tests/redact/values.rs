//! Values given at run time: found as they are and in every dress, whole or cut, and not taken if they tell nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use shellkeep_redact::{Config, ConfigError, MOST_FOUND, Redactor, Rules, Stream, is_maskable};

fn with(values: &[&str]) -> Redactor {
    Redactor::new(&Config::default()).unwrap().with_secrets(values).unwrap()
}

/// The text cut at every place, masked; all must be alike.
fn everywhere(redactor: &Redactor, text: &str) -> String {
    let whole = redactor.redact_str(text);
    for at in 0..=text.len() {
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        stream.push(&text.as_bytes()[..at], &mut out);
        stream.push(&text.as_bytes()[at..], &mut out);
        stream.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), whole, "cut at {at}");
    }
    whole
}

#[test]
fn values_are_masked_wherever_they_stand() {
    let redactor = with(&["tr0ub4dor&3", "zwölf Boxkämpfer"]);
    assert_eq!(everywhere(&redactor, "a tr0ub4dor&3 b"), "a *** b");
    assert_eq!(everywhere(&redactor, "xtr0ub4dor&3y"), "x***y");
    assert_eq!(everywhere(&redactor, "wer? zwölf Boxkämpfer!"), "wer? ***!");
    assert_eq!(everywhere(&redactor, "tr0ub4dor&3tr0ub4dor&3"), "***");
    assert_eq!(everywhere(&redactor, "tr0ub4dor&4"), "tr0ub4dor&4");
}

#[test]
fn values_are_masked_in_every_dress() {
    let value = "a \"b\"/\\c+d&é";
    let redactor = with(&[value]);
    for (form, text) in [
        ("json", r#"a \"b\"/\\c+d&é"#.to_owned()),
        ("json with slashes", r#"a \"b\"\/\\c+d&é"#.to_owned()),
        ("json in json", r#"a \\\"b\\\"/\\\\c+d&é"#.to_owned()),
        ("json in ascii", r#"a \"b\"/\\c+d&\u00e9"#.to_owned()),
        ("url", "a%20%22b%22%2F%5Cc%2Bd%26%C3%A9".to_owned()),
        ("url in small letters", "a%20%22b%22%2f%5cc%2bd%26%c3%a9".to_owned()),
        ("form", "a+%22b%22%2F%5Cc%2Bd%26%C3%A9".to_owned()),
        ("html", "a &quot;b&quot;/\\c+d&amp;é".to_owned()),
        ("html by number", "a &#34;b&#34;/\\c+d&amp;é".to_owned()),
        ("shell, without quotes", r#"a\ \"b\"/\\c+d\&é"#.to_owned()),
        ("shell, between double quotes", r#"a \"b\"/\\c+d&é"#.to_owned()),
        ("hex", value.bytes().map(|byte| format!("{byte:02x}")).collect()),
        ("base64", STANDARD.encode(value)),
        ("base64 without padding", STANDARD.encode(value).trim_end_matches('=').to_owned()),
    ] {
        assert_eq!(everywhere(&redactor, &format!("<{text}>")), "<***>", "{form}");
    }
    assert_eq!(everywhere(&with(&["it's me"]), r"x='it'\''s me'"), "x='***'");
}

#[test]
fn values_within_longer_base64_are_masked() {
    let redactor = with(&["correct-horse-battery"]);
    for user in ["a", "ab", "abc", "abcd"] {
        let encoded = STANDARD.encode(format!("{user}:correct-horse-battery:end"));
        let masked = everywhere(&redactor, &format!("x {encoded} y"));
        assert!(masked.contains("***") && masked.len() < encoded.len(), "{user}: {masked}");
    }
}

#[test]
fn long_values_have_one_mask() {
    let long: String = (0..400).map(|n| format!("{n}-é;")).collect();
    let redactor = with(&[&long]);
    assert_eq!(redactor.redact_str(&format!("a={long}, b")), "a=***, b");
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    long.as_bytes().chunks(7).for_each(|piece| stream.push(piece, &mut out));
    stream.finish(&mut out);
    assert_eq!(out, b"***");
}

/// A value that looks like none of the others, and has no form that is the same as another's.
fn value(number: usize, length: usize) -> String {
    (0..).flat_map(|n| format!("{number}-{n}/").into_bytes()).map(char::from).take(length).collect()
}

/// A command put 400 kB into a variable with a secret's name, and the search for its twenty forms took 240 MB.
#[test]
fn found_values_have_a_limit() {
    let base = Redactor::new(&Config::default()).unwrap();
    let (short, long) = (value(1, 100), value(2, 100_000));
    let redactor = base.with_values(["registered-one"], [&short, &long]).unwrap();
    assert_eq!(
        redactor.redact_str(&format!("registered-one {short} {long} {}", STANDARD.encode(&short))),
        "*** *** *** ***"
    );
    let encoded = STANDARD.encode(&long);
    assert_eq!(redactor.redact_str(&encoded), encoded, "a long one is looked for only as it is");
    let many: Vec<String> = (0..10).map(|number| value(number, MOST_FOUND / 8)).collect();
    let refused = base.with_values(["registered-one"], &many).err().unwrap();
    assert!(
        matches!(refused, ConfigError::TooManyValues { bytes, most: MOST_FOUND } if bytes > MOST_FOUND),
        "{refused}"
    );
}

/// The values of which there are too many to look for must not be shown either.
#[test]
fn everything_is_withheld_but_line_breaks() {
    let redactor = with(&["registered-one"]).withholding();
    assert!(redactor.is_withholding() && !with(&["registered-one"]).is_withholding());
    for text in ["", "a", "a secret\nin two lines\r\n\n  and more", "\n***\n", "x\ry", "https://a:b@c/d\n"] {
        let masked = everywhere(&redactor, text);
        let lines = |text: &str| text.matches(['\n', '\r']).count();
        assert!(masked.chars().all(|letter| matches!(letter, '*' | '\n' | '\r')), "{masked:?}");
        assert_eq!((lines(&masked), redactor.redact_str(&masked)), (lines(text), masked.clone()), "{text:?}");
    }
    assert_eq!(redactor.redact_str("a secret\nin two lines\n"), "***\n***\n");
    let long = "x".repeat(100_000);
    let (mut stream, mut out) = (redactor.stream(), Vec::new());
    long.as_bytes().chunks(700).for_each(|piece| stream.push(piece, &mut out));
    stream.finish(&mut out);
    assert_eq!(out, b"***");
}

#[test]
fn values_of_several_lines_are_masked_line_by_line() {
    let redactor = with(&["first line\nsecond line\r\nxy\nlast line"]);
    assert_eq!(redactor.redact_str("a first line\nsecond line\r\nxy\nlast line b"), "a ***\n***\r\nxy\n*** b");
    assert_eq!(redactor.redact_str("\"first line\\nsecond line\""), "\"***\\n***\"");
}

#[test]
fn values_that_tell_nothing_are_not_taken() {
    let text = "true 1234 localhost aaaaaa abc 123456";
    assert_eq!(with(&["true", "1234", "localhost", "aaaaaa", "abc", "", "123456"]).redact_str(text), text);
    assert!(!is_maskable(b"localhost") && is_maskable(b"local-h0st"));
}

#[test]
fn longer_values_win_and_rules_see_what_is_left() {
    let redactor = with(&["sesame", "open-sesame-now"]);
    assert_eq!(redactor.redact_str("open-sesame-now open-sesame"), "*** open-***");
    assert_eq!(redactor.redact_str("password=sesame ann@example.com"), "password=*** ***");
}

#[test]
fn variables_with_secret_names_give_values() {
    let variables =
        [("PATH", "/usr/bin:/bin"), ("DB_PASSWORD", "pa55-w0rd"), ("GITHUB_TOKEN", "abc-def-1"), ("PWD", "/home/ann")];
    let values: Vec<&str> = Redactor::secret_values(variables).collect();
    assert_eq!(values, ["pa55-w0rd", "abc-def-1"]);
}

#[test]
fn findings_are_places_in_the_text_as_it_was() {
    let text = "x sesame-street y ann@example.com z password=sesame-street.";
    let found = with(&["sesame-street"]).find(text.as_bytes());
    let told: Vec<(&str, &str)> = found.iter().map(|finding| (finding.rule, &text[finding.range.clone()])).collect();
    assert_eq!(told, [("registered", "sesame-street"), ("email", "ann@example.com"), ("registered", "sesame-street")]);
}

#[test]
fn a_redactor_without_the_rule_takes_no_values() {
    let rules = shellkeep_redact::Rules::default().without(["registered"]).unwrap();
    let redactor = Redactor::new(&Config { rules, ..Config::default() }).unwrap();
    assert_eq!(redactor.with_secrets(["sesame-street"]).unwrap().redact_str("sesame-street"), "sesame-street");
}

/// What a reader may be shown while more is written: half a value, or the head of a token, is not settled.
#[test]
fn what_may_become_a_secret_is_not_settled() {
    let all = with(&["horse-battery"]);
    let only = Config { rules: Rules::only(["registered"]).unwrap(), ..Config::default() };
    let values = Redactor::new(&only).unwrap().with_secrets(["horse-battery"]).unwrap();
    let long = format!("a\n{}horse", "x ".repeat(Stream::MAX_HELD));
    for (text, of_all, of_values) in [
        ("", 0, 0),
        ("a line\n", 7, 7),
        ("a line\nname? ", 7, 13),
        ("a line\nuse horse-b", 7, 11),
        // More of it could make another value.
        ("a horse-battery", 0, 2),
        (&long, long.len() - 5, long.len() - 5),
    ] {
        assert_eq!((all.settled(text.as_bytes()), values.settled(text.as_bytes())), (of_all, of_values), "{text:.30}");
    }
}
