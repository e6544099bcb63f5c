//! Space: thinning, compaction, forks.

use crate::fixture::{FILE, Files, Home, files, read};
use shellkeep_workspace::repo::{ObjectId, Repo, RepoError};

/// A row of checkpoints, each with one more change of a file of many lines.
fn row(home: &mut Home, count: usize) -> Vec<(ObjectId, Files)> {
    let mut text: Vec<String> = (0..400).map(|line| format!("this is line {}", line * 7919)).collect();
    let mut made: Vec<(ObjectId, Files)> = Vec::new();
    for step in 0..count {
        text[step * 13 % 400] = format!("changed in step {step}");
        let mut now = files(&[("src/big.txt", &text.join("\n")), ("src/same", "same"), ("docs/a/b/c", "deep")]);
        now.insert(format!("src/new{step}").into_bytes(), (FILE, format!("{step}").into_bytes()));
        let parents: Vec<ObjectId> = made.last().map(|(id, _)| *id).into_iter().collect();
        made.push((home.save(&format!("tool_bash_{step:04}"), &now, &parents).unwrap(), now));
    }
    made
}

fn all_readable(repo: &Repo, made: &[(ObjectId, Files)]) {
    made.iter().for_each(|(id, files)| assert_eq!(read(repo, *id).unwrap(), *files));
}

#[test]
fn compaction_keeps_everything_in_a_fraction_of_the_space() {
    let mut home = Home::new();
    let made = row(&mut home, 40);
    let reclaimed = home.repo.compact().unwrap();
    assert!(reclaimed.after * 5 < reclaimed.before, "{reclaimed:?}");
    all_readable(&home.repo, &made);
    home.fsck();
    assert!(home.git(&["count-objects", "-v"]).starts_with("count: 0\n"));
    let packed = home.git(&["count-objects", "-v"]);
    assert!(packed.contains("packs: 1\n"), "{packed}");
    // Another time changes nothing, and what comes after is found beside it.
    let again = home.repo.compact().unwrap();
    assert!(again.after <= reclaimed.after, "{again:?}");
    let next = home.save("next", &made[3].1, &[made[39].0]).unwrap();
    all_readable(&home.repo, &made);
    assert_eq!(read(&home.repo, next).unwrap(), made[3].1);
    home.repo.compact().unwrap();
    home.reopen();
    all_readable(&home.repo, &made);
    home.fsck();
}

#[test]
fn thinned_history_is_whole_to_git() {
    let mut home = Home::new();
    let made = row(&mut home, 30);
    let kept: Vec<(ObjectId, Files)> = made.iter().step_by(7).cloned().chain([made[29].clone()]).collect();
    let keep: Vec<ObjectId> = kept.iter().map(|(id, _)| *id).collect();
    let reclaimed = home.repo.thin(&keep).unwrap();
    assert_eq!(reclaimed.tags, 30 - keep.len() as u64);
    all_readable(&home.repo, &kept);
    home.fsck();
    // 28 and 29 are neighbours; all others stand alone.
    assert_eq!(home.git(&["log", "--all", "--format=%h %p"]).lines().filter(|line| line.contains(' ')).count(), 6);
    assert_eq!(home.git(&["rev-list", "--all", "--count"]).trim(), keep.len().to_string());
    assert!(!home.repo.objects.contains(made[1].0));
    assert_eq!(home.repo.tags().unwrap().len(), keep.len());
    assert_eq!(home.repo.head().unwrap(), Some(made[29].0));
    // It goes on from there, and is thinned again, to nothing at the end.
    home.save("after", &made[5].1, &[made[29].0]).unwrap();
    home.repo.thin(&keep[..2]).unwrap();
    home.fsck();
    all_readable(&home.repo, &kept[..2]);
    assert_eq!(home.repo.head().unwrap(), None);
    home.repo.thin(&[]).unwrap();
    home.fsck();
    assert!(home.repo.tags().unwrap().is_empty());
    home.save("anew", &made[5].1, &[]).unwrap();
    home.fsck();
}

#[test]
fn gathering_merges_small_files_and_drops_nothing() {
    let mut home = Home::new();
    let made = row(&mut home, 10);
    let unpublished = home.repo.objects.blob(b"cut short by a limit").unwrap();
    assert!(matches!(home.repo.gather(), Err(RepoError::Unpublished)));
    home.repo.flush().unwrap();
    home.repo.gather().unwrap();
    assert!(home.repo.objects.contains(unpublished));
    let many: Files = (0..200).map(|n| (format!("m{n}").into_bytes(), (FILE, vec![b'm'; n]))).collect();
    let packed = home.save("many", &many, &[]).unwrap();
    home.repo.gather().unwrap();
    home.repo.gather().unwrap();
    all_readable(&home.repo, &made);
    assert_eq!(read(&home.repo, packed).unwrap(), many);
    home.fsck();
    home.repo.compact().unwrap();
    assert!(!home.repo.objects.contains(unpublished), "no tag holds it");
    all_readable(&home.repo, &made);
    assert!(!home.repo.needs_compaction());
}

