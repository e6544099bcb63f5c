//! Output for a model: text without terminal control.

/// Text without escape sequences and other control characters. Of a line that was overwritten, as by progress bars, the
/// final text is kept.
pub fn plain(text: &str) -> String {
    if !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return text.to_owned();
    }
    let text = without_escapes(text);
    let mut plain = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let last = line.split('\r').rfind(|part| !part.is_empty()).unwrap_or_default();
        plain.extend(last.chars().filter(|c| !c.is_control() || *c == '\t'));
        plain.push_str(end);
    }
    plain
}

/// Drops escape sequences (ECMA-48): `ESC [` up to a final byte, strings such as titles up to their end, and the short ones.
fn without_escapes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            kept.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => drop(chars.find(|c| ('\u{40}'..='\u{7e}').contains(c))),
            Some(']' | 'P' | 'X' | '^' | '_') => skip_string(&mut chars),
            // With an intermediate byte one more follows.
            Some('\u{20}'..='\u{2f}') => drop(chars.next()),
            _ => {}
        }
    }
    kept
}

/// A string ends with BEL or with ESC and a backslash.
fn skip_string(chars: &mut std::str::Chars<'_>) {
    while let Some(c) = chars.next() {
        if c == '\u{7}' || (c == '\u{1b}' && chars.clone().next() == Some('\\')) {
            if c == '\u{1b}' {
                chars.next();
            }
            return;
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
        ] {
            assert_eq!(plain(written), read, "{written:?}");
        }
    }
}
