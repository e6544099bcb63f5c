//! The scripts that come out otherwise in a session than in `bash -c`, and why. Every other script must agree.

/// What is not the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    Status,
    Stderr,
    /// The output, from run to run: `bash -c` itself answers in two ways.
    Races,
}

/// Scripts that differ for one reason.
pub struct Known {
    pub differs: Differs,
    pub reason: &'static str,
    scripts: &'static [&'static str],
}

const KNOWN: &[Known] = &[
    Known {
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
        differs: Differs::Stderr,
        reason: "bash -c replaces itself with its last command, so no shell is left to report the signal",
        scripts: &["bash -c 'kill -TERM $$'", "bash -c 'kill -KILL $$'"],
    },
    Known {
        differs: Differs::Stderr,
        reason: "bash -c reports the job inside wait and forgets it, a session keeps it",
        scripts: &["set -m; sleep 0 & wait %1; echo $?; fg; echo $?"],
    },
    Known {
        differs: Differs::Races,
        reason: "nothing reads the pipe, so whether the writer meets SIGPIPE is a race",
        scripts: &["PATH=/nonexistent; ls; echo x | cat; echo ${PIPESTATUS[0]}"],
    },
];

/// Why a script may differ, if it may.
pub fn of(script: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.scripts.contains(&script))
}

/// Scripts of the list that are not in the corpus any more.
pub fn stale(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    KNOWN.iter().flat_map(|known| known.scripts).copied().filter(|script| !is_there(script)).collect()
}
