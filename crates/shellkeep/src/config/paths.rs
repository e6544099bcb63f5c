//! The paths of a daemon's data and socket: all that a client needs of the settings. A mistake elsewhere in the
//! configuration must not prevent a client from using a running daemon.

use super::{Environment, KEEP_PROJECTS, Layer, default_data, layer};
use crate::failure::Failure;
use crate::noted;
use std::path::{Path, PathBuf};

/// Where a daemon's data and socket are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonPaths {
    pub data: PathBuf,
    pub socket: PathBuf,
}

impl DaemonPaths {
    /// From the flags of a client, the environment and the default file.
    pub fn find(flags: &Layer, env: Environment) -> Result<Self, Failure> {
        let file = match layer::from_file(None, env) {
            Ok(file) => file.layer,
            Err(_) => readable_part(env),
        };
        let of = |get: fn(&Layer) -> &Option<PathBuf>, variable: &str| {
            let variable = || env(variable).map(|path| absolute(Path::new(&path)));
            get(flags).clone().or_else(variable).or_else(|| get(&file).clone())
        };
        let data = match of(|layer| &layer.data, "SHELLKEEP_DATA") {
            Some(data) => data,
            None => default_data(env)?,
        };
        let socket = of(|layer| &layer.socket, "SHELLKEEP_SOCKET").unwrap_or_else(|| noted::usual(&data));
        Ok(Self { data, socket })
    }
}

/// Whether sessions that the command line creates in a project save its files. The client decides, from its own
/// configuration.
pub fn keeps_projects(env: Environment) -> bool {
    let file = || layer::from_file(None, env).ok().and_then(|file| file.layer.project_workspace);
    let variable = env("SHELLKEEP_PROJECT_WORKSPACE").and_then(|text| text.parse().ok());
    variable.or_else(file).unwrap_or(KEEP_PROJECTS)
}

/// The paths in a file that contains a mistake. The daemon itself reports the mistake.
fn readable_part(env: Environment) -> Layer {
    let Some(path) = layer::path(None, env) else { return Layer::default() };
    let table: Option<toml::Table> = std::fs::read_to_string(&path).ok().and_then(|text| text.parse().ok());
    let text = |name: &str| table.as_ref()?.get(name)?.as_str().map(PathBuf::from);
    Layer { data: text("data"), socket: text("socket"), ..Layer::default() }.absolute(path.parent())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(flags: &Layer, file: &str) -> DaemonPaths {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.toml");
        std::fs::write(&path, file).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let env = |name: &str| match name {
            "SHELLKEEP_CONFIG" => Some(path.clone()),
            "HOME" => Some("/home/ann".to_owned()),
            _ => None,
        };
        DaemonPaths::find(flags, &env).unwrap()
    }

    #[test]
    fn a_mistake_in_the_file_does_not_hide_the_daemon() {
        let usual = Path::new("/home/ann/.local/share/shellkeep");
        for (file, data) in [
            ("", usual),
            ("data = \"/d\"\n", Path::new("/d")),
            ("data = \"/d\"\nmax_shels = 3\n", Path::new("/d")),
            ("data = \"/d\"\nmax_shells = \"many\"\n", Path::new("/d")),
            ("data = \"/d\"\nmax_shells = \n", usual),
        ] {
            let found = find(&Layer::default(), file);
            assert_eq!((found.data.as_path(), found.socket), (data, data.join("shellkeep.sock")), "{file}");
        }
        let flags = Layer { socket: Some("/s.sock".into()), ..Layer::default() };
        assert_eq!(find(&flags, "max_shels = 3\nsocket = \"/other\"\n").socket, Path::new("/s.sock"));
    }
}
