//! `shellkeep files`: lists, reads, writes and removes single files of a session's workspace, even while a command
//! runs.

use super::files::{path_parameter, shown_path};
use crate::cli::ClientArgs;
use crate::client::paths::of_session;
use crate::client::{self, Client, escaped};
use crate::failure::Failure;
use crate::input;
use crate::terminal::{self, Cell, Column, Table, TableArgs};
use clap::{Args, Subcommand, ValueHint};
use shellkeep_protocol::{FileEntry, FileKind, FileListing, FileRemoved, FileWritten, NoticeView};
use shellkeep_runtime::MAX_FILE_BYTES;
use shellkeep_terminal::words;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `files`.
#[derive(Debug, Args)]
#[command(
    after_help = "A PATH is relative to the session's workspace, or absolute inside it. Nothing outside of it is read or written, not even through a symbolic link. Changes are recorded as tool calls and
saved in checkpoints, so `shellkeep rewind` can undo them.

Examples:
  shellkeep files ls demo src
  shellkeep files cat demo src/main.rs
  shellkeep files put demo notes.txt < notes.txt
  shellkeep files put demo run.sh --from build/run.sh --mode 0755
  shellkeep files rm demo build --recursive

Exit codes: 0 done, 1 not done (no such session or file, a path outside the workspace, no daemon), 2 wrong usage."
)]
pub struct FilesArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

/// What to do with files.
#[derive(Debug, Subcommand)]
enum Action {
    /// List a directory, or show one file
    Ls {
        /// The session
        session: String,
        /// The directory or file [default: the workspace]
        path: Option<OsString>,
    },
    /// Print a file
    Cat {
        /// The session
        session: String,
        /// The file
        path: OsString,
        /// First byte to print
        #[arg(long, value_name = "N")]
        offset: Option<u64>,
        /// Maximum number of bytes to print
        #[arg(long, value_name = "N")]
        limit: Option<u64>,
    },
    /// Write a file from stdin or from a local file
    Put {
        /// The session
        session: String,
        /// The file
        path: OsString,
        /// The local file to copy [default: stdin]
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        from: Option<PathBuf>,
        /// Permissions in octal, as in 0755
        #[arg(long, value_name = "MODE")]
        mode: Option<String>,
    },
    /// Remove a file or directory
    Rm {
        /// The session
        session: String,
        /// The file or directory
        path: OsString,
        /// Remove a directory with everything in it
        #[arg(short, long)]
        recursive: bool,
    },
}

pub fn execute(args: FilesArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: FilesArgs) -> Result<ExitCode, Failure> {
    let FilesArgs { action, client: ClientArgs { json, daemon } } = args;
    // Read first: do not start a daemon for a file that cannot be read.
    let body = match &action {
        Action::Put { from, .. } => input::file_or_stdin(from.as_deref(), MAX_FILE_BYTES, "for one call")?,
        _ => Vec::new(),
    };
    let mut client = Client::open(&daemon).await?;
    let client = &mut client;
    match action {
        Action::Ls { session, path } => list(client, &session, path.as_deref(), json).await?,
        Action::Cat { session, path, offset, limit } => {
            let mut query = path_parameter(&path);
            for (name, value) in [("offset", offset), ("limit", limit)] {
                query += &value.map(|value| format!("&{name}={value}")).unwrap_or_default();
            }
            let body = client.get_body(&of_session(&session, &format!("files/content?{query}"))?).await?;
            terminal::bytes(&client::gathered(body).await?)?;
        }
        Action::Put { session, path, mode, .. } => {
            let mode = mode.map(|mode| format!("&mode={}", escaped(&mode))).unwrap_or_default();
            let target = of_session(&session, &format!("files/content?{}{mode}", path_parameter(&path)))?;
            let written: FileWritten = client.put_bytes(&target, body).await?;
            let size = words::bytes(written.size);
            let said = format!("{}: {size}, record {}", shown_path(&written.path), written.seq);
            answered(json, &written, &said, &written.notices)?;
        }
        Action::Rm { session, path, recursive } => {
            let query = format!("files/content?{}&recursive={recursive}", path_parameter(&path));
            let removed: FileRemoved = client.delete(&of_session(&session, &query)?).await?;
            let said = format!("{}: removed, record {}", shown_path(&removed.path), removed.seq);
            answered(json, &removed, &said, &removed.notices)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn answered<T: serde::Serialize>(json: bool, value: &T, said: &str, notices: &[NoticeView]) -> Result<(), Failure> {
    if json {
        return terminal::json(value);
    }
    terminal::line(said);
    notices.iter().for_each(|notice| terminal::notice(&notice.message));
    Ok(())
}

/// Prints a directory, page by page, or one file.
async fn list(client: &mut Client, session: &str, path: Option<&OsStr>, json: bool) -> Result<(), Failure> {
    let path = path_parameter(path.unwrap_or(OsStr::new(".")));
    let mut listing: FileListing = client.get(&of_session(session, &format!("files?{path}"))?).await?;
    while let Some(next) = listing.next.take() {
        let query = format!("files?{path}&after={}", escaped(&next));
        let page: FileListing = client.get(&of_session(session, &query)?).await?;
        listing.files.get_or_insert_default().extend(page.files.unwrap_or_default());
        listing.next = page.next;
    }
    if json {
        return terminal::json(&listing);
    }
    let rows = listing.files.unwrap_or_else(|| vec![listing.file]).into_iter().map(row).collect();
    let columns = [Column::word("mode"), Column::number("size"), Column::word("modified"), Column::id("name")];
    terminal::show(&Table::new(columns, rows), TableArgs::default(), "nothing is in it");
    Ok(())
}

fn row(entry: FileEntry) -> [Cell; 4] {
    let mut name = shown_path(&entry.name);
    match (entry.kind, &entry.target) {
        (FileKind::Directory, _) => name.push('/'),
        (FileKind::Symlink, Some(target)) => name += &format!(" -> {}", shown_path(target)),
        _ => {}
    }
    let size = if entry.kind == FileKind::File { Cell::size(entry.size) } else { Cell::dash() };
    [entry.mode.into(), size, Cell::time(&entry.modified_at), name.into()]
}
