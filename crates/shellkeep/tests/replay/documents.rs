//! The examples of the documents are run as they are written, line by line on a terminal in a fresh home, and what they
//! print is compared with what is shown. Times, ids, sizes and hashes may differ, and so may the breaks of lines.

use crate::support::bash;
use crate::support::daemon::{free_port, signal};
use regex::Regex;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The ports in the documents; the test uses some that are free. The first has as many digits as those: sizes of logs are
/// compared.
const PORTS: [&str; 2] = ["18124", "8123"];
/// Stands before the output of each command.
const MARK: &str = "@@ next @@";

/// A command of a document and what it is shown to print.
struct Example {
    line: usize,
    command: String,
    shown: String,
}

impl Example {
    /// Whether the next line belongs to the command.
    fn goes_on(&self) -> bool {
        self.command.ends_with('\\') && self.shown.is_empty()
    }
}

/// The `console` blocks of a document: `$ ` begins a command, what follows it is its output.
fn examples(text: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        match (inside, line, line.strip_prefix("$ ")) {
            (false, "```console", _) => inside = true,
            (true, "```", _) => inside = false,
            (true, _, Some(command)) => {
                found.push(Example { line: number + 1, command: command.to_owned(), shown: String::new() });
            }
            (true, more, None) if found.last().is_some_and(Example::goes_on) => {
                let command = &mut found.last_mut().expect("it goes on").command;
                *command = format!("{command}\n{more}");
            }
            (true, output, None) => {
                let shown = &mut found.last_mut().expect("a block begins with a command").shown;
                shown.push_str(output);
                shown.push('\n');
            }
            (false, ..) => {}
        }
    }
    found
}

/// Runs commands one after the other in one bash on a terminal. Gives what each of them printed.
fn run(home: &Path, examples: &[Example]) -> Vec<String> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let side = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    tcsetwinsize(&side, Winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let step = |example: &Example| format!("printf '{MARK}\\n'\n{}\n", example.command);
    let script = home.join("script");
    fs::write(&script, format!("cd ~/app\n{}", examples.iter().map(step).collect::<String>())).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_shellkeep")).parent().unwrap();
    let copy = || Stdio::from(side.try_clone().unwrap());
    let mut child = Command::new("bash")
        .arg(&script)
        .env_clear()
        .envs(bash::environment())
        .env("HOME", home)
        .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", program.display()))
        .env("NO_COLOR", "1")
        .env("PAGER", "cat")
        .stdin(Stdio::null())
        .stdout(copy())
        .stderr(copy())
        .spawn()
        .unwrap();
    let mut reader = File::from(master);
    let reading = std::thread::spawn(move || {
        let mut output = Vec::new();
        // A terminal that nobody has open ends with an error.
        let _ = reader.read_to_end(&mut output);
        String::from_utf8_lossy(&output).into_owned()
    });
    child.wait().unwrap();
    drop(side);
    let output = reading.join().unwrap();
    output.split(&format!("{MARK}\r\n")).skip(1).map(str::to_owned).collect()
}

/// A text without what differs from one run to the next: `even` says what that is.
fn evened(text: &str, home: &Path, even: &[(Regex, &str)]) -> String {
    let text = text.replace(&*home.to_string_lossy(), "~");
    let text = even.iter().fold(text, |text, (what, by)| what.replace_all(&text, *by).into_owned());
    text.split_whitespace().collect()
}

