//! A session is its state: whatever takes the shell away (sleep, `exit`, a killed shell, a killed daemon), the next
//! shell knows the same things. First by random states, then by what people really have.

mod support;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use support::daemon::signal;
use support::{Daemon, Settings, groups};

/// Everything a shell can tell of itself, by its own words.
const DUMP: &str = r#"declare -p; declare -f; alias; shopt; set -o; trap -p; umask; ulimit -S -a; dirs -l -p; printf '%q ' "$@"; enable -n; pwd"#;

/// Variables that bash itself changes all the time.
const VOLATILE: [&str; 14] = [
    "BASHPID",
    "BASH_ARGC",
    "BASH_ARGV",
    "BASH_COMMAND",
    "BASH_LINENO",
    "EPOCHREALTIME",
    "EPOCHSECONDS",
    "LINENO",
    "PIPESTATUS",
    "PPID",
    "RANDOM",
    "SECONDS",
    "SRANDOM",
    "_",
];

fn dump(daemon: &Daemon, session: &str) -> Vec<String> {
    let reply = daemon.sh(session, DUMP);
    let text = reply.stdout();
    let volatile = |line: &&[u8]| {
        let mut words = line.splitn(3, |&b| b == b' ');
        let (first, _, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
        let name = rest.split(|&b| b == b'=').next().unwrap_or_default();
        first == Some(b"declare") && VOLATILE.iter().any(|known| known.as_bytes() == name)
    };
    text.split(|&b| b == b'\n').filter(|line| !volatile(line)).map(|line| line.escape_ascii().to_string()).collect()
}

fn assert_same(before: &[String], after: &[String], way: &str, script: &[u8]) {
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    let script = script.escape_ascii();
    assert!(before == after, "after {way}:\ngone: {gone:#?}\nnew: {new:#?}\nscript: {script}");
}

/// Takes the shell away in every way there is, and compares what the next one knows.
fn survives_everything(daemon: &mut Daemon, session: &str, script: &[u8]) {
    let before = dump(daemon, session);
    daemon.hibernate(session);
    assert_same(&before, &dump(daemon, session), "hibernate", script);
    daemon.sh(session, "exit 3");
    assert_same(&before, &dump(daemon, session), "exit", script);
    daemon.sh(session, "kill -9 $$");
    assert_same(&before, &dump(daemon, session), "kill -9 of the shell", script);
    signal(zygote(daemon), "KILL");
    daemon.hibernate(session);
    assert_same(&before, &dump(daemon, session), "kill -9 of the zygote", script);
    daemon.restart();
    assert_same(&before, &dump(daemon, session), "kill -9 of the daemon", script);
}

/// The process id of the bash from which shells are forked. A shell is in its group until it has left for its own.
fn zygote(daemon: &Daemon) -> u32 {
    shellkeep_poll::until("there is one zygote", || match groups::members(&daemon.data(), "zygote-")[..] {
        [zygote] => Some(zygote),
        _ => None,
    })
}

/// Shells that were forked do not need the one they were forked from, and the next one is forked from another.
#[test]
fn a_killed_zygote_is_replaced_and_no_one_notices() {
    let mut daemon = Daemon::start();
    let forked = |daemon: &Daemon| {
        let metrics = daemon.get("/metrics").text();
        let line = metrics.lines().find_map(|line| line.strip_prefix("shellkeep_shells_forked_total "));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    for session in ["before", "after"] {
        daemon.create(session);
    }
    assert_eq!(daemon.sh("before", "x=1; sleep 1000 & echo $$ $PPID").exit_code(), Some(0));
    let (killed, count) = (zygote(&daemon), forked(&daemon));
    signal(killed, "KILL");
    assert!(count > 0, "shells are not forked");
    assert_eq!(daemon.sh("before", "echo $x; jobs -r | wc -l").out(), "1\n1\n");
    for round in 0..5 {
        daemon.hibernate("after");
        assert_eq!(daemon.sh("after", "echo $((++n))").out(), format!("{}\n", round + 1));
    }
    assert!(forked(&daemon) > count, "shells are no longer forked");
    assert_ne!(zygote(&daemon), killed);
    // Nor does one outlive its daemon.
    daemon.kill();
    shellkeep_poll::until("the zygote ends with its daemon", || {
        groups::members(&daemon.data(), "zygote-").is_empty().then_some(())
    });
    daemon.restart();
    assert_eq!(daemon.sh("before", "echo $x").out(), "1\n");
}

/// Shells that were started in advance, if no session has one; in rooms, the first process of each too.
fn spares(daemon: &Daemon, count: usize) -> Vec<u32> {
    shellkeep_poll::until("spares", || (daemon.get("/readyz").json()["spare_shells"] == count).then_some(()));
    groups::members(&daemon.data(), "shell-")
}

/// A spare that was killed while it waited was given to a session, whose command failed with `shell_unavailable`.
#[test]
fn no_session_gets_a_spare_that_was_killed() {
    for sandbox in ["none", "fence", "room"] {
        let daemon = Daemon::with(Settings::default().set("--sandbox", sandbox));
        daemon.create("woken");
        assert_eq!(daemon.sh("woken", "x=1").exit_code(), Some(0));
        for round in 0..3 {
            daemon.hibernate("woken");
            let created = format!("created-{round}");
            daemon.create(&created);
            let killed = spares(&daemon, 2);
            assert!(killed.len() >= 2, "{killed:?}");
            killed.iter().for_each(|spare| signal(*spare, "KILL"));
            let woken = daemon.sh("woken", "echo $x; (exit 3)");
            assert_eq!((woken.exit_code(), woken.out()), (Some(3), "1\n".to_owned()), "{sandbox}");
            assert_eq!(daemon.sh(&created, "(exit 4)").exit_code(), Some(4), "{sandbox}");
            assert_eq!(daemon.sh(&created, "echo $$ >&2; exit 5").exit_code(), Some(5), "{sandbox}");
            daemon.hibernate(&created);
        }
        // Nobody needs a shell, and still they are replaced.
        daemon.hibernate("woken");
        let killed = spares(&daemon, 2);
        killed.iter().for_each(|spare| signal(*spare, "KILL"));
        shellkeep_poll::until("other spares", || {
            let now = spares(&daemon, 2);
            now.iter().all(|spare| !killed.contains(spare)).then_some(())
        });
    }
}

/// Its command failed too, though nothing of it had been run.
#[test]
fn a_shell_that_is_killed_while_it_becomes_a_session_is_replaced() {
    for sandbox in ["none", "fence", "room"] {
        let daemon = Daemon::with(Settings::default().set("--sandbox", sandbox).set("--spare-shells", "1"));
        daemon.create("s");
        let stopped = spares(&daemon, 1);
        stopped.iter().for_each(|spare| signal(*spare, "STOP"));
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| daemon.sh("s", "echo $((6 * 7))").out());
            // The session has it when there is another one.
            shellkeep_poll::until("another spare", || {
                groups::members(&daemon.data(), "shell-").iter().any(|spare| !stopped.contains(spare)).then_some(())
            });
            stopped.iter().for_each(|spare| signal(*spare, "KILL"));
            assert_eq!(answer.join().unwrap(), "42\n", "{sandbox}");
        });
    }
}

