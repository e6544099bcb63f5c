//! What each crate may depend on. The table is the architecture; a new dependency is decided here.

use std::collections::BTreeSet;

/// Prefix of our own crates' names.
const PREFIX: &str = "shellkeep-";

/// The rules for one crate.
struct Rule {
    /// Its name without the prefix.
    name: &'static str,
    /// Our crates it may name.
    may_name: &'static [&'static str],
    /// Other crates it must not have, whatever for.
    must_not_have: &'static [&'static str],
}

/// Crates that open files, sockets or processes, or wait for them.
const INPUT_AND_OUTPUT: &[&str] =
    &["tokio", "libc", "rustix", "nix", "hyper", "axum", "rusqlite", "reqwest", "tempfile"];

const RULES: &[Rule] = &[
    Rule { name: "session", may_name: &[], must_not_have: INPUT_AND_OUTPUT },
    Rule { name: "redact", may_name: &[], must_not_have: INPUT_AND_OUTPUT },
    Rule {
        name: "record",
        may_name: &["session", "redact"],
        must_not_have: &["tokio", "axum", "hyper", "clap", "libc"],
    },
    Rule {
        name: "store",
        may_name: &["session", "record", "redact"],
        must_not_have: &["axum", "hyper", "clap", "libc"],
    },
    Rule { name: "tls", may_name: &[], must_not_have: &["axum", "hyper", "clap", "libc", "rusqlite"] },
    Rule {
        name: "shared",
        may_name: &["session", "tls"],
        must_not_have: &["axum", "hyper", "clap", "libc", "rusqlite"],
    },
    Rule {
        name: "history",
        may_name: &["session", "redact", "record", "store", "tls"],
        must_not_have: &["axum", "hyper", "clap", "libc", "rusqlite"],
    },
    Rule { name: "process", may_name: &[], must_not_have: &["serde", "serde_json", "axum", "hyper", "clap"] },
    Rule { name: "workspace", may_name: &["session"], must_not_have: &["axum", "hyper", "clap"] },
    Rule { name: "s3", may_name: &["tls", "workspace"], must_not_have: &["axum", "clap", "libc", "rusqlite", "serde"] },
    Rule {
        name: "runtime",
        may_name: &["session", "redact", "record", "store", "shared", "process", "workspace"],
        must_not_have: &["serde", "axum", "hyper", "rmcp", "clap", "libc"],
    },
    Rule { name: "protocol", may_name: &["session", "record"], must_not_have: INPUT_AND_OUTPUT },
    Rule {
        name: "server",
        may_name: &["runtime", "protocol", "session"],
        must_not_have: &["libc", "rustix", "rusqlite", "clap"],
    },
    Rule {
        name: "shellkeep",
        may_name: &[
            "session",
            "redact",
            "record",
            "store",
            "shared",
            "history",
            "process",
            "workspace",
            "runtime",
            "protocol",
            "s3",
            "server",
            "terminal",
            "top",
        ],
        must_not_have: &["libc"],
    },
    Rule { name: "terminal", may_name: &["session"], must_not_have: &["axum", "hyper", "rusqlite", "clap", "libc"] },
    Rule { name: "top", may_name: &["protocol", "session", "terminal"], must_not_have: INPUT_AND_OUTPUT },
    Rule { name: "poll", may_name: &[], must_not_have: &["axum", "hyper", "rusqlite", "clap"] },
    Rule { name: "servers", may_name: &["history", "poll"], must_not_have: &["axum", "hyper", "rusqlite", "clap"] },
    Rule { name: "tidy", may_name: &[], must_not_have: INPUT_AND_OUTPUT },
];

/// A crate's manifest, read.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    /// Folder name.
    pub folder: String,
    /// `package.name`
    pub name: String,
    /// `package.description`
    pub description: String,
    /// Names under `[dependencies]`.
    pub dependencies: BTreeSet<String>,
    /// Names under `[build-dependencies]` and `[dev-dependencies]`.
    pub other_dependencies: BTreeSet<String>,
    /// Whether `[lints] workspace = true`.
    pub workspace_lints: bool,
    /// Lints the crate sets on its own.
    pub own_lints: bool,
}

