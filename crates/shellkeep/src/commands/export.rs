//! `shellkeep export`: writes a copy of a session's recording: as JSON lines, an asciicast, or an HTML page.

use super::replay::source::{self, LocalSession, local_session};
use super::replay::target::Target;
use crate::cli::DaemonArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal::{self, Progress};
use clap::{Args, ValueEnum, ValueHint};
use http_body_util::BodyExt as _;
use shellkeep_record::export::{self, ExportError, Options};
use shellkeep_record::player::Files;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = "Formats:
  jsonl      one event per line, with its proof: `shellkeep verify FILE` needs nothing else
  asciicast  commands and their output, for `asciinema play`
  html       one page with a timeline that opens in any browser and needs no network

A file created by `export --format jsonl`, or a session's directory, can be exported again: as a page, or with --redact.

Examples:
  shellkeep export demo -o demo.jsonl
  shellkeep export demo --redact --format html -o demo.html
  shellkeep export ./demo.jsonl --format asciicast -o demo.cast && asciinema play demo.cast

Exit codes: 0 done, 1 not done (no such session, not a recording, disk full), 2 wrong usage.")]
pub struct ExportArgs {
    /// The session, or a file or directory with a recording
    #[arg(value_name = "SESSION|FILE|DIR", value_hint = ValueHint::AnyPath)]
    target: String,
    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "jsonl")]
    format: Format,
    /// Mask secrets
    #[arg(long)]
    redact: bool,
    /// Write to this file [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One event per line
    Jsonl,
    /// For `asciinema play`
    Asciicast,
    /// A single HTML page
    Html,
}

pub fn execute(args: ExportArgs) -> Result<ExitCode, Failure> {
    let target = Target::parse(&args.target)?;
    let Some(path) = &args.output else {
        write(&target, &args, io::stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    };
    // Written to a temporary file and renamed at the end: half an export must not look like a whole one.
    let partial = partial(path);
    let written = File::create(&partial)
        .map_err(|error| Failure::client(format!("cannot write {}: {error}", path.display())))
        .and_then(|file| write(&target, &args, BufWriter::new(file)));
    let done = written.and_then(|()| {
        std::fs::rename(&partial, path)
            .map_err(|error| Failure::client(format!("cannot write {}: {error}", path.display())))
    });
    if done.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    done?;
    if io::stderr().is_terminal() {
        terminal::notice(&format!("wrote {}", path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn partial(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".partial");
    path.with_file_name(name)
}

fn write(target: &Target, args: &ExportArgs, out: impl Write) -> Result<(), Failure> {
    match target {
        Target::Session(session) => {
            let format = match args.format {
                Format::Jsonl => "jsonl",
                Format::Asciicast => "asciicast",
                Format::Html => "html",
            };
            let path = format!("/v1/sessions/{session}/export?format={format}&redact={}", args.redact);
            let runtime = source::runtime()?;
            runtime.block_on(download(&args.daemon, &path, out))
        }
        Target::Path(path) => from_files(path, args, out),
    }
}

async fn download(daemon: &DaemonArgs, path: &str, mut out: impl Write) -> Result<(), Failure> {
    let mut client = Client::open(daemon).await?;
    let mut body = client.get_body(path).await?;
    let broken = |error| Failure::client(format!("the export was cut off: {error}; see the daemon's log"));
    let mut progress = Progress::new("exporting");
    while let Some(frame) = body.frame().await {
        let Ok(bytes) = frame.map_err(broken)?.into_data() else { continue };
        progress.add(bytes.len() as u64);
        if let Err(error) = out.write_all(&bytes) {
            return unwritten(&error);
        }
    }
    drop(progress);
    out.flush().or_else(|error| unwritten(&error))
}

fn from_files(path: &Path, args: &ExportArgs, out: impl Write) -> Result<(), Failure> {
    let mut files = Files::open(path).map_err(Failure::client)?;
    let masker = if args.redact { Some(files.masker().map_err(Failure::client)?) } else { None };
    let LocalSession { name, key } = local_session(path);
    let recording = files.recording();
    if key.is_none() && !recording.is_export() && args.format == Format::Jsonl {
        terminal::notice("the key of its data directory is missing, so this export cannot be verified");
    }
    let options = Options { key: key.as_ref(), masker: masker.as_ref(), ..Options::new(&name) };
    let done = match args.format {
        Format::Jsonl => export::jsonl(recording, &options, out),
        Format::Asciicast => export::asciicast(recording, &options, out),
        Format::Html => export::html(recording, &options, out),
    };
    match done {
        Ok(()) => Ok(()),
        Err(ExportError::Write(error)) => unwritten(&error),
        Err(error) => Err(Failure::client(error)),
    }
}

/// A closed pipe is not an error.
fn unwritten(error: &io::Error) -> Result<(), Failure> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(Failure::client(format!("cannot write the export: {error}"))),
    }
}
