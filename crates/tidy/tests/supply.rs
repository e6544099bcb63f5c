//! What others wrote, held to `deny.toml`; and the bill of materials, which must be whole.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what it expected by panicking")]

use shellkeep_tidy::supply::{self, Licences, Package};
use shellkeep_tidy::{sbom, tree};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn packages() -> Vec<Package> {
    let lock = fs::read_to_string(tree::root().join("Cargo.lock")).expect("there is a Cargo.lock");
    supply::locked(&lock).expect("it can be read")
}

/// The licences of what was fetched, which is at least what is built here. Nothing is fetched for it.
fn licences() -> Licences {
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform", &platform]);
    let output = command.current_dir(tree::root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    supply::licences(&String::from_utf8(output.stdout).expect("UTF-8")).expect("it can be read")
}

#[test]
fn what_others_wrote_may_be_built_in() {
    let policy = fs::read_to_string(tree::root().join("deny.toml")).expect("there is a deny.toml");
    let policy = supply::policy(&policy).expect("it can be read");
    let (packages, licences) = (packages(), licences());
    assert!(packages.len() > 100 && licences.len() > 100, "{} and {}", packages.len(), licences.len());
    let wrong = supply::check(&packages, &licences, &policy);
    assert!(wrong.is_empty(), "{} to settle:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_bill_of_materials_is_whole() {
    let (packages, licences) = (packages(), licences());
    let bill = sbom::bill("0.0.0", &packages, &licences);
    assert_eq!(bill, sbom::bill("0.0.0", &packages, &licences), "the same input gives the same bill");
    let read: serde_json::Value = serde_json::from_str(&bill).expect("JSON");
    assert_eq!((read["bomFormat"].as_str(), read["specVersion"].as_str()), (Some("CycloneDX"), Some("1.6")));
    let components = read["components"].as_array().expect("a list");
    let name = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let listed: BTreeSet<_> = components.iter().map(|one| (name(&one["name"]), name(&one["version"]))).collect();
    let locked: BTreeSet<_> = packages.iter().map(|one| (one.name.clone(), one.version.clone())).collect();
    assert_eq!(listed, locked, "the bill and Cargo.lock differ");
    let references: BTreeSet<_> = components.iter().map(|one| name(&one["bom-ref"])).collect();
    assert_eq!(references.len(), components.len(), "a reference is there twice");
    for one in components {
        let (name, version) = (name(&one["name"]), name(&one["version"]));
        let known = licences.get(&(name.clone(), version.clone())).map(|licence| licence.replace('/', " OR "));
        assert_eq!(one["licenses"][0]["expression"].as_str(), known.as_deref(), "{name} {version}");
        let is_ours = name.starts_with("shellkeep");
        assert_eq!(one["hashes"][0]["content"].is_string(), !is_ours, "{name} {version}");
    }
}
