//! What every figure needs, and how much work is put in.

use crate::fallible::Fallible;
use crate::machine;
use crate::options::Options;
use std::path::PathBuf;
use std::time::Duration;

/// What every figure needs.
pub struct Setup {
    /// The bash under floor and ours alike.
    pub bash: PathBuf,
    /// The built daemon.
    pub program: PathBuf,
    /// Another build of the daemon, to be compared with.
    pub against: Option<PathBuf>,
    /// How much work to put in.
    pub effort: Effort,
}

/// How often everything is done.
pub struct Effort {
    /// Turns of floor and ours.
    pub rounds: usize,
    /// Short commands in a turn.
    pub commands: usize,
    /// Starts of a bash, and wakings, in a turn.
    pub starts: usize,
    /// Turns with 64 MiB.
    pub output_rounds: usize,
    /// Events in one session.
    pub events: usize,
    /// Sizes of the trees of files.
    pub trees: &'static [usize],
    /// Turns with such a tree.
    pub tree_rounds: usize,
    /// Small checkpoints in a row.
    pub checkpoints: usize,
    /// Live sessions at once.
    pub crowd: usize,
    /// Turns with all of them.
    pub crowd_rounds: usize,
    /// How long such a turn takes.
    pub window: Duration,
    /// Sessions made in a turn.
    pub created: usize,
    /// Commands of an agent that floods the daemon.
    pub greedy: usize,
    /// Turns of that.
    pub greedy_rounds: usize,
    /// Numbers of sessions at which everything is looked at.
    pub scale: &'static [usize],
    /// Short commands through a peer.
    pub peer_commands: usize,
    /// Large outputs through a peer.
    pub peer_outputs: usize,
}

const FULL: Effort = Effort {
    rounds: 15,
    commands: 2000,
    starts: 40,
    output_rounds: 7,
    events: 1_000_000,
    trees: &[100, 1_000, 10_000, 50_000],
    tree_rounds: 9,
    checkpoints: 1_000,
    crowd: 1000,
    crowd_rounds: 5,
    window: Duration::from_secs(3),
    created: 1000,
    greedy: 10_000,
    greedy_rounds: 3,
    scale: &[10, 100, 1_000, 10_000, 100_000],
    peer_commands: 100,
    peer_outputs: 20,
};

const QUICK: Effort = Effort {
    rounds: 5,
    commands: 400,
    starts: 10,
    output_rounds: 3,
    events: 50_000,
    trees: &[100, 1_000, 5_000],
    tree_rounds: 3,
    checkpoints: 50,
    crowd: 100,
    crowd_rounds: 3,
    window: Duration::from_millis(500),
    created: 300,
    greedy: 2_000,
    greedy_rounds: 3,
    scale: &[10, 100, 1_000, 2_000],
    peer_commands: 10,
    peer_outputs: 2,
};

impl Setup {
    /// The daemon is beside this program, where cargo puts both.
    pub fn find(options: &Options) -> Fallible<Self> {
        let program = std::env::current_exe()?.with_file_name("shellkeep");
        let effort = if options.quick { QUICK } else { FULL };
        Ok(Self { bash: machine::bash()?, program, against: options.against.clone(), effort })
    }
}
