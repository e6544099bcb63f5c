//! `shellkeep rewind`: rewinds a session to an earlier moment.

use super::files::{print_changes, print_left, shell_changes, shown_path};
use crate::cli::ClientArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal;
use clap::{Args, ValueEnum};
use shellkeep_protocol::{Place, RewindRequest, RewindResponse, ServicesChoice};
use std::process::ExitCode;

/// Arguments of `rewind`.
#[derive(Debug, Args)]
#[command(
    after_help = "Restores files, shell (working directory, variables, functions, options, …) and the agent's saved state to what they
were at moment TO:
  r12                    after that run
  12                     after that record (`shellkeep events`; `seq` of a run's answer)
  -1                     before the last run that changed something; -2 before the last two, and so on
  10m, 1h30m, 2d ago     how long ago
  16:36, yesterday, 2026-11-16 16:36, 2026-11-16T08:00:00Z
                         a time, in UTC as all times are shown
  ID, COMMIT             a checkpoint (`shellkeep checkpoints`)
  latest                 after the last record: takes back what changed in files since then
What is replaced is saved in a checkpoint first, and the command that undoes the rewind is printed. Files that are not
in checkpoints (ignored, too large, .git) are left alone. Nothing is removed from the recording.

`shellkeep undo` undoes the last change; `shellkeep log` lists what to rewind to. On a terminal, rewind shows what
would change and asks for confirmation, unless you pass --yes. Elsewhere it does not ask.

Examples:
  shellkeep rewind demo r12 --dry-run
  shellkeep rewind demo -1 --yes
  shellkeep rewind demo tool_bash_20261115T183000.123456Z --yes
  shellkeep rewind demo r12 --yes --services stop --json | jq .undo

Exit codes: 0 done (or shown, with --dry-run), 1 not done (no such session or moment, you said no, disk full), 2 wrong usage."
)]
pub struct RewindArgs {
    /// The session
    session: String,
    /// Run id, record number, -N, 10m, a time, checkpoint id, commit prefix or 'latest'
    #[arg(allow_negative_numbers = true)]
    to: String,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Also undo what other sessions in the same directory have changed since
    #[arg(long)]
    force: bool,
    /// What happens to running services
    #[arg(long, value_name = "WHAT", default_value = "leave")]
    services: Services,
    #[command(flatten)]
    client: ClientArgs,
}

/// What happens to running services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Services {
    /// They keep running
    Leave,
    /// They are stopped first
    Stop,
}

pub fn execute(args: RewindArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: RewindArgs) -> Result<ExitCode, Failure> {
    let path = of_session(&args.session, "rewind")?;
    let mut client = Client::open(&args.client.daemon).await?;
    let request = |to: Place, dry_run: bool| RewindRequest {
        to,
        dry_run: Some(dry_run),
        services: Some(match args.services {
            Services::Leave => ServicesChoice::Leave,
            Services::Stop => ServicesChoice::Stop,
        }),
        force: Some(args.force),
    };
    let mut to = Place::from(args.to.as_str());
    if !args.dry_run && !args.yes && !args.client.json && terminal::can_ask() {
        let asked = request(to, true);
        let preview: RewindResponse = terminal::patiently("comparing", client.post(&path, &asked)).await?;
        tell(&preview, &args.session, "");
        if !terminal::confirmed(&format!("rewind {} to the state {}?", args.session, moment(&preview)))? {
            return Err(Failure::client("nothing was changed"));
        }
        // Rewinds to exactly what was shown, even if the moment was relative.
        to = Place::Seq(preview.to);
    }
    let request = request(to, args.dry_run);
    let rewound: RewindResponse = terminal::patiently("taking it back", client.post(&path, &request)).await?;
    if args.client.json {
        terminal::json(&rewound)?;
    } else {
        let back =
            rewound.undo.map(|undo| format!("undo with: shellkeep rewind {} {undo}{}", args.session, client.flags()));
        tell(&rewound, &args.session, &back.unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}

/// The moment as people know it.
fn moment(rewound: &RewindResponse) -> String {
    match (&rewound.undone, &rewound.after_run) {
        (Some(undone), _) => format!("before {undone}"),
        (None, Some(run_id)) => format!("after {run_id}"),
        (None, None) => format!("after record {}", rewound.to),
    }
}

/// What changes or has changed, and the command that undoes it.
pub fn tell(rewound: &RewindResponse, session: &str, back: &str) {
    let RewindResponse { files_total, .. } = rewound;
    if rewound.dry_run {
        terminal::line(format!("taking {session} back to the state {} would change:", moment(rewound)));
    } else {
        terminal::line(format!("{session} is as it was {}", moment(rewound)));
    }
    let verb = if rewound.dry_run { "would change" } else { "changed" };
    if *files_total == 0 {
        terminal::line("files: none");
    } else {
        terminal::line(format!("files: {files_total} {verb}"));
    }
    print_changes(&rewound.files, *files_total);
    print_left("not changed", &rewound.kept_back, rewound.kept_back.len() as u64);
    print_left("changed by other sessions since", &rewound.of_others, rewound.of_others.len() as u64);
    print_left("may differ from that moment", &rewound.uncertain, rewound.uncertain_total);
    for line in shell_changes(&rewound.shell) {
        terminal::line(format!("shell: {line}"));
    }
    terminal::line(format!("in {}", shown_path(&rewound.cwd)));
    if let Some(version) = rewound.agent_state_version {
        terminal::line(format!("agent's state: version {version}"));
    }
    if rewound.kv_version.is_some() {
        terminal::line(if rewound.dry_run { "keyed store: would change" } else { "keyed store: as it was then" });
    }
    if !rewound.services_stopped.is_empty() {
        terminal::line(format!("services stopped: {}", rewound.services_stopped.join(" ")));
    }
    rewound.notices.iter().for_each(|notice| terminal::notice(&notice.message));
    if rewound.undo.is_some() {
        terminal::line(back);
    }
}
