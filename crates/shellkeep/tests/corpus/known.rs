//! The scripts that come out otherwise in a session than in `bash -c`, and why. Every other script must agree.

/// What is not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    Stdout,
    Status,
    Stderr,
    /// The output, from run to run: `bash -c` itself answers in two ways.
    Races,
}

/// Where it is not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum In {
    Every,
    Room,
}

/// Scripts that differ for one reason.
pub struct Known {
    sandboxes: In,
    pub differs: Differs,
    pub reason: &'static str,
    scripts: &'static [&'static str],
}

const KNOWN: &[Known] = &[
    Known {
        sandboxes: In::Every,
        differs: Differs::Status,
        reason: "bash -c exits with 0 after a syntax error inside [[ ]]; a session reports 2",
        scripts: &[
            "[[ x; echo $?",
            "[[ -z ]]; echo $?",
            "[[ a = ]]; echo $?",
            "[[; echo $?",
            "[[\necho \"next $?\"",
            "[[ || echo \"caught $?\"",
            "[[ && echo ok",
            "[[ | cat; echo ${PIPESTATUS[0]}",
            "echo before\n[[\necho \"after $?\"",
            "( [[\n)\necho \"after $?\"",
            "[[ a ==; echo $?",
            "[[ a ==\necho \"next $?\"",
            "[[ a == || echo \"caught $?\"",
            "[[ a == && echo ok",
            "[[ a == | cat; echo ${PIPESTATUS[0]}",
            "echo before\n[[ a ==\necho \"after $?\"",
            "( [[ a ==\n)\necho \"after $?\"",
            "( [[ a =~ ( ]]\n)\necho \"after $?\"",
        ],
    },
    Known {
        sandboxes: In::Every,
        differs: Differs::Stderr,
        reason: "bash -c replaces itself with its last command, so no shell is left to report the signal",
        scripts: &["bash -c 'kill -TERM $$'", "bash -c 'kill -KILL $$'"],
    },
    Known {
        sandboxes: In::Every,
        differs: Differs::Stderr,
        reason: "bash -c reports the job inside wait and forgets it, a session keeps it",
        scripts: &["set -m; sleep 0 & wait %1; echo $?; fg; echo $?"],
    },
    Known {
        sandboxes: In::Every,
        differs: Differs::Races,
        reason: "nothing reads the pipe, so whether the writer meets SIGPIPE is a race",
        scripts: &["PATH=/nonexistent; ls; echo x | cat; echo ${PIPESTATUS[0]}"],
    },
    Known {
        sandboxes: In::Room,
        differs: Differs::Stdout,
        reason: "the parent of the shell is outside of the room, for which the kernel gives 0 as PPID",
        scripts: &["echo $((PPID > 0)) $((BASHPID == $$)) $(( $(echo $BASHPID) == $$ )) ${EUID:+id} ${#GROUPS[@]}"],
    },
    Known {
        sandboxes: In::Room,
        differs: Differs::Stderr,
        reason: "the shell is process 2 of the room, which is not recognised as a process id when it is compared",
        scripts: &["set -x; trap 'echo T' USR1; kill -USR1 $BASHPID; echo d\necho \"after $?\""],
    },
];

/// Why a script may differ in a sandbox, if it may.
pub fn of(script: &str, sandbox: &str) -> Option<&'static Known> {
    let applies = |known: &&Known| known.sandboxes == In::Every || sandbox == "room";
    KNOWN.iter().filter(applies).find(|known| known.scripts.contains(&script))
}

/// Scripts of the list that are not in the corpus any more.
pub fn stale(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    KNOWN.iter().flat_map(|known| known.scripts).copied().filter(|script| !is_there(script)).collect()
}
