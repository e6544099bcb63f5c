//! Builds the driver, a shared object that bash loads, and the keeper, a small program that looks after a service. Both
//! are embedded into the program, so that there is one binary.

#![allow(clippy::expect_used, reason = "a build that cannot go on should say why and stop")]

use std::env;
use std::path::PathBuf;

const DRIVER: [&str; 6] = ["driver.c", "descriptors.c", "wire.c", "seen.c", "capture.c", "restore.c"];
const KEEPER: [&str; 2] = ["keeper.c", "log.c"];

fn main() {
    build("driver", "driver.so", &DRIVER, &["-shared", "-fvisibility=hidden"], "SHELLKEEP_DRIVER");
    build("keeper", "keeper", &KEEPER, &["-s"], "SHELLKEEP_KEEPER");
}

fn build(folder: &str, result: &str, sources: &[&str], flags: &[&str], variable: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(result);
    println!("cargo:rerun-if-changed={folder}");
    let compiler = cc::Build::new().opt_level(2).pic(true).warnings(true).cargo_metadata(false).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-std=gnu11", "-Wall", "-Wextra", "-o"]).arg(&out).args(flags);
    command.args(sources.iter().map(|source| format!("{folder}/{source}")));
    let status = command.status().expect("a C compiler is needed to build what runs inside and beside bash");
    assert!(status.success(), "{folder}/ does not compile");
    println!("cargo:rustc-env={variable}={}", out.display());
}
