//! Selects a run on the command line: SESSION RUN, or -s SESSION RUN.

use crate::commands::files::of_session;
use crate::failure::Failure;
use clap::Args;
use shellkeep_session::RunId;

/// Which run.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The session, and the run's id; with -s, the run's id alone
    #[arg(value_names = ["SESSION", "RUN"], num_args = 1..=2, required = true)]
    names: Vec<String>,
    /// The session
    #[arg(short, long, value_name = "NAME")]
    session: Option<String>,
}

impl RunArgs {
    /// The path of requests about it.
    pub fn path(&self) -> Result<String, Failure> {
        let (session, run) = match (&self.session, self.names.as_slice()) {
            (None, [session, run]) | (Some(session), [run]) => (session, run),
            (None, _) => {
                return Err(Failure::start("specify the session and the run: SESSION RUN, or -s SESSION RUN"));
            }
            (Some(_), _) => return Err(Failure::start("the session is given twice; with -s, pass only the run's id")),
        };
        // Checked here too: an id with a slash would change the request's path.
        let run = RunId::parse(run).map_err(|error| Failure::client(format!("'{run}': {error}")))?;
        of_session(session, &format!("runs/{run}"))
    }
}
