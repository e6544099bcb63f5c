//! The parts of a program that are loaded when it runs: code and data. Debug information holds the path of the directory in
//! which a program was built, and its order depends on that path, so that it cannot be compared between two places.

/// Flag of a section that is loaded.
const LOADED: u64 = 2;
/// Type of a section that has no bytes in the file.
const NO_BYTES: u32 = 8;
/// Length of the table's entries.
const ENTRY: usize = 64;
/// A hash of the whole file, debug information too.
const BUILD_ID: &[u8] = b".note.gnu.build-id";

/// Name and bytes of a section.
pub type Section<'a> = (&'a [u8], &'a [u8]);

/// The loaded sections, if this is an ELF file for a machine of 64 bits with the low byte first.
pub fn loaded(file: &[u8]) -> Option<Vec<Section<'_>>> {
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = number(file, 0x28, 8)?;
    let (length, count, names) = (number(file, 0x3a, 2)?, number(file, 0x3c, 2)?, number(file, 0x3e, 2)?);
    if length != ENTRY {
        return None;
    }
    let section = |index: usize| file.get(table.checked_add(index.checked_mul(ENTRY)?)?..)?.get(..ENTRY);
    let bytes = |entry: &[u8]| file.get(number(entry, 24, 8)?..)?.get(..number(entry, 32, 8)?);
    let texts = bytes(section(names)?)?;
    let mut found = Vec::new();
    for index in 0..count {
        let entry = section(index)?;
        let name = texts.get(number(entry, 0, 4)?..)?;
        let name = &name[..name.iter().position(|byte| *byte == 0)?];
        let is_loaded = number(entry, 8, 8)? as u64 & LOADED != 0;
        if is_loaded && number(entry, 4, 4)? != NO_BYTES as usize && name != BUILD_ID {
            found.push((name, bytes(entry)?));
        }
    }
    Some(found)
}

fn number(bytes: &[u8], place: usize, length: usize) -> Option<usize> {
    let bytes = bytes.get(place..place.checked_add(length)?)?;
    let number = bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    usize::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_code_and_data() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let sections = loaded(&program).expect("we are one");
        let names: Vec<&[u8]> = sections.iter().map(|(name, _)| *name).collect();
        assert!(names.contains(&&b".text"[..]) && names.contains(&&b".rodata"[..]));
        assert!(!names.iter().any(|name| *name == b".debug_info" || *name == BUILD_ID));
    }

    #[test]
    fn anything_else_is_none() {
        assert_eq!(loaded(b""), None);
        assert_eq!(loaded(b"int main;\n"), None);
        let program = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(loaded(&program[..4096]), None, "a cut one is none");
        let mut wild = program[..4096].to_vec();
        wild[0x28..0x30].fill(0xff);
        assert_eq!(loaded(&wild), None);
    }
}
