//! Rust source as words and marks, without comments, strings and what is for tests only. Enough to see paths and blocks.

/// A word, or a mark between words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lexeme {
    /// A name, keyword or number.
    Word(String),
    /// `::`
    Path,
    /// Another character.
    Mark(char),
}

impl Lexeme {
    /// The word, if it is one.
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Path | Self::Mark(_) => None,
        }
    }
}

/// Cuts source into lexemes.
pub fn read(text: &str) -> Vec<Lexeme> {
    let (mut rest, mut lexemes) = (text, Vec::new());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => quoted(rest),
            'r' | 'b' if prefixed_string(rest).is_some() => prefixed_string(rest).unwrap_or(1),
            '\'' => character(rest),
            ':' if rest.starts_with("::") => {
                lexemes.push(Lexeme::Path);
                2
            }
            _ if is_word(first) => {
                let length = rest.find(|other| !is_word(other)).unwrap_or(rest.len());
                lexemes.push(Lexeme::Word(rest[..length].to_owned()));
                length
            }
            _ => {
                if !first.is_whitespace() {
                    lexemes.push(Lexeme::Mark(first));
                }
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    lexemes
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// The length of a string that begins here.
fn quoted(text: &str) -> usize {
    let mut is_escaped = true;
    for (at, character) in text.char_indices() {
        match character {
            '"' if !is_escaped => return at + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// The length of a raw or byte string that begins here, if one does.
fn prefixed_string(text: &str) -> Option<usize> {
    let rest = text.trim_start_matches(['b', 'r']);
    let prefix = text.len() - rest.len();
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let body = rest[hashes..].strip_prefix('"').filter(|_| prefix <= 2)?;
    if !text[..prefix].contains('r') {
        return (hashes == 0).then(|| prefix + quoted(rest));
    }
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(text.len(), |at| prefix + hashes + 1 + at + end.len()))
}

/// The length of a character that begins here, or of the mark of a lifetime.
fn character(text: &str) -> usize {
    let mut inside = text.chars().skip(1);
    match (inside.next(), inside.next()) {
        (Some('\\'), _) => text[3..].find('\'').map_or(text.len(), |at| at + 4),
        (Some(only), Some('\'')) => 2 + only.len_utf8(),
        _ => 1,
    }
}

/// Leaves out the items that are marked `#[cfg(test)]`.
pub fn without_tests(lexemes: &[Lexeme]) -> Vec<Lexeme> {
    let mark: Vec<Lexeme> = read("#[cfg(test)]");
    let (mut kept, mut at) = (Vec::with_capacity(lexemes.len()), 0);
    while at < lexemes.len() {
        if lexemes[at..].starts_with(&mark) {
            at += mark.len();
            at += item(&lexemes[at..]);
        } else {
            kept.push(lexemes[at].clone());
            at += 1;
        }
    }
    kept
}

/// The length of the item that begins here: up to its `;` or the end of its block.
fn item(lexemes: &[Lexeme]) -> usize {
    let end = lexemes.iter().position(|lexeme| matches!(lexeme, Lexeme::Mark(';' | '{')));
    match end {
        Some(at) if lexemes[at] == Lexeme::Mark('{') => at + block(&lexemes[at..]),
        Some(at) => at + 1,
        None => lexemes.len(),
    }
}

/// The length of a block that begins here with its brace.
fn block(lexemes: &[Lexeme]) -> usize {
    let mut depth = 0_usize;
    for (at, lexeme) in lexemes.iter().enumerate() {
        match lexeme {
            Lexeme::Mark('{') => depth += 1,
            Lexeme::Mark('}') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    lexemes.len()
}

/// The path that begins at a word.
pub fn path_at(lexemes: &[Lexeme], mut at: usize) -> Vec<String> {
    let mut path = Vec::new();
    while let Some(Lexeme::Word(word)) = lexemes.get(at) {
        path.push(word.clone());
        if lexemes.get(at + 1) != Some(&Lexeme::Path) {
            break;
        }
        at += 2;
    }
    path
}

/// The type and the number of functions of an `impl` block, from behind the word. `None` for the block of a trait.
pub fn methods_of(lexemes: &[Lexeme]) -> Option<(String, usize)> {
    let start = lexemes.iter().position(|lexeme| *lexeme == Lexeme::Mark('{'))?;
    let header = &lexemes[..start];
    if header.iter().any(|lexeme| lexeme.word() == Some("for")) {
        return None;
    }
    let header = behind_generics(header);
    let name = header.iter().take_while(|lexeme| **lexeme != Lexeme::Mark('<')).filter_map(Lexeme::word).last()?;
    let body = &lexemes[start..start + block(&lexemes[start..])];
    let mut depth = 0_usize;
    let mut count = 0;
    for lexeme in body {
        match lexeme {
            Lexeme::Mark('{') => depth += 1,
            Lexeme::Mark('}') => depth -= 1,
            Lexeme::Word(word) if depth == 1 && word == "fn" => count += 1,
            _ => {}
        }
    }
    Some((name.to_owned(), count))
}

fn behind_generics(header: &[Lexeme]) -> &[Lexeme] {
    let mut depth = 0_usize;
    for (at, lexeme) in header.iter().enumerate() {
        match lexeme {
            Lexeme::Mark('<') => depth += 1,
            Lexeme::Mark('>') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return if at == 0 { header } else { &header[at + 1..] };
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        read(text).iter().filter_map(Lexeme::word).map(str::to_owned).collect()
    }

    #[test]
    fn strings_and_comments_are_left_out() {
        assert_eq!(words("a \"b \\\" c\" d // e\n/* f */ g"), ["a", "d", "g"]);
        assert_eq!(words("r#\"x \" y\"# z br\"q\" b\"r\" bare"), ["z", "bare"]);
        assert_eq!(words("'x' '\\'' '\\u{1F}' b'q' &'a str"), ["b", "a", "str"]);
    }

    #[test]
    fn items_for_tests_are_left_out() {
        let kept = without_tests(&read("a; #[cfg(test)] mod x; b; #[cfg(test)]\nmod tests { c { d } } e"));
        assert_eq!(kept.iter().filter_map(Lexeme::word).collect::<Vec<_>>(), ["a", "b", "e"]);
    }

    #[test]
    fn a_block_is_counted() {
        let methods = |text: &str| methods_of(&read(text));
        assert_eq!(
            methods("<'a, T: X<Y>> a::B<'a, T> where T: Z { fn c() { fn d() {} } fn e() {} }"),
            Some(("B".to_owned(), 2))
        );
        assert_eq!(methods("A for B { fn c() {} }"), None);
    }
}
