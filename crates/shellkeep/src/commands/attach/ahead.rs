//! What a person types while a command runs and the command does not read: the next lines, as in every shell.

/// Text for the next prompts.
#[derive(Debug, Default)]
pub struct Ahead {
    text: String,
}

impl Ahead {
    /// Adds what was typed. A key that is no character, such as an arrow, ends it: what follows was meant for a line that
    /// was not there yet.
    pub fn add(&mut self, typed: &[u8]) {
        let typed = String::from_utf8_lossy(typed).replace('\r', "\n");
        let is_key = |character: char| character.is_control() && character != '\n';
        self.text.extend(typed.chars().take_while(|character| !is_key(*character)));
    }

    /// Takes a whole line, without its end.
    pub fn next_line(&mut self) -> Option<String> {
        let (line, rest) = self.text.split_once('\n')?;
        let (line, rest) = (line.to_owned(), rest.to_owned());
        self.text = rest;
        Some(line)
    }

    /// Takes the beginning of a line.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_first_and_a_beginning_stays() {
        let mut ahead = Ahead::default();
        ahead.add(b"ls\necho a");
        ahead.add("\u{e4}b\rrest\x1b[A lost".as_bytes());
        assert_eq!(ahead.next_line().as_deref(), Some("ls"));
        assert_eq!(ahead.next_line().as_deref(), Some("echo a\u{e4}b"));
        assert_eq!(ahead.next_line(), None);
        assert_eq!((ahead.take(), ahead.take()), ("rest".to_owned(), String::new()));
    }
}