/// The host can turn it off; then each shell is started.
#[test]
fn shells_are_started_where_the_host_wants_that() {
    let daemon = Daemon::with(Settings::default().env("SHELLKEEP_FORK_SHELLS", "false"));
    daemon.create("s");
    assert_eq!(daemon.sh("s", "echo $(( $$ == BASHPID ))").out(), "1\n");
    assert!(groups::members(&daemon.data(), "zygote-").is_empty());
    assert!(!daemon.get("/metrics").text().contains("shellkeep_shells_forked_total "));
}

// ---- random states ----

/// Any bytes that bash can hold, as a word of a script.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}".prop_map(|text| quote(text.as_bytes())),
        prop::collection::vec(1u8.., 0..16).prop_map(|bytes| quote(&bytes)),
        Just(quote("zwölf 日本 \n\t'\"\\$`!*?[]{}~#&;|<>".as_bytes())),
    ]
}

fn quote(bytes: &[u8]) -> String {
    let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("$'{escaped}'")
}

fn name(prefix: &'static str) -> impl Strategy<Value = String> {
    (0u32..40).prop_map(move |number| format!("{prefix}_{number}"))
}

fn variable() -> impl Strategy<Value = String> {
    let scalar = ("[rx]{0,2}", name("v"), value()).prop_map(|(attributes, name, value)| {
        let attributes = if attributes.is_empty() { "-".to_owned() } else { attributes };
        format!("declare -{attributes} {name}={value}")
    });
    let integer = (name("n"), any::<i64>()).prop_map(|(name, number)| format!("declare -i {name}={number}"));
    let cased = ("[ulc]", name("c"), "[a-zA-Z ]{0,8}")
        .prop_map(|(flag, name, text)| format!("declare -{flag} {name}='{text}'"));
    let array = (name("a"), prop::collection::vec((0u32..1000, value()), 0..5)).prop_map(|(name, elements)| {
        let list: Vec<String> = elements.iter().map(|(index, value)| format!("[{index}]={value}")).collect();
        format!("declare -a {name}=({})", list.join(" "))
    });
    let map = (name("m"), prop::collection::vec((value(), value()), 0..5)).prop_map(|(name, pairs)| {
        let stores: Vec<String> = pairs
            .iter()
            .filter(|(key, _)| key.len() > 3)
            .map(|(key, value)| format!("k={key}; {name}[\"$k\"]={value}"))
            .collect();
        format!("declare -A {name}; {}; unset k", if stores.is_empty() { ":".to_owned() } else { stores.join("; ") })
    });
    let declared = ("[aAxi]", name("d")).prop_map(|(flag, name)| format!("declare -{flag} {name}"));
    let reference = (name("r"), name("v")).prop_map(|(name, target)| format!("declare -n {name}={target}"));
    let special = prop_oneof![
        value().prop_map(|value| format!("IFS={value}")),
        Just("unset OPTERR".to_owned()),
        Just("LC_ALL=C".to_owned()),
        Just("PS4='> '".to_owned()),
        Just("unset RANDOM".to_owned()),
    ];
    prop_oneof![4 => scalar, 1 => integer, 1 => cased, 2 => array, 2 => map, 1 => declared, 1 => reference, 1 => special]
}

