//! What is built into the program and was written by others: every package of `Cargo.lock`, held to `deny.toml`. The
//! advisories need a database and are `cargo deny`'s; see `make deny`.

use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// A package of `Cargo.lock`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it comes from; nothing for our own.
    pub source: Option<String>,
    /// The SHA-256 of what was fetched.
    pub checksum: Option<String>,
}

/// Licences by name and version.
pub type Licences = BTreeMap<(String, String), String>;

/// The rules of `deny.toml` that are checked here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    licences: BTreeSet<String>,
    denied: BTreeSet<String>,
    may_be_twice: BTreeSet<String>,
}

/// Reads `Cargo.lock`.
pub fn locked(text: &str) -> Result<Vec<Package>, String> {
    let table: Table = text.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let packages = table.get("package").and_then(Value::as_array).ok_or("Cargo.lock has no packages")?;
    let package = |value: &Value| {
        let field = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let (name, version) = (field("name")?, field("version")?);
        Some(Package { name, version, source: field("source"), checksum: field("checksum") })
    };
    let mut found: Vec<Package> = packages.iter().filter_map(package).collect();
    found.sort();
    Ok(found)
}

/// Reads the licences from what `cargo metadata` prints.
pub fn licences(metadata: &str) -> Result<Licences, String> {
    let metadata: serde_json::Value = serde_json::from_str(metadata).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let licence = |package: &serde_json::Value| {
        let field = |name: &str| package[name].as_str().map(str::to_owned);
        Some(((field("name")?, field("version")?), field("license")?))
    };
    Ok(packages.iter().filter_map(licence).collect())
}

/// Reads `deny.toml`.
pub fn policy(text: &str) -> Result<Policy, String> {
    let table: Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
    let list = |section: &str, name: &str| {
        let list = table.get(section).and_then(|section| section.get(name)).and_then(Value::as_array);
        list.ok_or_else(|| format!("deny.toml has no {section}.{name}"))
    };
    let reasoned = |section: &str, name: &str| -> Result<BTreeSet<String>, String> {
        let crate_name = |entry: &Value| {
            let reason = entry.get("reason").and_then(Value::as_str).is_some_and(|reason| !reason.is_empty());
            let name = entry.get("name").and_then(Value::as_str).filter(|_| reason);
            name.map(str::to_owned)
                .ok_or_else(|| format!("deny.toml: {section}.{name:?}: a name and a reason for each"))
        };
        list(section, name)?.iter().map(crate_name).collect()
    };
    Ok(Policy {
        licences: list("licenses", "allow")?.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        denied: reasoned("bans", "deny")?,
        may_be_twice: reasoned("bans", "skip")?,
    })
}

/// What is wrong with the packages.
pub fn check(packages: &[Package], licences: &Licences, policy: &Policy) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for package in packages {
        let Package { name, version, source, checksum } = package;
        *versions.entry(name).or_default() += 1;
        if policy.denied.contains(name) {
            wrong.push(format!("{name}: deny.toml says why it must not be built in"));
        }
        match source {
            None => continue,
            Some(source) if !source.starts_with("registry+") => {
                wrong.push(format!("{name} {version}: it does not come from the registry"));
            }
            Some(_) if checksum.is_none() => wrong.push(format!("{name} {version}: Cargo.lock has no checksum")),
            Some(_) => {}
        }
        // Of crates for other systems the licence is not known where they were not fetched.
        if let Some(licence) = licences.get(&(name.clone(), version.clone()))
            && !is_allowed(licence, &policy.licences)
        {
            wrong.push(format!("{name} {version}: the licence `{licence}` is not among those of deny.toml"));
        }
    }
    let sources: BTreeSet<&String> = packages.iter().filter_map(|package| package.source.as_ref()).collect();
    if sources.len() > 1 {
        wrong.push("packages come from more than one registry".to_owned());
    }
    for (name, count) in versions {
        match (count > 1, policy.may_be_twice.contains(name)) {
            (true, false) => {
                wrong.push(format!("{name}: {count} versions; agree on one, or give a reason in deny.toml"))
            }
            (false, true) => wrong.push(format!("{name}: one version is left; remove it from bans.skip in deny.toml")),
            _ => {}
        }
    }
    wrong
}

/// Whether an SPDX expression lets us choose allowed licences only.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let result = either(&words, &mut at, allowed);
    result && at == words.len()
}

fn either(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = both(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        // Each side is read to its end, whatever it says.
        result |= both(words, at, allowed);
    }
    result
}

fn both(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut result = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        result &= one(words, at, allowed);
    }
    result
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let result = either(words, at, allowed);
        *at += 1;
        return result;
    }
    match (words.get(*at), words.get(*at + 1)) {
        (Some(&"WITH"), Some(exception)) => {
            *at += 2;
            allowed.contains(&format!("{word} WITH {exception}"))
        }
        _ => allowed.contains(*word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        [licenses]
        allow = ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"]
        [bans]
        deny = [{ name = "bad", reason = "it is" }]
        skip = [{ name = "twice", reason = "others" }]
    "#;

    fn package(name: &str, version: &str, source: &str) -> Package {
        let checksum = Some("00".to_owned());
        Package { name: name.to_owned(), version: version.to_owned(), source: Some(source.to_owned()), checksum }
    }

    #[test]
    fn expressions_are_read() {
        let allowed = policy(POLICY).unwrap().licences;
        for expression in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Unicode-3.0"] {
            assert!(is_allowed(expression, &allowed), "{expression}");
        }
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR Apache-2.0", &allowed));
        for expression in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "(MIT OR X) AND GPL-3.0", "MIT MIT"] {
            assert!(!is_allowed(expression, &allowed), "{expression}");
        }
    }

    #[test]
    fn each_rule_finds_something() {
        let policy = policy(POLICY).unwrap();
        let mut packages = vec![package("a", "1", "registry+x"), package("twice", "1", "registry+x")];
        packages.push(package("twice", "2", "registry+x"));
        assert_eq!(check(&packages, &Licences::new(), &policy), Vec::<String>::new());
        packages.push(package("bad", "1", "git+y"));
        packages.push(package("a", "2", "registry+x"));
        packages[0].checksum = None;
        packages.retain(|package| (package.name.as_str(), package.version.as_str()) != ("twice", "2"));
        let licences = Licences::from([(("twice".to_owned(), "1".to_owned()), "GPL-3.0".to_owned())]);
        let wrong = check(&packages, &licences, &policy);
        for (word, count) in
            [("bad: ", 1), ("registry", 2), ("checksum", 1), ("GPL-3.0", 1), ("a: 2 versions", 1), ("one version", 1)]
        {
            assert_eq!(wrong.iter().filter(|line| line.contains(word)).count(), count, "{word}: {wrong:?}");
        }
    }
}
