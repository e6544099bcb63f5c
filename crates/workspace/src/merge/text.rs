//! Merges a text that two changed, by lines.

/// Comparing takes a time that grows with the product of the lines: some 0.1 s at worst with this many pairs.
const PAIRS_MOST: usize = 20_000_000;
/// As git does: a NUL among the first bytes means that it is not text.
const LOOKED_AT: usize = 8000;

/// The merged text, or why there is none.
pub(super) fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Result<Vec<u8>, &'static str> {
    let texts = [base, ours, theirs];
    if texts.iter().any(|text| text.iter().take(LOOKED_AT).any(|byte| *byte == 0)) {
        return Err("changed on both sides and not a text file");
    }
    let lines = texts.map(|text| text.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>());
    // What all three have in common at both ends needs not be compared; one line stays, for the changes' neighbours.
    let before = common(lines.each_ref().map(|lines| lines.iter())).saturating_sub(1);
    let rest = lines.each_ref().map(|lines| &lines[before..]);
    let after = common(rest.map(|lines| lines.iter().rev())).saturating_sub(1);
    let [base, ours, theirs] = rest.map(|lines| &lines[..lines.len() - after]);
    if base.len().saturating_mul(ours.len().max(theirs.len())) > PAIRS_MOST {
        return Err("changed on both sides and too long to merge");
    }
    let middle = diffy::merge_bytes(&base.concat(), &ours.concat(), &theirs.concat());
    let middle = middle.map_err(|_| "the same lines changed on both sides")?;
    let mut merged = lines[0][..before].concat();
    merged.extend_from_slice(&middle);
    merged.extend_from_slice(&lines[0][lines[0].len() - after..].concat());
    Ok(merged)
}

/// How many lines are the same in all three.
fn common<'a>([base, ours, theirs]: [impl Iterator<Item = &'a &'a [u8]>; 3]) -> usize {
    base.zip(ours).zip(theirs).take_while(|((base, ours), theirs)| base == ours && base == theirs).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_apart_merge_and_the_same_lines_do_not() {
        let base = b"1\n2\n3\n4\n5\n6\n7\n8\n9";
        let ours = b"1\n2 ours\n3\n4\n5\n6\n7\n8\n9";
        let theirs = b"1\n2\n3\n4\n5\n6\n8\n9\n10\n";
        assert_eq!(merge(base, ours, theirs).unwrap(), b"1\n2 ours\n3\n4\n5\n6\n8\n9\n10\n");
        assert_eq!(merge(base, base, theirs).unwrap(), theirs);
        assert_eq!(merge(base, ours, ours).unwrap(), ours);
        assert!(merge(base, ours, b"1\n2 theirs\n3\n4\n5\n6\n7\n8\n9").unwrap_err().contains("same lines"));
        assert!(merge(b"a\0", b"b\0", b"c\0").unwrap_err().contains("not a text file"));
    }

    #[test]
    fn long_texts_merge_if_little_of_them_changed() {
        let line = |number: usize| format!("line {number}\n").into_bytes();
        let base: Vec<Vec<u8>> = (0..30_000).map(line).collect();
        let with = |at: usize, text: &str| {
            let mut lines = base.clone();
            lines[at] = text.as_bytes().to_vec();
            lines.concat()
        };
        let merged = merge(&base.concat(), &with(15_000, "ours\n"), &with(15_010, "theirs\n")).unwrap();
        let text = String::from_utf8(merged).unwrap();
        assert!(text.contains("line 14999\nours\nline 15001\n") && text.contains("\ntheirs\n"));
        assert_eq!(text.lines().count(), 30_000);
        assert!(merge(&base.concat(), &with(0, "ours\n"), &with(29_000, "theirs\n")).unwrap_err().contains("too long"));
    }
}
