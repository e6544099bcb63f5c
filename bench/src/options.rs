//! The command line of the benchmark.

use crate::fallible::Fallible;
use std::path::PathBuf;

const USAGE: &str = "usage: shellkeep-bench [--quick] [--no-peers] [--only FIGURE]… [--against PROGRAM] [--out DIR]
  --quick      a short run with fewer sessions; its figures go to target/bench, not to docs
  --no-peers   leave other tools out
  --only NAME  only this figure (warm, hops, against, mcp, spawn, fork, wake, rungs, output, record, history, nodes,
               files, crowd, create, greedy, hostile, limits, scale, peers); goes to target/bench
  --against P  another build of shellkeep: both answer the same commands, in turns
  --out DIR    where bench.md, scale.md, files.md and their pictures go";

/// What the caller wants.
#[derive(Debug)]
pub struct Options {
    /// A short run.
    pub quick: bool,
    /// Another build of the daemon.
    pub against: Option<PathBuf>,
    /// Where the results go.
    pub out: PathBuf,
    peers: bool,
    only: Vec<String>,
}

impl Options {
    /// Reads the arguments.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Fallible<Self> {
        let mut options = Self { quick: false, against: None, out: PathBuf::new(), peers: true, only: Vec::new() };
        let mut out = None;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--no-peers" => options.peers = false,
                "--against" => options.against = Some(PathBuf::from(value()?)),
                "--only" => options.only.push(value()?),
                "--help" => {
                    println!("{USAGE}");
                    std::process::exit(0);
                }
                "--out" => out = Some(PathBuf::from(value()?)),
                _ => return Err(format!("unknown argument {argument}\n{USAGE}").into()),
            }
        }
        // The table under docs is a full run's; a glance must not replace it.
        let partial = options.quick || !options.only.is_empty();
        options.out = out.unwrap_or_else(|| PathBuf::from(if partial { "target/bench" } else { "docs" }));
        Ok(options)
    }

    /// Whether a figure is to be measured.
    pub fn wants(&self, figure: &str) -> bool {
        let named = self.only.is_empty() || self.only.iter().any(|only| only == figure);
        named && (self.peers || figure != "peers")
    }
}
