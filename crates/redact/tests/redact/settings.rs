//! What can be chosen: rules by name, national ids, patterns of one's own, and what is refused.

use shellkeep_redact::{Config, ConfigError, Pattern, Redactor, Rules};

fn with_patterns(patterns: &[&str]) -> Result<Redactor, ConfigError> {
    let extra = patterns.iter().map(|regex| Pattern { name: "mine".to_owned(), regex: (*regex).to_owned() }).collect();
    Redactor::new(&Config { extra, ..Config::default() })
}

#[test]
fn rules_are_chosen_by_name() {
    let text = "ann@example.com, +49 30 1234567, 123-45-6789";
    let only = |names: &[&'static str]| {
        let rules = Rules::only(names.iter().copied()).unwrap();
        Redactor::new(&Config { rules, ..Config::default() }).unwrap().redact_str(text)
    };
    assert_eq!(only(&["email"]), "***, +49 30 1234567, 123-45-6789");
    assert_eq!(only(&["phone", "us_ssn"]), "ann@example.com, ***, ***");
    assert_eq!(only(&[]), text);
}

/// A rule that is off must be off: with every other rule on, none of its cases gives a finding of its name.
#[test]
fn every_rule_can_be_left_out() {
    for case in crate::template::positives() {
        let rules = Rules::default().without([case.rule.as_str()]).unwrap();
        let redactor = Redactor::new(&Config { rules, ..Config::default() }).unwrap();
        let found = redactor.find(case.text.as_bytes());
        assert!(found.iter().all(|finding| finding.rule != case.rule), "{}: {}", case.rule, case.text);
    }
}

#[test]
fn telephone_numbers_and_national_ids_are_off_unless_named() {
    for (rule, text) in [("us_ssn", "123-45-6789"), ("phone", "+49 30 12345678")] {
        let config = Config { optional: vec![rule.to_owned()], ..Config::default() };
        assert_eq!(Redactor::new(&config).unwrap().redact_str(text), "***");
        assert_eq!(Redactor::new(&Config::default()).unwrap().redact_str(text), text);
    }
    let unknown = Config { optional: vec!["mars_id".to_owned()], ..Config::default() };
    let error = Redactor::new(&unknown).err().unwrap().to_string();
    assert!(error.contains("mars_id") && error.contains("Rules::names()"), "{error}");
}

#[test]
fn patterns_are_masked_to_the_end_of_the_word() {
    let redactor = with_patterns(&[r"EMP-\d{4}", r"(?i)project [a-z]{3,12}", "größe \\d{1,3}"]).unwrap();
    assert_eq!(redactor.redact_str("EMP-1234, XEMP-1234, EMP-12345x"), "***, XEMP-1234, ***");
    assert_eq!(redactor.redact_str("Project Manhattan is on"), "*** is on");
    assert_eq!(redactor.redact_str("die größe 42 passt"), "die *** passt");
    assert_eq!(redactor.redact_str("EMP-***1234 EMP-\n1234"), "EMP-***1234 EMP-\n1234");
}

#[test]
fn patterns_that_are_split_are_found() {
    let redactor = with_patterns(&[r"EMP-\d{4}", r"x[a-f ]{2,40}y"]).unwrap();
    let text = "a EMP-1234 b xab cdy EMP-1 xaaaa EMP-9999";
    let whole = redactor.redact_str(text);
    assert_eq!(whole, "a *** b *** EMP-1 xaaaa ***");
    for at in 0..text.len() {
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        [&text[..at], &text[at..]].iter().for_each(|piece| stream.push(piece.as_bytes(), &mut out));
        stream.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), whole, "cut at {at}");
    }
}

#[test]
fn patterns_that_could_do_harm_are_refused_with_what_to_do() {
    for (pattern, hint) in [
        ("a+", "upper bound"),
        ("a{1,300}", "upper bound"),
        ("a*", "empty string"),
        ("", "empty string"),
        (r"\bfoo\b", "must not contain"),
        ("^foo", "must not contain"),
        ("foo$", "must not contain"),
        ("(", "unclosed"),
        (r"(?-u:\xff)", "UTF-8"),
        (r"(?:[a-z]{1,100}){1,2}{1,2}", "upper bound"),
    ] {
        let error = with_patterns(&[pattern]).err().unwrap_or_else(|| panic!("{pattern} was taken")).to_string();
        assert!(error.contains("'mine'") && error.contains(hint), "{pattern}: {error}");
    }
    assert!(matches!(with_patterns(&["a"; 65]), Err(ConfigError::TooManyPatterns { given: 65, .. })));
}
