//! Keys of a terminal by name, as in tmux: `Enter`, `Down`, `C-c`. What a key sends depends on the program's mode.

/// What is typed into a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunInput {
    /// These bytes.
    Bytes(Vec<u8>),
    /// These bytes, and nothing after them.
    LastBytes(Vec<u8>),
    /// Keys of its terminal.
    Keys(Vec<Key>),
}

/// What a person can type at a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    /// Characters. A line break is the Enter key.
    Text(String),
    /// A key that is pressed with these others.
    Pressed { code: KeyCode, held: HeldKeys },
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCode {
    /// A key with a character of its own.
    Character(char),
    /// Shift and Tab.
    BackTab,
    /// An arrow, Home or End, by the letter that ends its sequence.
    Cursor(char),
    /// F1 to F4, by the letter that ends its sequence.
    Function(char),
    /// Another key, by its number.
    Numbered(u8),
}

/// Keys that are held down with another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldKeys {
    pub shift: bool,
    pub alt: bool,
    pub ctrl: bool,
}

/// Keys by their names.
const NAMED: [(&str, KeyCode); 37] = [
    ("Enter", KeyCode::Character('\r')),
    ("Return", KeyCode::Character('\r')),
    ("Esc", KeyCode::Character('\x1b')),
    ("Escape", KeyCode::Character('\x1b')),
    ("Tab", KeyCode::Character('\t')),
    ("BTab", KeyCode::BackTab),
    ("Space", KeyCode::Character(' ')),
    ("Backspace", KeyCode::Character('\x7f')),
    ("BSpace", KeyCode::Character('\x7f')),
    ("Up", KeyCode::Cursor('A')),
    ("Down", KeyCode::Cursor('B')),
    ("Right", KeyCode::Cursor('C')),
    ("Left", KeyCode::Cursor('D')),
    ("Home", KeyCode::Cursor('H')),
    ("End", KeyCode::Cursor('F')),
    ("Insert", KeyCode::Numbered(2)),
    ("IC", KeyCode::Numbered(2)),
    ("Delete", KeyCode::Numbered(3)),
    ("DC", KeyCode::Numbered(3)),
    ("PageUp", KeyCode::Numbered(5)),
    ("PgUp", KeyCode::Numbered(5)),
    ("PPage", KeyCode::Numbered(5)),
    ("PageDown", KeyCode::Numbered(6)),
    ("PgDn", KeyCode::Numbered(6)),
    ("NPage", KeyCode::Numbered(6)),
    ("F1", KeyCode::Function('P')),
    ("F2", KeyCode::Function('Q')),
    ("F3", KeyCode::Function('R')),
    ("F4", KeyCode::Function('S')),
    ("F5", KeyCode::Numbered(15)),
    ("F6", KeyCode::Numbered(17)),
    ("F7", KeyCode::Numbered(18)),
    ("F8", KeyCode::Numbered(19)),
    ("F9", KeyCode::Numbered(20)),
    ("F10", KeyCode::Numbered(21)),
    ("F11", KeyCode::Numbered(23)),
    ("F12", KeyCode::Numbered(24)),
];

impl Key {
    /// The key with this name; text if there is none.
    pub fn named(name: &str) -> Self {
        let (mut held, mut rest) = (HeldKeys::default(), name);
        loop {
            let (flag, after) = if let Some(after) = without(rest, ["C-", "Ctrl-", "Ctrl+"]) {
                (&mut held.ctrl, after)
            } else if let Some(after) = without(rest, ["M-", "Alt-", "Alt+"]) {
                (&mut held.alt, after)
            } else if let Some(after) = without(rest, ["S-", "Shift-", "Shift+"]) {
                (&mut held.shift, after)
            } else {
                break;
            };
            *flag = true;
            rest = after;
        }
        let mut letters = rest.chars();
        let code = match (letters.next(), letters.next()) {
            (Some(letter), None) if held != HeldKeys::default() => Some(KeyCode::Character(letter)),
            _ => NAMED.iter().find(|(named, _)| *named == rest).map(|(_, code)| *code),
        };
        let code = match code {
            Some(KeyCode::Character('\t')) if held.shift => Some(KeyCode::BackTab),
            // Only some characters have a control code.
            Some(KeyCode::Character(letter)) if held.ctrl && control(letter).is_none() => None,
            code => code,
        };
        code.map_or_else(|| Self::Text(name.to_owned()), |code| Self::Pressed { code, held })
    }

