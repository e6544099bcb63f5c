//! `shellkeep console`: opens the console in a browser, or prints its link.

use crate::cli::DaemonArgs;
use crate::client::{self, Client, Endpoint};
use crate::failure::Failure;
use crate::terminal;
use clap::Args;
use serde_json::json;
use shellkeep_protocol::{ConsoleCode, ConsoleCodeRequest, ConsoleRight};
use std::process::{Command, ExitCode, Stdio};

/// Arguments of `console`.
#[derive(Debug, Args)]
#[command(
    after_help = "The link works once, within a minute. The page gets a token that is valid for 12 hours, is listed by `shellkeep tokens`,
and can be revoked with `shellkeep tokens revoke`. A browser on another machine reaches the daemon through ssh: `ssh -L
7433:127.0.0.1:7433 HOST`, then `shellkeep console --print` on HOST.

Examples:
  shellkeep console
  shellkeep console --print
  shellkeep console --watch

Exit codes: 0 done, 1 not done (no daemon, no TCP port, not the host), 2 wrong usage."
)]
pub struct ConsoleArgs {
    /// Print the link and open no browser
    #[arg(long)]
    print: bool,
    /// Only watch: the page reads everything and changes nothing
    #[arg(long)]
    watch: bool,
    /// Print JSON, and open no browser
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub fn execute(args: ConsoleArgs) -> Result<ExitCode, Failure> {
    client::block_on(async {
        let flags = args.daemon.as_flags();
        let Some(mut client) = Client::running(&args.daemon).await? else {
            return Err(Failure::client(match client::find(&args.daemon)?.1 {
                Endpoint::Unix { .. } => {
                    format!("no daemon is running; start one with `shellkeep serve{flags}`, then try again")
                }
                Endpoint::Tcp { authority, .. } => {
                    format!("nothing listens on http://{authority}; start the daemon there, or check the address")
                }
            }));
        };
        let right = Some(if args.watch { ConsoleRight::Watch } else { ConsoleRight::Act });
        let code: ConsoleCode = client.post("/v1/console/code", &ConsoleCodeRequest { right }).await?;
        let Some(url) = address(client.endpoint(), &code.urls) else {
            return Err(Failure::client(format!(
                "the daemon listens on its socket only, and a browser needs a TCP port; restart it with one: \
                 `shellkeep stop{flags}`, then `shellkeep serve{flags}`"
            )));
        };
        let link = format!("{url}/#c={}", code.code);
        if args.json {
            terminal::json(&json!({"url": link, "expires_in": code.expires_in}))?;
        } else if args.print || !opened(&link) {
            terminal::line(&link);
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Where a browser reaches the daemon: as this command does, or at a port of this machine.
fn address(endpoint: &Endpoint, doors: &[String]) -> Option<String> {
    match endpoint {
        Endpoint::Tcp { authority, .. } => Some(format!("http://{authority}")),
        // Every address of the machine includes its own.
        Endpoint::Unix { .. } => doors.first().map(|url| url.replace("0.0.0.0", "127.0.0.1").replace("[::]", "[::1]")),
    }
}

/// Opens a browser; false if there is none.
fn opened(link: &str) -> bool {
    let quiet =
        Command::new("xdg-open").arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_gets_an_address_of_this_machine() {
        let socket = Endpoint::Unix { path: "/x".into(), token: None };
        let doors = |door: &str| address(&socket, &[door.to_owned()]);
        assert_eq!(doors("http://0.0.0.0:7433").as_deref(), Some("http://127.0.0.1:7433"));
        assert_eq!(doors("http://[::]:7433").as_deref(), Some("http://[::1]:7433"));
        assert_eq!(address(&socket, &[]), None);
    }
}