fn even() -> Vec<(Regex, &'static str)> {
    [
        ("\x1b\\[[0-9;?]*[A-Za-z]", ""),
        (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b(\d+[smhd] ago|now)\b", "AGO"),
        (r#""duration_ms":[\d.]+"#, "DURATION"),
        (r"\b\d+(\.\d+)? (ms|s)\b", "DURATION"),
        (r"\b\d+(\.\d+)? (B|KiB|MiB)\b", "SIZE"),
        (r"\b[0-9a-f]{12,}\b", "HASH"),
        (r"\btok_[\w-]+", "TOKEN"),
        (r"\bsk_[\w-]+", "SECRET"),
        (r"\d{8}T\d{6}\.\d+Z", "STAMP"),
        (r"\b(record|event) \d+", "$1 N"),
        (r"\bup to event \d+", "up to event N"),
        (r"\b\d+ events\b", "N events"),
        (r"\b\d+ files? \(", "N files ("),
        (r"\b\d+ files? restored", "N files restored"),
        (r"\b(rewind \S+) \d+", "$1 N"),
        (r"\b[rs]\d+\b", "ID"),
        (r#""seq":\d+"#, "SEQ"),
        (r"(?m)^ +\d+  TIME", "N TIME"),
        // Process ids: in a sentence, in JSON, and in the tables of services and sessions.
        (r#"(pid"?:? ?)\d+"#, "${1}NUMBER"),
        (r"(running +)\d+", "${1}NUMBER"),
        (r"(?m)^(\S+ +)\d+\b", "${1}NUMBER"),
        (r"\b\d{4,}\b", "NUMBER"),
    ]
    .into_iter()
    .map(|(what, by)| (Regex::new(what).unwrap(), by))
    .collect()
}

/// Whether a text is what is shown; `…` stands for anything.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    let parts: Vec<&str> = shown.split('…').collect();
    let [first, middle @ .., last] = parts.as_slice() else { return printed == shown };
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    for part in middle {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

fn follow(name: &str) {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("app")).unwrap();
    // The clone that the examples are in.
    std::os::unix::fs::symlink(fs::canonicalize(ROOT).unwrap(), home.path().join("shellkeep")).unwrap();
    let text = fs::read_to_string(Path::new(ROOT).join(name)).unwrap();
    let examples = examples(&PORTS.iter().fold(text, |text, port| text.replace(port, &free_port().port().to_string())));
    assert!(!examples.is_empty(), "{name} has no examples");
    let printed = run(home.path(), &examples);
    if let Ok(pid) = fs::read_to_string(home.path().join(".local/share/shellkeep/lock")) {
        signal(pid.trim().parse().unwrap(), "TERM");
    }
    assert_eq!(printed.len(), examples.len(), "every command was run: {printed:?}");
    let even = even();
    for (example, printed) in examples.iter().zip(&printed) {
        let [seen, shown] = [printed, &example.shown].map(|text| evened(text, home.path(), &even));
        let Example { line, command, shown: text } = example;
        assert!(
            is_as_shown(&seen, &shown),
            "{name}:{line}: $ {command}\nprinted:\n{printed}\nshown:\n{text}\ncompared:\n{seen}\n{shown}"
        );
    }
}

/// The pages with examples, as the tests below follow them.
const TASKS: [&str; 5] = ["give-an-agent-a-shell", "watch-it", "undo-it", "prove-it", "run-it-for-a-team"];
const REFERENCE: [&str; 6] = ["agents", "backup", "checkpoints", "mcp", "replay", "services"];
const OTHERS: [&str; 4] = ["README.md", "docs/api.md", "docs/tasks.md", "examples/agents/README.md"];

#[test]
fn the_readme() {
    follow("README.md");
}

#[test]
fn a_page_for_each_task() {
    for name in TASKS {
        follow(&format!("docs/{name}.md"));
    }
}

#[test]
fn ten_tasks() {
    follow("docs/tasks.md");
}

#[test]
fn example_agents() {
    follow("examples/agents/README.md");
}

/// A newcomer's task takes at most three commands, and `--help` lists each of them and its flags.
#[test]
fn a_task_takes_at_most_three_commands() {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/tasks.md")).unwrap();
    let tasks: Vec<&str> = text.split("\n## ").skip(1).collect();
    assert_eq!(tasks.len(), 10, "{tasks:?}");
    let all = help(&[]);
    for task in tasks {
        let examples = examples(task);
        assert!((1..=3).contains(&examples.len()), "{} commands: {task}", examples.len());
        for Example { command, .. } in &examples {
            for part in command.split("shellkeep ").skip(1) {
                let ends = |word: &&str| !word.starts_with(['|', '>', '<']) && *word != "--";
                let words = part.split([';', ')']).next().unwrap_or_default().split_whitespace().take_while(ends);
                let words: Vec<&str> = words.collect();
                assert!(all.contains(&format!("\n  {} ", words[0])), "{} is not in --help", words[0]);
                let help = help(&words);
                let missing = words.iter().find(|word| word.starts_with('-') && !help.contains(**word));
                assert_eq!(missing, None, "{command}: not in --help");
            }
        }
    }
}

/// What `--help` prints after these words.
fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_shellkeep")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pages_to_look_things_up() {
    for name in REFERENCE {
        follow(&format!("docs/{name}.md"));
    }
}

#[test]
fn http_by_example() {
    follow("docs/api.md");
}

/// Why an example cannot be run here. The line before a block of `sh` has one of them: `<!-- not run: … -->`.
const REASONS: [&str; 8] = [
    "builds this tree",
    "changes this machine, as root",
    "needs a container engine",
    "needs a database",
    "needs a model",
    "needs a person",
    "needs other machines",
    "needs the network",
];

/// All pages of the tree.
fn pages() -> Vec<(String, String)> {
    let folders =
        ["", "docs", "docs/design", "docs/python", "deploy", "examples/agents", "sdk/python", "sdk/typescript"];
    let mut pages = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let name = Path::new(folder).join(entry.unwrap().file_name()).display().to_string();
            if name.ends_with(".md") {
                let text = fs::read_to_string(Path::new(ROOT).join(&name)).unwrap();
                pages.push((name, text));
            }
        }
    }
    pages
}

/// An example is run, or its page says why it is not.
#[test]
fn every_example_is_run_or_says_why_not() {
    let in_docs = |name: &&str| format!("docs/{name}.md");
    let followed: Vec<String> = TASKS.iter().chain(&REFERENCE).map(in_docs).chain(OTHERS.map(str::to_owned)).collect();
    for (name, text) in pages() {
        let is_followed = followed.contains(&name);
        assert_eq!(text.contains("\n```console\n"), is_followed, "{name}: a test follows it if it has examples");
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let reason = |line: &str| Some(line.strip_prefix("<!-- not run: ")?.strip_suffix(" -->")?.to_owned());
            let place = format!("{name}:{}", number + 1);
            if ["```sh", "```bash", "```shell"].contains(line) {
                let before = number.checked_sub(1).and_then(|before| reason(lines[before]));
                let why = before.unwrap_or_else(|| panic!("{place}: use `console`, or say why it is not run"));
                assert!(REASONS.contains(&why.as_str()), "{place}: unknown reason '{why}'");
            } else if reason(line).is_some() {
                assert_eq!(lines.get(number + 1), Some(&"```sh"), "{place}: a reason for nothing");
            }
        }
    }
}