/// Reads a manifest.
pub fn parse(folder: &str, text: &str) -> Result<Manifest, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("{folder}: {error}"))?;
    let keys = |name: &str| -> BTreeSet<String> {
        table.get(name).and_then(toml::Value::as_table).map(|found| found.keys().cloned().collect()).unwrap_or_default()
    };
    let package = |name: &str| {
        table.get("package").and_then(|package| package.get(name)?.as_str()).unwrap_or_default().to_owned()
    };
    let lints = table.get("lints").and_then(toml::Value::as_table);
    Ok(Manifest {
        folder: folder.to_owned(),
        name: package("name"),
        description: package("description"),
        dependencies: keys("dependencies"),
        other_dependencies: &keys("build-dependencies") | &keys("dev-dependencies"),
        workspace_lints: lints.is_some_and(|lints| lints.get("workspace").and_then(toml::Value::as_bool) == Some(true)),
        own_lints: lints.is_some_and(|lints| lints.keys().any(|key| key != "workspace")),
    })
}

/// What is wrong with a crate's edges and description.
pub fn check(manifest: &Manifest) -> Vec<String> {
    let mut wrong = Vec::new();
    let short = manifest.name.strip_prefix(PREFIX).unwrap_or(&manifest.name);
    if short != manifest.folder {
        wrong.push(format!("{}: the folder is not named as the crate '{}'", manifest.folder, manifest.name));
    }
    if manifest.description.is_empty() {
        wrong.push(format!("{}: no description in Cargo.toml", manifest.folder));
    }
    let Some(rule) = RULES.iter().find(|rule| rule.name == manifest.folder) else {
        wrong.push(format!("{}: a crate without a rule; add it to edges.rs", manifest.folder));
        return wrong;
    };
    for dependency in &manifest.dependencies {
        let ours = dependency.strip_prefix(PREFIX);
        if ours.is_some_and(|name| !rule.may_name.contains(&name)) {
            wrong.push(format!("{}: must not name {dependency}", manifest.folder));
        }
        if rule.must_not_have.contains(&dependency.as_str()) {
            wrong.push(format!("{}: must not have {dependency}", manifest.folder));
        }
    }
    wrong
}

/// Names of the dependencies of a `[workspace.dependencies]` table that are not ours.
pub fn workspace_dependencies(text: &str) -> Result<BTreeSet<String>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
    let found = table.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    let keys = found.map(|found| found.keys().cloned().collect::<BTreeSet<_>>()).unwrap_or_default();
    Ok(keys.into_iter().filter(|name| !name.starts_with(PREFIX)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(folder: &str, dependencies: &[&str]) -> Manifest {
        let list: String = dependencies.iter().map(|name| format!("{name}.workspace = true\n")).collect();
        let text = format!("[package]\nname = \"shellkeep-{folder}\"\ndescription = \"x\"\n[dependencies]\n{list}");
        parse(folder, &text).unwrap()
    }

    #[test]
    fn forbidden_edges_are_found() {
        for (folder, dependency) in [
            ("session", "tokio"),
            ("session", "shellkeep-store"),
            ("store", "shellkeep-process"),
            ("process", "serde"),
            ("process", "shellkeep-session"),
            ("runtime", "serde"),
            ("runtime", "shellkeep-server"),
            ("server", "shellkeep-process"),
            ("server", "shellkeep-store"),
            ("protocol", "tokio"),
            ("redact", "shellkeep-session"),
            ("redact", "tokio"),
            ("unheard", "serde"),
        ] {
            assert_eq!(check(&manifest(folder, &[dependency])).len(), 1, "{folder} -> {dependency}");
        }
    }

    #[test]
    fn allowed_edges_are_left_alone() {
        let runtime = manifest("runtime", &["shellkeep-session", "shellkeep-store", "shellkeep-process", "serde_json"]);
        assert_eq!(check(&runtime), Vec::<String>::new());
        assert_eq!(check(&manifest("server", &["shellkeep-runtime", "axum"])), Vec::<String>::new());
    }

    #[test]
    fn a_crate_needs_a_description_and_its_own_name() {
        let nameless = parse("store", "[package]\nname = \"shellkeep-depot\"\n").unwrap();
        assert_eq!(check(&nameless).len(), 2);
    }
}