    /// Appends what a terminal sends for it. `application` is the mode in which arrows have other sequences.
    pub fn send(&self, application: bool, out: &mut Vec<u8>) {
        let (code, held) = match self {
            Self::Text(text) => return out.extend(text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()),
            Self::Pressed { code, held } => (*code, *held),
        };
        let modifier = 1 + u8::from(held.shift) + 2 * u8::from(held.alt) + 4 * u8::from(held.ctrl);
        let sequence = match code {
            KeyCode::Character(letter) => {
                let letter = if held.ctrl { control(letter).unwrap_or(letter) } else { letter };
                let letter = if held.shift { letter.to_ascii_uppercase() } else { letter };
                format!("{}{letter}", if held.alt { "\x1b" } else { "" })
            }
            KeyCode::BackTab => "\x1b[Z".to_owned(),
            KeyCode::Cursor(last) if modifier == 1 => format!("\x1b{}{last}", if application { 'O' } else { '[' }),
            KeyCode::Function(last) if modifier == 1 => format!("\x1bO{last}"),
            KeyCode::Cursor(last) | KeyCode::Function(last) => format!("\x1b[1;{modifier}{last}"),
            KeyCode::Numbered(number) if modifier == 1 => format!("\x1b[{number}~"),
            KeyCode::Numbered(number) => format!("\x1b[{number};{modifier}~"),
        };
        out.extend_from_slice(sequence.as_bytes());
    }
}

fn without<'a>(text: &'a str, prefixes: [&str; 3]) -> Option<&'a str> {
    prefixes.into_iter().find_map(|prefix| text.strip_prefix(prefix)).filter(|rest| !rest.is_empty())
}

/// The character that Ctrl makes of another.
fn control(letter: char) -> Option<char> {
    match letter {
        ' ' | '@' => Some('\0'),
        '?' => Some('\x7f'),
        'a'..='z' | 'A'..='Z' | '['..='_' => Some(char::from(letter as u8 & 0x1f)),
        '\r' | '\t' | '\x1b' | '\x7f' => Some(letter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(names: &[&str], application: bool) -> String {
        let mut out = Vec::new();
        names.iter().for_each(|name| Key::named(name).send(application, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_send_what_xterm_sends() {
        let cases = [
            ("Enter", "\r"),
            ("Esc", "\x1b"),
            ("Backspace", "\x7f"),
            ("C-c", "\x03"),
            ("Ctrl+C", "\x03"),
            ("C-[", "\x1b"),
            ("C-Space", "\0"),
            ("M-x", "\x1bx"),
            ("S-a", "A"),
            ("C-M-a", "\x1b\x01"),
            ("S-Tab", "\x1b[Z"),
            ("F1", "\x1bOP"),
            ("S-F1", "\x1b[1;2P"),
            ("F12", "\x1b[24~"),
            ("PageUp", "\x1b[5~"),
            ("C-Delete", "\x1b[3;5~"),
            ("C-Left", "\x1b[1;5D"),
        ];
        for (name, expected) in cases {
            assert_eq!(sent(&[name], false), expected, "{name}");
            assert_eq!(sent(&[name], true), expected, "{name} in application mode");
        }
        assert_eq!((sent(&["Up"], false), sent(&["Up"], true)), ("\x1b[A".to_owned(), "\x1bOA".to_owned()));
    }

    #[test]
    fn what_names_no_key_is_text() {
        for text in ["", "x", "-", "C-", "enter", "Enter now", "C-3PO", "C-1", "S-expression", "é"] {
            assert_eq!(Key::named(text), Key::Text(text.to_owned()));
            assert_eq!(sent(&[text], true), text);
        }
        assert_eq!(sent(&["a\nb\r\nc", "Enter"], false), "a\rb\rc\r", "a line break is the Enter key");
    }
}
