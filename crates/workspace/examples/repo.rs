//! How long a repository takes: the first commit of many files, then one changed file at a time, then making it smaller,
//! against `git` in the same run. Say how many files: `cargo run --release --example repo -- 50000`.

use shellkeep_workspace::fault::Faults;
use shellkeep_workspace::repo::{Author, Commit, Entry, Kind, ObjectId, Repo, RepoError};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

const FILE: Kind = Kind::File { executable: false };

/// Files in a directory.
const IN_ONE: usize = 100;

/// Checkpoints with one changed file.
const ROUNDS: usize = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(50_000), |text| text.parse())?;
    let home = tempfile::tempdir()?;
    let mut repo = Repo::create(&home.path().join("repo.git"), &Arc::new(Faults::default()))?;
    let begin = Instant::now();
    let mut directories: Vec<Vec<Entry>> = Vec::new();
    for directory in 0..count.div_ceil(IN_ONE) {
        let files = (0..IN_ONE.min(count - directory * IN_ONE)).map(|file| {
            let id = repo.blob(&content(directory * IN_ONE + file, 0))?;
            Ok(Entry { name: format!("file{file}.rs").into_bytes(), kind: FILE, id })
        });
        directories.push(files.collect::<Result<_, RepoError>>()?);
    }
    let mut root = Vec::new();
    for (number, directory) in directories.iter().enumerate() {
        let id = repo.tree(directory)?;
        root.push(Entry { name: format!("directory{number}").into_bytes(), kind: Kind::Directory, id });
    }
    let mut parent = save(&mut repo, &root, None)?;
    println!("first commit of {count} files: {:?}, {} MiB", begin.elapsed(), repo.size() >> 20);
    let mut times = Vec::new();
    let before = repo.written();
    for round in 1..=ROUNDS {
        let (place, file) = (round * 37 % directories.len(), round * 7 % directories[0].len());
        let bytes = content(place * IN_ONE + file, round);
        let begin = Instant::now();
        directories[place][file].id = repo.blob(&bytes)?;
        root[place].id = repo.tree(&directories[place])?;
        parent = save(&mut repo, &root, Some(parent))?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    println!("one changed file: median {:?}, worst {:?}", times[ROUNDS / 2], times[ROUNDS - 1]);
    println!("{} bytes a checkpoint", (repo.written() - before) / ROUNDS as u64);
    for (what, act) in [("gather", Repo::gather as fn(&mut Repo) -> _), ("compact", Repo::compact)] {
        let begin = Instant::now();
        let reclaimed = act(&mut repo)?;
        println!("{what}: {:?}, {} KiB to {} KiB", begin.elapsed(), reclaimed.before >> 10, reclaimed.after >> 10);
    }
    git(home.path(), &repo, &directories)
}

fn content(file: usize, round: usize) -> Vec<u8> {
    let line = |line: usize| format!("    let value_{line} = compute({}, \"round {round}\");\n", file * 31 + line * 7);
    (0..60).map(line).collect::<String>().into_bytes()
}

fn save(repo: &mut Repo, root: &[Entry], parent: Option<ObjectId>) -> Result<ObjectId, RepoError> {
    let tree = repo.tree(root)?;
    let author = Author { name: "bench".to_owned(), email: "bench@shellkeep".to_owned() };
    let message = "a checkpoint".to_owned();
    let commit = Commit { tree, meta: None, parents: parent.into_iter().collect(), author, seconds: 1, message };
    let commit = repo.commit(&commit)?;
    repo.publish(&format!("tool_bash_{commit}"), commit)?;
    Ok(commit)
}

/// The same with the real one, out of files.
fn git(home: &Path, repo: &Repo, directories: &[Vec<Entry>]) -> Result<(), Box<dyn std::error::Error>> {
    let work = home.join("work");
    for (number, directory) in directories.iter().enumerate() {
        let path = work.join(format!("directory{number}"));
        std::fs::create_dir_all(&path)?;
        for entry in directory {
            std::fs::write(path.join(String::from_utf8_lossy(&entry.name).as_ref()), repo.read_blob(entry.id, None)?)?;
        }
    }
    let run = |arguments: &[&str]| {
        let identity = ["-c", "user.name=bench", "-c", "user.email=bench@shellkeep"];
        Command::new("git").current_dir(&work).args(identity).args(arguments).output()
    };
    run(&["init", "-q"])?;
    for what in ["first commit", "one changed file", "one changed file"] {
        let begin = Instant::now();
        run(&["add", "-A"])?;
        run(&["commit", "-q", "-m", "x"])?;
        println!("git add -A && git commit, {what}: {:?}", begin.elapsed());
        std::fs::write(work.join("directory3/file7.rs"), format!("changed after {what} {:?}", Instant::now()))?;
    }
    Ok(())
}