fn other() -> impl Strategy<Value = String> {
    let body = prop_oneof![
        Just("echo \"$1\" | tr a b > /dev/null 2>&1 &".to_owned()),
        Just("cat <<E\n$1 and ${2:-x}\nE\n".to_owned()),
        Just("case $1 in a|b) :;; *) while false; do :; done;; esac".to_owned()),
        Just("local -A m=([x]=1); for ((i=0;i<3;i++)); do ((i%2)) || continue; done; [[ $1 =~ ^a.*$ ]]".to_owned()),
        value().prop_map(|value| format!("printf %s {value}")),
    ];
    let function = (name("f"), body, any::<bool>()).prop_map(|(name, body, exported)| {
        format!("{name}() {{ {body}\n}}{}", if exported { format!("; export -f {name}") } else { String::new() })
    });
    let alias = (name("al"), value()).prop_map(|(name, value)| format!("alias {name}={value}"));
    let option =
        prop::sample::select(vec!["allexport", "noglob", "nounset", "pipefail", "noclobber", "physical", "errtrace"])
            .prop_map(|name| format!("set -o {name}"));
    let shopt = prop::sample::select(vec![
        "extglob",
        "nullglob",
        "dotglob",
        "globstar",
        "expand_aliases",
        "nocasematch",
        "lastpipe",
    ])
    .prop_map(|name| format!("shopt -s {name}"));
    let trap = (
        prop::sample::select(vec!["INT", "USR1", "TERM", "ERR", "DEBUG", "RETURN", "EXIT"]),
        prop_oneof![Just(":"), Just("")],
    )
        .prop_map(|(signal, command)| format!("trap '{command}' {signal}"));
    let rest = prop_oneof![
        (0u32..0o777).prop_map(|mask| format!("umask {:03o}", mask & 0o077)),
        prop::sample::select(vec!["/usr", "/tmp", "/", "/usr/bin"]).prop_map(|path| format!("cd {path}")),
        prop::sample::select(vec!["/usr", "/tmp", "/etc"]).prop_map(|path| format!("pushd {path} > /dev/null")),
        (100u32..900).prop_map(|soft| format!("ulimit -S -n {soft}")),
        prop::collection::vec(value(), 0..4).prop_map(|words| format!("set -- {}", words.join(" "))),
        Just("enable -n test".to_owned()),
    ];
    prop_oneof![3 => function, 2 => alias, 2 => option, 2 => shopt, 2 => trap, 3 => rest]
}

/// Statements may fail (a readonly variable set twice); what counts is the state they leave.
fn script() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop_oneof![2 => variable(), 1 => other()], 1..40)
}

