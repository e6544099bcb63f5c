//! `shellkeep quotas`: shows and changes quotas.

use crate::cli::ClientArgs;
use crate::client::{self, Client};
use crate::failure::Failure;
use crate::terminal::{self, Cell, Colour, Column, Table, TableArgs};
use clap::{Args, Subcommand};
use shellkeep_protocol::{Quota, QuotasRequest, QuotasResponse};
use shellkeep_session::QuotaName;
use shellkeep_terminal::words;
use std::process::ExitCode;

/// Units of bytes, by the letter they begin with.
const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
/// From this share of a limit on, its use is highlighted.
const NEARLY: f64 = 0.8;

/// Arguments of `quotas`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a subcommand, shows the quotas: the configured value, the value set at run time, the limit in effect (lower
while the machine is under pressure), and the use. A change takes effect immediately and survives restarts. A lower
limit stops nothing that is running; nothing new is started above it.

Examples:
  shellkeep quotas
  shellkeep quotas set services_per_agent=10 service_log_bytes=64M
  shellkeep quotas reset services_per_agent
  shellkeep quotas --json | jq .quotas.services

Exit codes: 0 done, 1 not done (not the host, no daemon), 2 wrong usage."
)]
pub struct QuotasArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    client: ClientArgs,
}

/// What to do with quotas.
#[derive(Debug, Subcommand)]
enum Action {
    /// Change limits, effective immediately
    #[command(after_help = "Example:\n  shellkeep quotas set services=200 output_bytes_per_run=1G")]
    Set {
        /// New limits; bytes may be written with K, M, G or T
        #[arg(required = true, value_name = "NAME=VALUE", value_parser = change)]
        changes: Vec<(QuotaName, u64)>,
    },
    /// Reset limits to their configured values
    #[command(after_help = "Example:\n  shellkeep quotas reset services processes")]
    Reset {
        /// The limits
        #[arg(required = true, value_name = "NAME", value_parser = name)]
        names: Vec<QuotaName>,
    },
}

pub fn execute(args: QuotasArgs) -> Result<ExitCode, Failure> {
    client::block_on(act(args))
}

async fn act(args: QuotasArgs) -> Result<ExitCode, Failure> {
    let mut client = Client::open(&args.client.daemon).await?;
    let quotas: QuotasResponse = match args.action {
        None => client.get("/v1/quotas").await?,
        Some(action) => client.put("/v1/quotas", &wanted(action)).await?,
    };
    if args.client.json {
        terminal::json(&quotas)?;
    } else {
        show(&quotas);
    }
    Ok(ExitCode::SUCCESS)
}

fn wanted(action: Action) -> QuotasRequest {
    QuotasRequest(match action {
        Action::Set { changes } => {
            changes.into_iter().map(|(name, limit)| (name.as_str().to_owned(), Some(limit))).collect()
        }
        Action::Reset { names } => names.into_iter().map(|name| (name.as_str().to_owned(), None)).collect(),
    })
}

fn show(response: &QuotasResponse) {
    let columns = [
        Column::word("quota"),
        Column::number("configured"),
        Column::number("set"),
        Column::number("in force"),
        Column::number("used"),
    ];
    let known = QuotaName::ALL.iter().filter_map(|name| Some((*name, response.quotas.get(name.as_str())?)));
    let rows = known.map(|(name, quota)| row(name, quota)).collect();
    terminal::show(&Table::new(columns, rows), TableArgs::default(), "");
    if !terminal::is_terminal() || response.changes.is_empty() {
        return;
    }
    let columns = [
        Column::word("changed"),
        Column::word("limit"),
        Column::number("from"),
        Column::number("to"),
        Column::text("why"),
    ];
    let rows = response.changes.iter().map(|change| {
        [
            Cell::time(&change.at),
            change.limit.as_str().into(),
            change.from.to_string().into(),
            change.to.to_string().into(),
            change.reason.as_str().into(),
        ]
    });
    terminal::line("");
    terminal::show(&Table::new(columns, rows.collect()), TableArgs::default(), "");
}

fn row(name: QuotaName, quota: &Quota) -> [Cell; 5] {
    let amount = |value: u64| match name.is_bytes() {
        true => Cell::size(value),
        false => Cell::short(value.to_string(), words::count(value)),
    };
    let or_dash = |value: Option<u64>| value.map_or_else(Cell::dash, amount);
    let wanted = quota.set.unwrap_or(quota.configured);
    let lowered = (quota.limit < wanted).then_some(Colour::Yellow);
    let near = quota.used.and_then(|used| match used as f64 / quota.limit.max(1) as f64 {
        share if share >= 1.0 => Some(Colour::Red),
        share if share >= NEARLY => Some(Colour::Yellow),
        _ => None,
    });
    [
        name.as_str().into(),
        amount(quota.configured),
        or_dash(quota.set),
        amount(quota.limit).in_colour(lowered),
        or_dash(quota.used).in_colour(near),
    ]
}

/// Bytes as a person reads them, without loss: `16M`, but `16777217`.
pub fn in_units(bytes: u64) -> String {
    let fits = |bits: u32| bytes != 0 && bytes.is_multiple_of(1 << bits);
    match UNITS.into_iter().rev().find(|(_, bits)| fits(*bits)) {
        Some((unit, bits)) => format!("{}{unit}", bytes >> bits),
        None => bytes.to_string(),
    }
}

fn change(text: &str) -> Result<(QuotaName, u64), String> {
    let (quota, value) = text.split_once('=').ok_or("write NAME=VALUE, as in services_per_agent=10")?;
    let quota = name(quota)?;
    Ok((quota, amount(quota, value)?))
}

fn name(text: &str) -> Result<QuotaName, String> {
    QuotaName::parse(text).ok_or_else(|| {
        let known: Vec<&str> = QuotaName::ALL.iter().map(|name| name.as_str()).collect();
        format!("there are: {}", known.join(", "))
    })
}

fn amount(quota: QuotaName, text: &str) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is not a whole number{}", if quota.is_bytes() { " of bytes, as in 64M" } else { "" });
    let bare = text.strip_suffix("iB").unwrap_or(text);
    let unit = UNITS.into_iter().find(|(letter, _)| bare.to_ascii_uppercase().ends_with(*letter));
    let (digits, bits) = match unit {
        Some((_, bits)) if quota.is_bytes() => (&bare[..bare.len() - 1], bits),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << bits).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_a_person_writes_them() {
        use QuotaName::{ServiceLogBytes, Services};
        for (text, expected) in [("0", 0), ("64M", 64 << 20), ("64m", 64 << 20), ("2GiB", 2 << 30), ("1K", 1024)] {
            assert_eq!(amount(ServiceLogBytes, text), Ok(expected), "{text}");
        }
        assert_eq!(amount(Services, "7"), Ok(7));
        for (quota, wrong) in
            [(Services, "7K"), (Services, "-1"), (ServiceLogBytes, "M"), (ServiceLogBytes, "99999999T"), (Services, "")]
        {
            assert!(amount(quota, wrong).is_err(), "{wrong}");
        }
        assert!(change("service=3").unwrap_err().contains("services_per_agent"));
    }

    #[test]
    fn amounts_are_shown_without_loss() {
        for (bytes, expected) in
            [(0, "0"), (16 << 20, "16M"), ((16 << 20) + 1, "16777217"), (1536, "1536"), (3 << 30, "3G")]
        {
            assert_eq!(in_units(bytes), expected);
        }
    }
}
