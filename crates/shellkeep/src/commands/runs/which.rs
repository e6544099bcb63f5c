//! Selects a run on the command line: SESSION RUN, or -s SESSION RUN.

use crate::client::paths::of_session;
use crate::failure::Failure;
use clap::Args;
use shellkeep_session::RunId;

/// Which run.
#[derive(Debug, Args)]
pub struct WhichRun {
    /// The session, and the run's id; with -s, the run's id alone
    #[arg(value_names = ["SESSION", "RUN"], num_args = 1..=2, required = true)]
    names: Vec<String>,
    /// The session
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,
}

impl WhichRun {
    /// The path of requests about it.
    pub fn path(&self) -> Result<String, Failure> {
        match split(self.session.as_deref(), &self.names)? {
            (session, run, []) => path(session, run),
            _ => Err(Failure::start("the session is given twice; with -s, pass only the run's id")),
        }
    }
}

/// Which run, and words that follow its id.
#[derive(Debug, Args)]
pub struct RunAndWords {
    /// The session, the run's id, and the input or signal to send; with -s, without the session
    #[arg(value_names = ["SESSION", "RUN"], num_args = 1.., required = true)]
    names: Vec<String>,
    /// The session
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,
}

impl RunAndWords {
    /// The path of requests about the run, and the words.
    pub fn path(&self) -> Result<(String, &[String]), Failure> {
        let (session, run, words) = split(self.session.as_deref(), &self.names)?;
        Ok((path(session, run)?, words))
    }
}

fn split<'a>(session: Option<&'a str>, names: &'a [String]) -> Result<(&'a str, &'a str, &'a [String]), Failure> {
    match (session, names) {
        (Some(session), [run, rest @ ..]) => Ok((session, run, rest)),
        (None, [session, run, rest @ ..]) => Ok((session, run, rest)),
        _ => Err(Failure::start("specify the session and the run: SESSION RUN, or -s SESSION RUN")),
    }
}

fn path(session: &str, run: &str) -> Result<String, Failure> {
    let run = RunId::parse(run).map_err(|error| Failure::client(format!("'{run}': {error}")))?;
    of_session(session, &format!("runs/{run}"))
}
