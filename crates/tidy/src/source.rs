//! Rules about source files, each a function from text to complaints.

/// Longest source file, without its tests. Longer ones are two subjects.
pub const FILE_LINES: usize = 500;
/// Longest file of tests: tables are long and read from top to bottom.
pub const TEST_FILE_LINES: usize = 700;

/// Whether a path is a file of tests, examples or benches, where panicking is how one speaks.
pub fn is_test_file(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let file = parts.last().copied().unwrap_or_default();
    let folder = parts.iter().any(|part| matches!(*part, "tests" | "benches" | "examples" | "bench"));
    folder || file == "tests.rs" || file.ends_with("_tests.rs") || file == "build.rs"
}

/// Whether a path is in a folder of tests, where nothing may sleep. Benches measure time and may.
pub fn is_in_tests(path: &str) -> bool {
    is_test_file(path) && (path.contains("/tests/") || path.ends_with("tests.rs"))
}

/// The modules that a file declares for tests only (`#[cfg(test)] mod contract;`), as path prefixes without `.rs`.
pub fn test_modules(path: &str, text: &str) -> Vec<String> {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    // Modules of `lib.rs`, `main.rs` and `mod.rs` lie beside them, those of another file in the folder of its name.
    let home = match file.strip_suffix(".rs") {
        Some("lib" | "main" | "mod") | None => folder.to_owned(),
        Some(stem) => format!("{folder}/{stem}"),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(test)]"));
    let names = declared.filter_map(|pair| pair[1].strip_suffix(';')?.split_once("mod ").map(|(_, name)| name));
    names.map(|name| format!("{home}/{name}")).collect()
}

/// The text before the first `#[cfg(test)]`.
pub fn without_tests(text: &str) -> &str {
    let start = text.lines().scan(0, |offset, line| {
        let at = *offset;
        *offset += line.len() + 1;
        Some((at, line))
    });
    let tests = start.into_iter().find(|(_, line)| line.trim_start().starts_with("#[cfg(test)]"));
    tests.map_or(text, |(at, _)| &text[..at])
}

/// The line of the `#[cfg(test)]` before a file's own `mod tests {`.
fn inline_tests(text: &str) -> Option<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_module = |at: usize| {
        let item = lines[at..].iter().find(|line| !line.starts_with("#["));
        item.is_some_and(|line| line.contains("mod ") && line.ends_with('{'))
    };
    (0..lines.len()).find(|at| lines[*at] == "#[cfg(test)]" && is_module(*at)).map(|at| at + 1)
}

/// Every file opens with a `//!` sentence: what is in here.
pub fn missing_docs(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!"));
    !first.is_some_and(|line| line.starts_with("//! "))
}

/// A file's length beyond its limit.
pub fn too_long(path: &str, text: &str) -> Option<String> {
    let (lines, limit) = if is_test_file(path) {
        (text.lines().count(), TEST_FILE_LINES)
    } else {
        (without_tests(text).lines().count(), FILE_LINES)
    };
    (lines > limit).then(|| format!("{path}: {lines} lines, at most {limit}"))
}

/// Lines that call `crates/poll`.
pub fn polling_lines(text: &str) -> Vec<usize> {
    code_lines(text).filter(|(_, line)| line.contains("shellkeep_poll::")).map(|(n, _)| n).collect()
}

/// Lines that sleep, under any name, or spin.
pub fn sleeping_lines(text: &str) -> Vec<usize> {
    let calls = ["thread::sleep(", "time::sleep(", "sleep_until(", "park_timeout(", "thread::yield_now("];
    code_lines(text).filter(|(_, line)| calls.iter().any(|call| line.contains(call))).map(|(n, _)| n).collect()
}

/// The lines of these in a file's own module of tests, which is the last item of the file.
pub fn sleeping_test_lines(text: &str) -> Vec<usize> {
    let tests = inline_tests(text);
    sleeping_lines(text).into_iter().filter(|line| tests.is_some_and(|tests| *line > tests)).collect()
}

/// Lines that derive serialisation.
pub fn serialising_lines(text: &str) -> Vec<usize> {
    let derives = |line: &str| line.contains("derive(") && (line.contains("Serialize") || line.contains("Deserialize"));
    code_lines(text).filter(|(_, line)| derives(line)).map(|(n, _)| n).collect()
}

/// Lines with a path that exists only on somebody's machine, by the directories people work in.
pub fn machine_paths(text: &str, directories: &[&str]) -> Vec<usize> {
    let bad = |line: &str| directories.iter().any(|directory| line.contains(directory));
    text.lines().enumerate().filter(|(_, line)| bad(line)).map(|(n, _)| n + 1).collect()
}

/// Numbered lines without comments. A `//` inside a string ends the line early, which can only hide, never accuse.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(n, line)| (n + 1, line.split("//").next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "//! Doc.\nfn f() { g(); }\nfn h() {}\n#[cfg(test)]\nmod tests { h().expect(\"\"); }\n";

    #[test]
    fn tests_are_cut_off() {
        assert_eq!(without_tests(SAMPLE).lines().count(), 3);
        assert_eq!(without_tests("a\nb"), "a\nb");
    }

    #[test]
    fn each_rule_finds_its_line() {
        assert_eq!(sleeping_lines("a\nstd::thread::sleep(d);\ntokio::time::sleep(d).await;\n"), [2, 3]);
        assert_eq!(sleeping_lines("std::thread::park_timeout(d);\nstd::thread::yield_now();\n"), [1, 2]);
        let inline =
            "time::sleep(d);\n#[cfg(test)]\nuse a::b;\n#[cfg(test)]\n#[allow(x)]\nmod tests {\ntime::sleep(d);\n}\n";
        assert_eq!(sleeping_test_lines(inline), [7]);
        assert_eq!(sleeping_test_lines("time::sleep(d);\n"), [0; 0]);
        assert_eq!(polling_lines("use shellkeep_poll::until;\nuntil(x);\n"), [1]);
        assert_eq!(serialising_lines("#[derive(Clone, Serialize)]\n#[derive(Clone)]"), [1]);
        assert_eq!(machine_paths("x\n/somewhere/y", &["/somewhere/"]), [2]);
        assert!(!missing_docs(SAMPLE) && missing_docs("use x;\n//! late") && missing_docs(""));
    }

    #[test]
    fn modules_for_tests_are_tests() {
        let text = "mod a;\n#[cfg(test)]\nmod contract;\n";
        assert_eq!(test_modules("crates/store/src/lib.rs", text), ["crates/store/src/contract"]);
        assert_eq!(test_modules("crates/store/src/a.rs", text), ["crates/store/src/a/contract"]);
        assert!(is_in_tests("crates/a/tests/b.rs") && !is_in_tests("bench/src/b.rs"));
    }

    #[test]
    fn length_is_counted_without_tests() {
        let long = "x\n".repeat(FILE_LINES + 1);
        let long_tests = format!("#[cfg(test)]\n{long}");
        assert!(too_long("crates/a/src/b.rs", &long).is_some());
        assert!(too_long("crates/a/src/b.rs", &long_tests).is_none());
        assert!(too_long("crates/a/tests/b.rs", &long).is_none());
        assert!(too_long("crates/a/tests/b.rs", &long.repeat(2)).is_some());
    }
}
