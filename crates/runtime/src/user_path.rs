//! Looks at paths that callers name. Their file system may belong to another machine that does not answer, so no task looks
//! itself.

use crate::tasks;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long a file system may take to answer.
pub(crate) const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// Whether a path is a directory; if not, why.
pub(crate) async fn is_directory(path: PathBuf) -> Result<(), String> {
    apart(move || check_directory(&path)).await
}

/// The real path of a directory.
pub(crate) async fn real_directory(path: PathBuf) -> Result<PathBuf, String> {
    apart(move || {
        let real = fs::canonicalize(&path).map_err(|error| error.to_string())?;
        check_directory(&real)?;
        Ok(real)
    })
    .await
}

/// Whether both paths lead to the same directory. If the first leads to none, why.
pub(crate) async fn is_same_directory(path: PathBuf, other: PathBuf) -> Result<bool, String> {
    apart(move || {
        check_directory(&path)?;
        let place = |path: &Path| fs::metadata(path).map(|about| (about.dev(), about.ino()));
        Ok(matches!((place(&path), place(&other)), (Ok(one), Ok(other)) if one == other))
    })
    .await
}

/// Whether a path below `above` leads out of it, through a symbolic link.
pub(crate) async fn leads_out(path: PathBuf, above: PathBuf) -> bool {
    let look = move || {
        // Where nothing is, nothing leads out.
        let Ok(real) = fs::canonicalize(&above) else { return Ok(false) };
        let is_link = |place: &Path| fs::symlink_metadata(place).is_ok_and(|found| found.is_symlink());
        Ok(match fs::canonicalize(&path) {
            Ok(led) => !led.starts_with(real),
            // What a link leads to may be there later.
            Err(_) => path.ancestors().take_while(|place| *place != above).any(is_link),
        })
    };
    apart(look).await.unwrap_or(true)
}

fn check_directory(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err("it is not a directory".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Does something with a path on a thread that may wait, for a limited time.
pub(crate) async fn apart<T: Send + 'static>(
    look: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    match timeout(LOOK_LIMIT, tasks::blocking(look)).await {
        Ok(Ok(looked)) => looked,
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("its file system did not answer within {} s", LOOK_LIMIT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_directory_can_be_entered() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(is_directory(home.path().to_owned()).await, Ok(()));
        assert_eq!(is_directory(file.clone()).await.unwrap_err(), "it is not a directory");
        assert_eq!(real_directory(file).await.unwrap_err(), "it is not a directory");
        assert!(is_directory(home.path().join("none")).await.is_err());
    }

    #[tokio::test]
    async fn a_link_leads_out() {
        let home = tempfile::tempdir().unwrap();
        let (above, other) = (home.path().join("w"), home.path().join("other"));
        fs::create_dir_all(above.join("in")).unwrap();
        fs::create_dir(&other).unwrap();
        for (link, target) in [("near", "in"), ("out", "../other"), ("nowhere", "../none")] {
            std::os::unix::fs::symlink(target, above.join(link)).unwrap();
        }
        for (path, expected) in
            [("in", false), ("near", false), ("none", false), ("out", true), ("nowhere", true), ("nowhere/below", true)]
        {
            assert_eq!(leads_out(above.join(path), above.clone()).await, expected, "{path}");
        }
    }

    /// A stat on a mount that hangs never returns; on a worker thread it would stop all sessions that are served there.
    #[tokio::test(start_paused = true)]
    async fn a_file_system_that_hangs_is_given_up() {
        let (release, hangs) = std::sync::mpsc::channel::<()>();
        let look = tokio::spawn(apart(move || hangs.recv().map_err(|error| error.to_string())));
        tokio::task::yield_now().await;
        tokio::time::advance(LOOK_LIMIT).await;
        let error = look.await.unwrap().unwrap_err();
        drop(release);
        assert!(error.contains("did not answer"), "{error}");
    }
}
