//! The C parts as they were built: what an overflow in them could use is closed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

const DRIVER: &[u8] = include_bytes!(env!("SHELLKEEP_DRIVER"));
const KEEPER: &[u8] = include_bytes!(env!("SHELLKEEP_KEEPER"));

/// Numbers of the ELF format.
const PT_DYNAMIC: u32 = 2;
const PT_GNU_STACK: u32 = 0x6474_e551;
const PT_GNU_RELRO: u32 = 0x6474_e552;
const PF_X: u32 = 1;
const DT_FLAGS: u64 = 30;
const DF_BIND_NOW: u64 = 8;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_NOW: u64 = 1;
/// A position-independent object; a program that is not one is 2.
const ET_DYN: u16 = 3;

/// A program header.
struct Part {
    kind: u32,
    flags: u32,
    offset: usize,
    size: usize,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().unwrap()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(number(bytes, at))
}

fn parts(object: &[u8]) -> Vec<Part> {
    assert_eq!(&object[..5], b"\x7fELF\x02", "a 64-bit object");
    let (first, size) = (word(object, 32) as usize, usize::from(u16::from_ne_bytes(number(object, 54))));
    let count = usize::from(u16::from_ne_bytes(number(object, 56)));
    let part = |n: usize| {
        let at = first + n * size;
        let [kind, flags] = [at, at + 4].map(|at| u32::from_ne_bytes(number(object, at)));
        Part { kind, flags, offset: word(object, at + 8) as usize, size: word(object, at + 32) as usize }
    };
    (0..count).map(part).collect()
}

fn names(object: &[u8], name: &str) -> bool {
    object.windows(name.len()).any(|window| window == name.as_bytes())
}

#[test]
fn the_c_parts_are_hardened() {
    if cfg!(not(target_pointer_width = "64")) {
        return println!("skipped: this reads 64-bit objects only");
    }
    for (what, object) in [("driver", DRIVER), ("keeper", KEEPER)] {
        let parts = parts(object);
        let find = |kind: u32| parts.iter().find(|part| part.kind == kind);
        assert_eq!(u16::from_ne_bytes(number(object, 16)), ET_DYN, "{what}: not position-independent");
        assert!(find(PT_GNU_RELRO).is_some(), "{what}: no RELRO");
        assert!(find(PT_GNU_STACK).is_some_and(|stack| stack.flags & PF_X == 0), "{what}: an executable stack");
        let dynamic = find(PT_DYNAMIC).unwrap();
        let entries = object[dynamic.offset..dynamic.offset + dynamic.size].chunks_exact(16);
        let now = entries.map(|entry| (word(entry, 0), word(entry, 8))).any(|(tag, value)| {
            (tag == DT_FLAGS && value & DF_BIND_NOW != 0) || (tag == DT_FLAGS_1 && value & DF_1_NOW != 0)
        });
        assert!(now, "{what}: bound lazily, so its table of functions stays writable");
        assert!(names(object, "__stack_chk_fail"), "{what}: no stack protector");
    }
    // In the driver the compiler sees of every copy that it fits.
    assert!(cfg!(not(target_env = "gnu")) || names(KEEPER, "__snprintf_chk"), "keeper: no checked copies");
}
