//! Packs the files of the console, so that they are part of the program and are sent without further work.

#![allow(clippy::expect_used, reason = "a build that cannot go on should say why and stop")]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let web = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("web");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed={}", web.display());
    let mut files: Vec<PathBuf> =
        fs::read_dir(&web).expect("web/ can be read").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| file.is_file());
    files.sort();
    let mut table = String::from("const ASSETS: &[Asset] = &[\n");
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        add(&mut table, file, &out);
    }
    table.push_str("];\n");
    fs::write(out.join("assets.rs"), table).expect("the table can be written");
}

fn add(table: &mut String, file: &Path, out: &Path) {
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8");
    let media_type = match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => panic!("{name}: of which type is it?"),
    };
    let plain = fs::read(file).expect("it can be read");
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&plain).expect("memory takes it");
    let packed = out.join(format!("{name}.gz"));
    fs::write(&packed, packer.finish().expect("memory takes it")).expect("it can be written");
    let etag = blake3::hash(&plain).to_hex();
    writeln!(
        table,
        "    Asset {{ name: {name:?}, media_type: {media_type:?}, etag: {:?}, plain: include_bytes!({file:?}), gzip: \
         include_bytes!({packed:?}) }},",
        format!("\"{}\"", &etag[..32]),
    )
    .expect("memory takes it");
}
