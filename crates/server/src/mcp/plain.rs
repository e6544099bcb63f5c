//! Output for a model: text without terminal control.

use vte::{Parser, Perform};

/// Text without escape sequences and other control characters. Of a line that was overwritten, as by progress bars, the
/// final text is kept.
pub fn plain(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return text.to_owned();
    }
    let mut plain = Plain { text: String::with_capacity(text.len()), line: 0, is_returned: false };
    Parser::new().advance(&mut plain, text.as_bytes());
    plain.text
}

struct Plain {
    text: String,
    /// Where the last line begins.
    line: usize,
    /// Whether the next character overwrites the line.
    is_returned: bool,
}

impl Plain {
    fn write(&mut self, c: char) {
        if std::mem::take(&mut self.is_returned) {
            self.text.truncate(self.line);
        }
        self.text.push(c);
    }
}

impl Perform for Plain {
    fn print(&mut self, c: char) {
        if !c.is_control() {
            self.write(c);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.text.push('\n');
                (self.line, self.is_returned) = (self.text.len(), false);
            }
            b'\r' => self.is_returned = true,
            b'\t' => self.write('\t'),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_reads_text_and_no_terminal_codes() {
        for (written, read) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\u{1b}[1;31merror\u{1b}[0m: no\n", "error: no\n"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\\n", "alink\n"),
            ("10%\r50%\r100%\ndone\r\n", "100%\ndone\n"),
            ("\u{1b}(Ba\u{1b}Mb\u{8}c\u{0}", "abc"),
            ("cut \u{1b}[3", "cut "),
            ("\r\n\n", "\n\n"),
            ("\u{1b}[31mgrün\u{1b}[0m ✓\u{7f}\u{9b}x\n", "grün ✓x\n"),
            ("\u{1b}P1;2|secret\u{1b}\\end", "end"),
            ("long\r\u{1b}[Kok\r\r\n", "ok\n"),
        ] {
            assert_eq!(plain(written), read, "{written:?}");
        }
    }
}