#[test]
fn a_persons_own_branch_and_annotated_tag_survive() {
    let mut home = Home::new();
    let made = row(&mut home, 4);
    home.git(&["branch", "mine", "tool_bash_0001"]);
    home.git(&[
        "-c",
        "user.name=me",
        "-c",
        "user.email=me@home",
        "tag",
        "-a",
        "-m",
        "mark",
        "marked",
        "tool_bash_0000",
    ]);
    home.repo.thin(&[made[3].0]).unwrap();
    home.fsck();
    for place in [0, 1, 3] {
        all_readable(&home.repo, &made[place..=place]);
    }
    // Git's own housekeeping keeps what only we know of.
    let meta = home.repo.objects.blob(b"side").unwrap();
    home.repo.flush().unwrap();
    home.git(&["gc", "-q", "--prune=never"]);
    assert!(home.repo.objects.contains(meta) || home.repo.objects.read_blob(meta, None).is_ok());
    all_readable(&home.repo, &made[3..]);
}

#[test]
fn a_fork_shares_the_files_and_nothing_else() {
    let mut home = Home::new();
    let made = row(&mut home, 5);
    let place = home.directory.path().join("fork.git");
    let mut fork = home.repo.share_into(&place).unwrap();
    all_readable(&fork, &made);
    assert_eq!((fork.tags().unwrap(), fork.head().unwrap()), (home.repo.tags().unwrap(), Some(made[4].0)));
    fork.thin(&[made[0].0]).unwrap();
    all_readable(&home.repo, &made);
    all_readable(&fork, &made[..1]);
    home.repo.thin(&[made[4].0]).unwrap();
    all_readable(&fork, &made[..1]);
    home.fsck();
    crate::fixture::run(crate::fixture::git_in(&place).args(["fsck", "--strict"]));
}

#[test]
fn what_is_gone_already_is_not_missed_by_the_next_thinning() {
    let mut home = Home::new();
    let made = row(&mut home, 6);
    let keep: Vec<ObjectId> = made[4..].iter().map(|(id, _)| *id).collect();
    home.repo.thin(&keep).unwrap();
    let all: Vec<ObjectId> = made.iter().map(|(id, _)| *id).collect();
    home.repo.thin(&all).unwrap();
    all_readable(&home.repo, &made[4..]);
    home.fsck();
}

/// Everything in the repository, as git reads it.
fn everything(home: &Home) -> Vec<u8> {
    home.git_bytes(&["cat-file", "--batch-all-objects", "--batch"])
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn purged_bytes_are_nowhere_and_the_rest_is_whole() {
    const SECRET: &str = "horse-battery";
    let finds = |bytes: &[u8]| has(bytes, SECRET);
    let mut home = Home::new();
    let mut made = row(&mut home, 3);
    assert_eq!(home.repo.purge(&finds).unwrap(), None);
    let mut save = |home: &mut Home, tag: &str, name: &str, text: &str| {
        let mut now = made[0].1.clone();
        now.extend(files(&[(name, text)]));
        let id = home.save(tag, &now, &[made.last().unwrap().0]).unwrap();
        made.push((id, now));
    };
    save(&mut home, "in_a_file", "deep/down/key", &format!("before {SECRET} after"));
    save(&mut home, "clean", "deep/down/key", "nothing");
    save(&mut home, "in_a_name", &format!("odd/{SECRET}.txt"), "x");
    // Of a checkpoint that was never published.
    home.repo.objects.blob(format!("unpublished {SECRET}").as_bytes()).unwrap();
    home.repo.flush().unwrap();
    assert!(has(&everything(&home), SECRET));
    let gone = home.repo.purge(&finds).unwrap().unwrap();
    assert_eq!(gone, ["in_a_file", "in_a_name"]);
    assert!(!has(&everything(&home), SECRET));
    home.fsck();
    let kept: Vec<_> = [0, 1, 2, 4].into_iter().map(|place| made[place].clone()).collect();
    all_readable(&home.repo, &kept);
    assert_eq!((home.repo.tags().unwrap().len(), home.repo.head().unwrap()), (4, None));
    assert_eq!(home.repo.purge(&finds).unwrap(), None);
    // One that a person's own branch holds is not ours to take, and it is said.
    home.save("again", &files(&[("a", SECRET)]), &[]).unwrap();
    home.git(&["branch", "mine", "again"]);
    assert!(matches!(home.repo.purge(&finds), Err(RepoError::Held { .. })));
    home.git(&["branch", "-D", "mine"]);
    home.repo.purge(&finds).unwrap();
    assert!(!has(&everything(&home), SECRET));
}
