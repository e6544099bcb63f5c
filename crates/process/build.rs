//! Builds the driver, a shared object that bash loads, the keeper, a small program that looks after a service, and another
//! that works in a session's namespaces. All are embedded into the program, so that there is one binary.

#![allow(clippy::expect_used, reason = "a build that cannot go on should say why and stop")]

use std::env;
use std::path::PathBuf;

const DRIVER: [&str; 15] = [
    "driver/driver.c",
    "driver/call.c",
    "driver/channel.c",
    "driver/confine.c",
    "driver/descriptors.c",
    "driver/locale.c",
    "driver/wire.c",
    "driver/seen.c",
    "driver/capture.c",
    "driver/restore.c",
    "driver/zygote.c",
    "room/capabilities.c",
    "room/fence.c",
    "room/room.c",
    "room/user.c",
];
const KEEPER: [&str; 5] = ["keeper/keeper.c", "keeper/log.c", "keeper/mask.c", "room/capabilities.c", "room/room.c"];
const ROOM: [&str; 4] = ["room/main.c", "room/capabilities.c", "room/fence.c", "room/room.c"];

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
    for folder in ["driver", "keeper", "room"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    build("driver.so", &DRIVER, &["-shared", "-fvisibility=hidden"], "SHELLKEEP_DRIVER");
    build("keeper", &KEEPER, &["-s", "-pie"], "SHELLKEEP_KEEPER");
    build("room", &ROOM, &["-s", "-pie"], "SHELLKEEP_ROOM");
}

fn build(result: &str, sources: &[&str], flags: &[&str], variable: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(result);
    let mut compiling = cc::Build::new();
    // Debug information would be three quarters of the driver, which every daemon copies into memory.
    compiling.opt_level(2).debug(false).pic(true).warnings(true).cargo_metadata(false);
    for flag in IF_SUPPORTED {
        compiling.flag_if_supported(flag);
    }
    let mut command = compiling.get_compiler().to_command();
    command.args(["-std=gnu11", "-Wall", "-Wextra"]).args(HARDENED).args(flags);
    // Elsewhere a newer compiler with a new warning must not stop a build.
    if env::var_os("CI").is_some() {
        command.arg("-Werror");
    }
    command.arg("-o").arg(&out).args(sources);
    let status = command.status().expect("a C compiler is needed to build what runs inside and beside bash");
    assert!(status.success(), "{result} does not compile");
    println!("cargo:rustc-env={variable}={}", out.display());
}
