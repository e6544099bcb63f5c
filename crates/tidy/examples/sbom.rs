//! Prints the bill of materials of this workspace. `cargo metadata --format-version 1` is read from standard input; see
//! `make sbom`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "an example says what went wrong by panicking")]

use shellkeep_tidy::{sbom, supply, tree};

fn main() {
    let lock = std::fs::read_to_string(tree::root().join("Cargo.lock")).expect("there is a Cargo.lock");
    let metadata = std::io::read_to_string(std::io::stdin()).expect("cargo metadata on standard input");
    let licences = supply::licences(&metadata).expect("what cargo metadata prints");
    let packages = supply::locked(&lock).expect("a Cargo.lock");
    print!("{}", sbom::bill(env!("CARGO_PKG_VERSION"), &packages, &licences));
}
