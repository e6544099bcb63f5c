//! The program's entry; everything is in the library.

use std::process::ExitCode;

/// A command allocates some hundred times; docs/DEPENDENCIES.md says what this saves.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    shellkeep::main()
}
