//! Builds the driver, a shared object that bash loads. It is embedded into the program, so that there is one binary.

#![allow(clippy::expect_used, reason = "a build that cannot go on should say why and stop")]

use std::env;
use std::path::PathBuf;

const SOURCES: [&str; 6] = ["driver.c", "descriptors.c", "wire.c", "seen.c", "capture.c", "restore.c"];

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("driver.so");
    println!("cargo:rerun-if-changed=driver");
    let compiler = cc::Build::new().opt_level(2).pic(true).warnings(true).cargo_metadata(false).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-std=gnu11", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-o"]).arg(&out);
    command.args(SOURCES.iter().map(|source| format!("driver/{source}")));
    let status = command.status().expect("a C compiler is needed to build the bash driver");
    assert!(status.success(), "the bash driver does not compile");
    println!("cargo:rustc-env=SHELLKEEP_DRIVER={}", out.display());
}