/// The commands in the `sh` blocks of a document. A comment and what a command is given by `sudo`, `docker exec` or a
/// variable are left out. What is quoted is one word.
fn commands(text: &str) -> Vec<String> {
    let quoted = Regex::new(r#"'[^'\n]*'|"[^"\n]*""#).unwrap();
    let in_one_word = |found: &regex::Captures| found[0].replace([' ', '\'', '"'], "_");
    let blocks = text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).map(|line| line.split(" #").next().unwrap_or_default());
    let commands = lines.flat_map(|line| line.split("&&")).map(str::trim);
    let commands = commands.map(|command| quoted.replace_all(command, in_one_word));
    let known = |command: &str| {
        let words: Vec<&str> =
            command.split_whitespace().take_while(|word| !word.starts_with(['<', '>', '|']) && *word != "--").collect();
        let start = words.windows(2).position(|pair| pair[0] == "shellkeep" && !pair[1].starts_with("shellkeep"));
        match (words.first(), start) {
            (Some(&"make"), _) if words.len() > 1 => Some(words.join(" ")),
            (Some(&("shellkeep" | "sudo")), Some(start)) => Some(words[start..].join(" ")),
            (Some(&"docker"), Some(start)) if words[1] == "exec" => Some(words[start..].join(" ")),
            _ => None,
        }
    };
    commands.filter_map(|command| known(&command)).collect()
}

/// What cannot be run here is checked: the program knows each command and flag, and the Makefile each target.
#[test]
fn commands_that_are_not_run_exist() {
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let mut checked = 0;
    for (page, text) in pages() {
        for command in commands(&text) {
            checked += 1;
            let (program, arguments) = command.split_once(' ').unwrap_or((&command, ""));
            if program == "make" {
                let target = arguments.split(' ').next().unwrap_or_default();
                let is_there = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
                assert!(is_there, "{page}: make {target}");
                continue;
            }
            let mut asked = Command::new(env!("CARGO_BIN_EXE_shellkeep"));
            let output = asked.args(arguments.split(' ')).arg("--help").output().unwrap();
            assert!(output.status.success(), "{page}: {command}: {output:?}");
        }
    }
    assert!(checked >= 10, "only {checked} commands were found");
}

#[test]
fn what_is_shown_is_compared() {
    for (printed, shown, same) in [
        ("ab", "ab", true),
        ("ab", "a", false),
        ("a", "ab", false),
        ("axxb", "a…b", true),
        ("axxbc", "a…b", false),
        ("axbxb", "a…b", true),
        ("axx", "a…", true),
        ("xxb", "…b", true),
        ("", "", true),
    ] {
        assert_eq!(is_as_shown(printed, shown), same, "{printed} {shown}");
    }
    let text = "x\n```console\n$ one\nout\n\nput\n$ two \\\n  three\n```\n$ none\n```sh\n$ not\n```\n";
    let found: Vec<(String, String)> = examples(text).into_iter().map(|one| (one.command, one.shown)).collect();
    let text = "\n```sh\nmake dist  # all of it\nsudo -u shellkeep shellkeep status --data D && shellkeep top\nls shellkeep\n```\n";
    assert_eq!(commands(text), ["make dist", "shellkeep status --data D", "shellkeep top"]);
    assert_eq!(found, [("one".to_owned(), "out\n\nput\n".to_owned()), ("two \\\n  three".to_owned(), String::new())]);
}
