//! After a daemon's death: what it left is ended, what is kept is left alone.

use crate::fixture::{Fixture, Sleeps, end_of, in_each_mode, is_alive, no_names, skip, until};
use shellkeep_process::*;
use std::collections::HashSet;

in_each_mode! {
    strays_are_ended_and_the_kept_are_not: Auto, NoLimits, Marks;
    the_end_of_the_daemon_spares_the_kept: Auto, Marks;
}

async fn strays_are_ended_and_the_kept_are_not(fixture: Fixture) {
    let (kept_sleeps, stray_sleeps) = (Sleeps::new(), Sleeps::new());
    let mut kept = fixture.start("service-kept", &format!("{} & wait", kept_sleeps.command(1))).await;
    let command = format!("env -i setsid {} & {} & wait", stray_sleeps.command(1), stray_sleeps.command(2));
    let stray = fixture.start("service-stray", &command).await;
    let spec = ShellSpec { bash: "/bin/bash".into(), rescue: fixture.scratch.path().join("rescue") };
    let shell = LiveShell::start(spec, fixture.factory.cage("shell-1")).await.unwrap();
    kept_sleeps.until(1).await;
    stray_sleeps.until(2).await;
    let keep: HashSet<String> = ["service-kept".to_owned()].into();
    // As the next daemon does, which knows nothing but the names.
    let next = CageFactory::detect(&fixture.instance, fixture.mode, fixture.factory.limits());
    let ended = next.sweep(&keep);
    assert!(ended.contains(&shell.pid()) && ended.contains(&stray.stamps().main.pid), "{ended:?}");
    until("the stray's keeper is gone", || !is_alive(stray.stamps().keeper)).await;
    stray_sleeps.until(0).await;
    assert!(is_alive(kept.stamps().keeper) && is_alive(kept.stamps().main));
    assert_eq!(kept_sleeps.alive().len(), 1);
    assert_eq!(next.sweep(&keep), HashSet::new(), "there is nothing left to end");
    kept.kill();
    end_of(&mut kept).await;
}

async fn the_end_of_the_daemon_spares_the_kept(fixture: Fixture) {
    let sleeps = Sleeps::new();
    let mut service = fixture.start("service-kept", &sleeps.command(1)).await;
    sleeps.until(1).await;
    fixture.factory.remove(&["service-kept".to_owned()].into());
    assert!(is_alive(service.stamps().keeper) && is_alive(service.stamps().main));
    service.kill();
    end_of(&mut service).await;
    drop(service);
    fixture.factory.remove(&no_names());
    let groups = cgroup::Mounts::find();
    for top in [groups.unified, groups.pids_v1].into_iter().flatten() {
        assert!(!top.join(&fixture.instance).exists(), "no group is left behind in {}", top.display());
    }
}

/// The daemon before us ran in another group, as happens when each login has its own.
#[tokio::test]
async fn groups_made_elsewhere_are_found() {
    let Some(top) = cgroup::Mounts::find().unified else { return skip("control groups of version 2") };
    let fixture = Fixture::new(CageMode::Auto);
    if !fixture.factory.has_groups() {
        return skip("control groups");
    }
    let other = top.join(format!("{}-login", fixture.instance));
    let work = other.join(&fixture.instance).join("work");
    std::fs::create_dir_all(work.join("service-a")).unwrap();
    std::fs::create_dir_all(work.join("shell-b")).unwrap();
    let mut stray = std::process::Command::new("sleep").arg("86400").spawn().unwrap();
    std::fs::write(work.join("shell-b/cgroup.procs"), stray.id().to_string()).unwrap();
    let next = CageFactory::detect(&fixture.instance, CageMode::Auto, fixture.factory.limits());
    let ended = next.sweep(&["service-a".to_owned()].into());
    assert_eq!(ended, [stray.id()].into());
    stray.wait().unwrap();
    assert!(work.join("service-a").exists() && !work.join("shell-b").exists());
    next.remove(&no_names());
    assert!(!other.join(&fixture.instance).exists());
    std::fs::remove_dir(other).unwrap();
}
