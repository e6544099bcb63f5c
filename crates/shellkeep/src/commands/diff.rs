//! `shellkeep diff`: the differences between a session's files at two moments.

mod paint;

use super::files::{path_parameter, print_changes};
use crate::cli::ClientArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client, escaped};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use shellkeep_protocol::{CheckpointName, DiffResponse, text};
use shellkeep_terminal::words;
use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// Bytes of a patch that are requested: the most that the daemon returns.
const MOST_BYTES: usize = 64 << 20;

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "FROM and TO are moments, as in `shellkeep rewind --help`: a run id (r12: after that run), the number of a record, -1
(before the last run that changed something), a time (10m, 16:36, yesterday), a checkpoint's id, a commit or a prefix of
one, `latest`; TO may be `now`. As with `git diff`, without both it shows what has changed since the last
checkpoint, and with FROM what has changed since then. `shellkeep checkpoints show SESSION C` shows what one command changed.

On a terminal the patch is coloured (NO_COLOR disables that); otherwise it is plain, in git's format.

Examples:
  shellkeep diff demo
  shellkeep diff demo r12
  shellkeep diff demo 12 latest --stat
  shellkeep diff demo 1 now --path src --binary > changes.patch && git apply changes.patch

Exit codes: 0 done, whether or not anything differs; 1 not done (no such session or checkpoint, no daemon), 2 wrong usage."
)]
pub struct DiffArgs {
    /// The session
    session: String,
    /// The older side [default: the last checkpoint]
    #[arg(allow_negative_numbers = true)]
    from: Option<String>,
    /// The newer side [default: now]
    #[arg(allow_negative_numbers = true)]
    to: Option<String>,
    /// Only this path in the workspace, and everything below it
    #[arg(long, value_name = "P")]
    path: Option<OsString>,
    /// Only list which files differ, and by how many lines
    #[arg(long)]
    stat: bool,
    /// Include the contents of binary files, for `git apply`
    #[arg(long, conflicts_with = "stat")]
    binary: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// What is compared.
pub struct Wanted<'a> {
    /// The older side.
    pub from: Option<&'a str>,
    /// The newer side.
    pub to: Option<&'a str>,
    /// Only this path.
    pub path: Option<&'a OsStr>,
    /// Whether to include the text differences.
    pub patch: bool,
    /// Whether to include the differences of binary files.
    pub binary: bool,
}

pub fn execute(args: DiffArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: DiffArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.client.daemon).await?;
    let wanted = Wanted {
        from: args.from.as_deref(),
        to: args.to.as_deref(),
        path: args.path.as_deref(),
        patch: !args.stat,
        binary: args.binary,
    };
    let diff = ask(&mut client, &args.session, &wanted).await?;
    if args.client.json {
        terminal::json(&diff)?;
    } else if args.stat {
        stat(&diff);
    } else {
        paint::print(&patch_of(&diff)?)?;
        if diff.truncated {
            terminal::notice("the patch was truncated here; select fewer files with --path, or use --stat");
        }
    }
    if diff.files.is_empty() && !args.client.json && terminal::is_terminal() {
        terminal::notice(&format!(
            "nothing differs between {} and {}",
            side(&diff.from, "nothing"),
            side(&diff.to, "now")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks the daemon for a difference.
pub async fn ask(client: &mut Client, session: &str, wanted: &Wanted<'_>) -> Result<DiffResponse, Failure> {
    let mut path = of_session(session, &format!("diff?patch={}&binary={}", wanted.patch, wanted.binary))?;
    if wanted.patch {
        path += &format!("&max_bytes={MOST_BYTES}");
    }
    for (name, value) in [("from", wanted.from), ("to", wanted.to)] {
        if let Some(value) = value {
            path += &format!("&{name}={}", escaped(value));
        }
    }
    if let Some(below) = wanted.path {
        path += &format!("&{}", path_parameter(below));
    }
    Ok(terminal::patiently("comparing", client.get(&path)).await?)
}

/// The exact bytes of a patch.
pub fn patch_of(diff: &DiffResponse) -> Result<Vec<u8>, Failure> {
    text::decode(diff.patch.clone().unwrap_or_default(), diff.patch_base64.as_deref()).map_err(Failure::client)
}

fn stat(diff: &DiffResponse) {
    print_changes(&diff.files, diff.files.len() as u64);
    let sum =
        |part: fn(&shellkeep_protocol::FileChange) -> Option<u64>| diff.files.iter().filter_map(part).sum::<u64>();
    let (more, less) = (sum(|file| file.insertions), sum(|file| file.deletions));
    if !diff.files.is_empty() {
        let files = diff.files.len();
        let verb = if files == 1 { "differs" } else { "differ" };
        terminal::line(format!("{} {verb}, +{more} -{less} lines", words::counted(files, "file")));
    }
}

fn side(name: &Option<CheckpointName>, without: &str) -> String {
    name.as_ref().map_or_else(|| without.to_owned(), |name| name.checkpoint_id.clone())
}
