//! Builds the driver, a shared object that bash loads, and the keeper, a small program that looks after a service. Both
//! are embedded into the program, so that there is one binary.

#![allow(clippy::expect_used, reason = "a build that cannot go on should say why and stop")]

use std::env;
use std::path::PathBuf;

const DRIVER: [&str; 10] = [
    "driver.c",
    "call.c",
    "channel.c",
    "confine.c",
    "descriptors.c",
    "wire.c",
    "seen.c",
    "capture.c",
    "restore.c",
    "zygote.c",
];
const KEEPER: [&str; 2] = ["keeper.c", "log.c"];

/// What every compiler that we know takes: a stack that notices when it is overwritten, checked copies, and tables of
/// functions that cannot be written to once the object is loaded. `tests/hardening.rs` looks at the result.
const HARDENED: [&str; 5] = [
    "-fstack-protector-strong",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=3",
    "-Wl,-z,relro,-z,now",
    "-Wl,-z,noexecstack",
];
/// What some compilers or processors do not have.
const IF_SUPPORTED: [&str; 2] = ["-fstack-clash-protection", "-fcf-protection=full"];

fn main() {
    println!("cargo:rerun-if-env-changed=CI");
    build("driver", "driver.so", &DRIVER, &["-shared", "-fvisibility=hidden"], "SHELLKEEP_DRIVER");
    build("keeper", "keeper", &KEEPER, &["-s", "-pie"], "SHELLKEEP_KEEPER");
}

fn build(folder: &str, result: &str, sources: &[&str], flags: &[&str], variable: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(result);
    println!("cargo:rerun-if-changed={folder}");
    let mut compiling = cc::Build::new();
    compiling.opt_level(2).pic(true).warnings(true).cargo_metadata(false);
    for flag in IF_SUPPORTED {
        compiling.flag_if_supported(flag);
    }
    let mut command = compiling.get_compiler().to_command();
    command.args(["-std=gnu11", "-Wall", "-Wextra"]).args(HARDENED).args(flags);
    // Elsewhere a newer compiler with a new warning must not stop a build.
    if env::var_os("CI").is_some() {
        command.arg("-Werror");
    }
    command.arg("-o").arg(&out).args(sources.iter().map(|source| format!("{folder}/{source}")));
    let status = command.status().expect("a C compiler is needed to build what runs inside and beside bash");
    assert!(status.success(), "{folder}/ does not compile");
    println!("cargo:rustc-env={variable}={}", out.display());
}