#[test]
fn capture_and_restore_are_the_identity() {
    // The runner's closure may not change what it captures.
    let shared = std::cell::RefCell::new((Daemon::start(), 0));
    let config = Config { cases: 40, max_shrink_iters: 60, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&script(), |statements| {
        let (daemon, number) = &mut *shared.borrow_mut();
        *number += 1;
        let session = format!("s{number}");
        daemon.create(&session);
        for statement in &statements {
            daemon.sh(&session, statement);
        }
        survives_everything(daemon, &session, statements.join("\n").as_bytes());
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

// ---- what people really have ----

#[test]
fn a_virtual_environment_and_a_large_file_of_functions_survive() {
    let mut daemon = Daemon::start();
    daemon.create("real");
    let made = daemon.run("real", serde_json::json!({
        "command": "python3 -m venv --without-pip env && . env/bin/activate && \
                    for i in {1..1000}; do printf 'fn_%d() {\n  local x=%d\n  echo \"$x $1\"\n}\n' $i $i; done > lib.sh && \
                    wc -l < lib.sh && . ./lib.sh && declare -F | wc -l",
        "timeout": 60,
    }));
    assert_eq!(made.exit_code(), Some(0), "{:?}", made.json);
    assert_eq!(made.out().lines().next(), Some("4000"));
    survives_everything(&mut daemon, "real", b"venv and 4000 lines of functions");
    let python = daemon.sh("real", "command -v python3; python3 -c 'import sys; print(sys.prefix)'; fn_777 ok; deactivate; echo \"[$VIRTUAL_ENV]\"");
    let environment = daemon.cwd("real").join("env");
    let expected = format!("{0}/bin/python3\n{0}\n777 ok\n[]\n", environment.display());
    assert_eq!(python.out(), expected, "{}", python.err());
}

#[test]
fn nothing_lost_means_no_notice() {
    let mut daemon = Daemon::start();
    daemon.create("quiet");
    daemon.sh("quiet", "x=1; f() { :; }; cd /usr");
    for way in ["hibernate", "exit", "daemon"] {
        match way {
            "hibernate" => daemon.hibernate("quiet"),
            "exit" => assert!(daemon.sh("quiet", "exit 0").notice_codes().is_empty()),
            _ => daemon.restart(),
        }
        let reply = daemon.sh("quiet", "echo $x");
        assert_eq!((reply.out().as_str(), reply.notice_codes()), ("1\n", vec![]), "{way}");
    }
}

/// What only a shell has is named whoever takes the shell away.
#[test]
fn what_only_the_shell_had_is_named() {
    let mut daemon = Daemon::start();
    let open = |daemon: &Daemon| {
        assert_eq!(daemon.sh("s", "exec 5</etc/passwd 6>&-").notice_text(), "");
    };
    let named = |text: String| {
        assert!(text.contains("5 (/etc/passwd)") && !text.contains("jobs"), "{text}");
    };
    daemon.create("s");
    open(&daemon);
    daemon.restart();
    named(daemon.sh("s", ":").notice_text());
    assert_eq!(daemon.sh("s", ":").notice_text(), "", "once");
    open(&daemon);
    named(daemon.sh("s", "kill -9 $$").notice_text());
    assert_eq!(daemon.sh("s", ":").notice_text(), "", "nothing is open any more");
    open(&daemon);
    kill_idle_shell(&daemon);
    named(daemon.sh("s", ":").notice_text());
    // One that was closed is not lost.
    open(&daemon);
    daemon.sh("s", "exec 5<&-");
    daemon.restart();
    assert_eq!(daemon.sh("s", ":").notice_text(), "");
    kill_idle_shell(&daemon);
    let text = daemon.sh("s", ":").notice_text();
    assert!(text.contains("signal 9") && !text.contains("jobs") && !text.contains("descriptors"), "{text}");
    daemon.sh("s", "sleep 1234 & p=$!");
    kill_idle_shell(&daemon);
    let text = daemon.sh("s", "kill $p").notice_text();
    assert!(text.contains("`sleep 1234`"), "{text}");
    open(&daemon);
    // The caller of a command that goes on in the background learns what only its shell has.
    let moved =
        daemon.run("s", serde_json::json!({"command": "sleep 300", "timeout": 0.2, "on_timeout": "background"}));
    named(moved.notice_text());
    assert_eq!(daemon.sh("s", ":").notice_text(), "");
}

fn kill_idle_shell(daemon: &Daemon) {
    let shell = shellkeep_poll::until("it has a shell", || daemon.shell_pid("s"));
    signal(shell, "KILL");
    shellkeep_poll::until("its end is noticed", || daemon.shell_pid("s").is_none().then_some(()));
}

#[test]
fn a_variable_that_is_too_large_was_set_and_its_loss_is_named() {
    let mut daemon = Daemon::start();
    daemon.create("s");
    let set = |daemon: &Daemon| {
        let reply = daemon.sh("s", "printf -v BIG '%*s' 20000000 ''");
        assert_eq!(reply.json["changes"]["variables"]["set"][0], "BIG", "{:?}", reply.json);
        assert_eq!(reply.notice_codes(), ["not_kept"]);
        assert_eq!(daemon.sh("s", "echo ${#BIG}").out(), "20000000\n");
    };
    let named = |text: String| assert!(text.contains("too large to keep are gone: BIG"), "{text}");
    set(&daemon);
    daemon.hibernate("s");
    named(daemon.sh("s", ":").notice_text());
    set(&daemon);
    daemon.restart();
    named(daemon.sh("s", ":").notice_text());
    set(&daemon);
    named(daemon.sh("s", "exit").notice_text());
    set(&daemon);
    daemon.sh("s", "unset BIG");
    daemon.restart();
    assert_eq!(daemon.sh("s", ":").notice_text(), "");
}
