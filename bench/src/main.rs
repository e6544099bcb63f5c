//! The benchmark: every figure beside the floor that the machine itself sets, taken in the same run, in turns.
//!
//! A figure alone says more about the machine than about the program, so each one here is a ratio. Floor and ours take
//! turns within one run and the median of the rounds is shown, so that a noisy minute touches both alike. Nothing is
//! asserted: a target that is missed is marked in the table, and the program still ends well.
//!
//! - [`figures`]: what is measured, one file per figure.
//! - [`floor`]: bash driven with plain blocking pipes, and nothing else.
//! - [`library`], [`daemon`], [`http`]: the three ways to ours.
//! - [`lanes`]: many conversations at once, for the figures with a thousand shells.
//! - [`peers`]: other tools, driven from Python by `bench/peers.py`.
//! - [`report`], [`plot`]: the table and the picture.
//! - [`scale`], [`files`], [`sizes`], [`curves`]: the pages about many sessions and about many files, their tables and
//!   pictures.

mod curves;
mod daemon;
mod fallible;
mod figures;
mod files;
mod floor;
mod http;
mod lanes;
mod library;
mod machine;
mod options;
mod peers;
mod plot;
mod relay;
mod report;
mod scale;
mod setup;
mod sizes;
mod stats;

use fallible::Fallible;
use options::Options;
use report::Report;
use setup::Setup;
use std::process::ExitCode;

/// The one of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)).and_then(|options| bench(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shellkeep-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Fallible<()> {
    // What the daemon does for itself; a thousand shells need it of the library's host as well.
    shellkeep_process::spawn::raise_descriptor_limit();
    let setup = Setup::find(options)?;
    let mut report = Report::new(machine::Facts::read(&setup.bash), options.quick);
    for (name, measure) in figures::ALL {
        if !options.wants(name) {
            continue;
        }
        eprintln!("measuring: {name}");
        if let Err(error) = measure(&setup, &mut report) {
            // The other figures are still worth having.
            eprintln!("  not measured: {error}");
            report.not_measured(name, &error.to_string());
        }
    }
    println!("{}", report.terminal());
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(options.out.join("bench.md"), report.markdown())?;
    std::fs::write(options.out.join("bench.svg"), plot::bars(&report.bars))?;
    println!("written: {0}/bench.md and {0}/bench.svg", options.out.display());
    if !report.scale.is_empty() {
        std::fs::write(options.out.join("scale.md"), scale::markdown(&report.scale, &report.machine(), options.quick))?;
        std::fs::write(options.out.join("scale.svg"), scale::picture(&report.scale))?;
        println!("written: {0}/scale.md and {0}/scale.svg", options.out.display());
    }
    if !report.files.is_empty() {
        std::fs::write(options.out.join("files.md"), files::markdown(&report.files, &report.machine(), options.quick))?;
        std::fs::write(options.out.join("files.svg"), files::picture(&report.files))?;
        println!("written: {0}/files.md and {0}/files.svg", options.out.display());
    }
    Ok(())
}
