//! The files of a session whose node was killed: another node has them from a directory that both can read, and says what
//! it does not have.

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::{Daemon, Request, soak};
use serde_json::{Value, json};
use shellkeep_poll::until;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

/// Two nodes and the directory that both can read.
pub struct Cluster {
    redis: Redis,
    blobs: TempDir,
    pub first: Daemon,
    pub second: Daemon,
}

impl Cluster {
    pub fn start() -> Self {
        let (redis, blobs) = (Redis::start(), TempDir::new().expect("a temporary directory"));
        let url = format!("file://{}", blobs.path().display());
        let node = |name: &str| Daemon::with(redis.settings(name).env("SHELLKEEP_BLOBS", &url));
        let (first, second) = (node("n1"), node("n2"));
        Self { redis, blobs, first, second }
    }

    /// What Redis says of the session's files.
    fn noted(&self, session: &str) -> Value {
        serde_json::from_str(&self.redis.cli(&["HGET", &format!("sk:{{{session}}}:head"), "files"])).unwrap_or_default()
    }

    /// Waits until the last checkpoint of a session is where both nodes can read it. Gives its name.
    pub fn shared(&self, daemon: &Daemon, session: &str) -> String {
        let last = checkpoints(daemon, session).last().expect("there is a checkpoint")["checkpoint_id"].clone();
        until("the checkpoint is copied", || (self.noted(session)["name"] == last).then_some(()));
        last.as_str().expect("a name").to_owned()
    }
}

fn checkpoints(daemon: &Daemon, session: &str) -> Vec<Value> {
    let answer = daemon.get(&format!("/v1/sessions/{session}/checkpoints"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["checkpoints"].as_array().expect("a list").clone()
}

/// The notice that the session moved.
fn moved(answer: &Value) -> String {
    let notices = answer["notices"].as_array().expect("a list");
    let found = notices.iter().find(|notice| notice["code"] == "session_moved");
    found.expect("it says so")["message"].as_str().expect("a sentence").to_owned()
}

fn folders(blobs: &Path, session: &str) -> Vec<String> {
    let below = |path: &Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    let found = below(&blobs.join(session)).into_iter().flat_map(|created| below(&created));
    found.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

#[test]
fn a_killed_node_s_files_are_on_the_next_owner() {
    let mut cluster = Cluster::start();
    let files = if soak() > 1 { 10_000 } else { 1000 };
    cluster.first.create("s");
    let script = format!(
        "mkdir -p sub/deep/empty; for i in $(seq {files}); do echo $i > sub/f$i; done; chmod 700 sub/f1; ln -s sub link; cd sub/deep"
    );
    assert_eq!(cluster.first.sh("s", &script).exit_code(), Some(0));
    let one = cluster.shared(&cluster.first, "s");
    cluster.first.sh("s", "echo two > ../f2; rm ../f3; echo new > here");
    let two = cluster.shared(&cluster.first, "s");
    let last = cluster.first.sh("s", "echo nothing is changed").run_id().to_owned();

    cluster.first.kill();
    let killed = Instant::now();
    let look = "pwd; cat here ../f2; ls .. | wc -l; stat -c %a ../f1; readlink ../../link; ls -A empty; ls ../f3";
    let (answer, _) = run_when_taken_over(&cluster.second, "s", &json!({"command": look}));
    println!("{files} files and an answer {:?} after the kill", killed.elapsed());
    let workspace = cluster.second.data().join("workspaces/s");
    // The files, less one, and the directory beside them.
    let expected = format!("{}/sub/deep\nnew\ntwo\n{files}\n700\nsub\n", workspace.display());
    assert_eq!(answer["stdout"], expected, "{answer}");
    let told = moved(&answer);
    assert!(told.contains(&format!("those of checkpoint {two}. Run {last} came after it")), "{told}");

    // Both checkpoints are there, and the session goes on from them.
    let kept: Vec<Value> = checkpoints(&cluster.second, "s").iter().map(|one| one["kept"].clone()).collect();
    assert_eq!(kept, [true, true]);
    let difference = cluster.second.get(&format!("/v1/sessions/s/checkpoints/{two}/diff")).json();
    let paths: Vec<&str> =
        difference["files"].as_array().expect("a list").iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(paths, ["sub/deep/here", "sub/f2", "sub/f3"]);
    let rewound = cluster.second.post("/v1/sessions/s/rewind", &json!({"to": one}));
    assert_eq!(rewound.status, 200, "{}", rewound.text());
    assert_eq!(cluster.second.sh("s", "cat ../f2 ../f3; ls here 2>/dev/null").out(), "2\n3\n");
    cluster.second.sh("s", "echo of n2 > ../f4");
    cluster.shared(&cluster.second, "s");
    until("the folder of the former owner is gone", || {
        let left = folders(cluster.blobs.path(), "s");
        (left.len() == 1 && left[0].starts_with("2.n2.")).then_some(())
    });

    // Back on the first node, which has older files of the session.
    cluster.first.restart();
    cluster.second.kill();
    let back = json!({"command": "cat ../f2 ../f3 ../f4; ls here 2>/dev/null"});
    let (answer, _) = run_when_taken_over(&cluster.first, "s", &back);
    assert_eq!(answer["stdout"], "2\n3\nof n2\n", "{answer}");
    cluster.first.destroy("s");
    until("nothing of the session is left there", || (!cluster.blobs.path().join("s").exists()).then_some(()));
}

#[test]
fn what_no_checkpoint_brought_is_named_and_the_directory_is_made() {
    let mut cluster = Cluster::start();
    cluster.first.create("s");
    cluster.first.sh("s", "echo kept > kept");
    let name = cluster.shared(&cluster.first, "s");
    // The file system with the copies is away.
    let marker = cluster.blobs.path().join("shellkeep-blobs");
    std::fs::rename(&marker, cluster.blobs.path().join("aside")).expect("it is there");
    let run = cluster.first.sh("s", "mkdir later; cd later; echo lost > lost").run_id().to_owned();
    until("the node says that it cannot copy", || {
        let ready = cluster.first.get("/readyz").json();
        let reason =
            ready["reasons"][0].as_str().is_some_and(|reason| reason.contains("is the shared file system mounted"));
        (ready["status"] == "degraded" && reason).then_some(())
    });
    assert_eq!(cluster.noted("s")["name"], name);
    cluster.first.kill();
    std::fs::rename(cluster.blobs.path().join("aside"), &marker).expect("it is there");
    let (answer, _) = run_when_taken_over(&cluster.second, "s", &json!({"command": "ls -A; cat ../kept; pwd"}));
    let cwd = cluster.second.data().join("workspaces/s/later");
    assert_eq!(answer["stdout"], format!("kept\n{}\n", cwd.display()), "{answer}");
    let told = moved(&answer);
    assert!(told.contains(&format!("those of checkpoint {name}. Run {run} came after it")), "{told}");
    assert!(told.contains("was made again, empty"), "{told}");
    // The checkpoint that stayed behind is listed, and said not to be here.
    let views: Vec<Value> = checkpoints(&cluster.second, "s");
    assert_eq!(views.iter().take(2).map(|view| view["kept"].clone()).collect::<Vec<_>>(), [true, false]);
    let missing = views[1]["checkpoint_id"].as_str().expect("a name");
    let rewound = cluster.second.post("/v1/sessions/s/rewind", &json!({"to": missing}));
    assert_eq!(
        (rewound.status, rewound.json()["code"].as_str()),
        (404, Some("checkpoint_not_found")),
        "{}",
        rewound.text()
    );
    assert!(rewound.text().contains("node n1"), "{}", rewound.text());
}

#[test]
fn without_a_shared_directory_the_session_goes_on_in_an_empty_one() {
    let redis = Redis::start();
    let (mut first, second) = (Daemon::with(redis.settings("n1")), Daemon::with(redis.settings("n2")));
    first.create("s");
    first.sh("s", "mkdir sub; cd sub; echo x > x");
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "ls -A; basename $PWD"}));
    assert_eq!(answer["stdout"], "sub\n", "{answer}");
    let told = moved(&answer);
    assert!(
        told.contains("nodes share no storage for checkpoints (--blobs)") && told.contains("made again, empty"),
        "{told}"
    );
}

#[test]
fn a_drained_node_s_files_are_complete_on_the_next_owner() {
    let cluster = Cluster::start();
    cluster.first.create("s");
    // Nothing waits for the copy of this but the drain.
    let run = cluster.first.sh("s", "mkdir sub; cd sub; for i in $(seq 300); do echo $i > f$i; done");
    assert_eq!(run.exit_code(), Some(0));
    let drained = cluster.first.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.status, 200, "{}", drained.text());
    let (answer, _) = run_when_taken_over(&cluster.second, "s", &json!({"command": "ls | wc -l"}));
    assert_eq!(answer["stdout"], "300\n", "{answer}");
    assert!(!moved(&answer).contains("came after it"), "{answer}");
}

/// The bug: a session whose command ended while its node was drained left at once, and what the command had written stayed on
/// that node for good, if it was not copied in that moment.
#[test]
fn what_ends_while_its_node_is_drained_is_complete_on_the_next_owner() {
    const SESSIONS: usize = 12;
    let cluster = Cluster::start();
    let (begun, go) = (cluster.redis.directory().join("begun"), cluster.redis.directory().join("go"));
    let command = format!(
        "echo >> {}; until [ -e {} ]; do sleep 0.02; done; head -c 2000000 /dev/urandom > big; echo two > g",
        begun.display(),
        go.display()
    );
    let names: Vec<String> = (1..=SESSIONS).map(|number| format!("s{number}")).collect();
    names.iter().for_each(|name| drop(cluster.first.create(name)));
    let (first, body) = (&cluster.first, json!({"command": command}));
    std::thread::scope(|scope| {
        let run = |name| {
            let body = body.clone();
            scope.spawn(move || first.run(name, body))
        };
        let runs: Vec<_> = names.iter().map(|name| run(name.as_str())).collect();
        until("all have begun", || {
            std::fs::read_to_string(&begun).is_ok_and(|text| text.lines().count() == SESSIONS).then_some(())
        });
        let draining = cluster.second.post("/v1/nodes/n1/drain?wait=0", &json!({}));
        assert_eq!(draining.status, 200, "{}", draining.text());
        // From now on other nodes may take what the first one does not work with.
        until("the others know", || {
            let nodes = cluster.second.get("/v1/nodes").json();
            let is_draining = |node: &Value| node["name"] == "n1" && node["status"] == "draining";
            nodes["nodes"].as_array()?.iter().any(is_draining).then_some(())
        });
        std::fs::write(&go, "").expect("a file");
        let drained = cluster.second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
        assert_eq!(drained.json()["status"], "drained", "{}\n{}", drained.text(), cluster.first.log());
        for run in runs {
            assert_eq!(run.join().expect("it is answered").exit_code(), Some(0));
        }
    });
    for name in &names {
        let look = json!({"command": "stat -c %s big; cat g"});
        let (answer, _) = run_when_taken_over(&cluster.second, name, &look);
        assert_eq!(answer["stdout"], "2000000\ntwo\n", "{name}: {answer}");
        assert!(!moved(&answer).contains("came after it"), "{name}: {answer}");
    }
}

/// A session that sleeps when its node is drained holds nothing there, but what it wrote last may not be copied yet.
#[test]
fn a_session_that_sleeps_waits_for_its_copy_when_its_node_is_drained() {
    let cluster = Cluster::start();
    cluster.first.create("s");
    cluster.first.sh("s", "echo one > file");
    cluster.shared(&cluster.first, "s");
    let (marker, aside) = (cluster.blobs.path().join("shellkeep-blobs"), cluster.blobs.path().join("aside"));
    std::fs::rename(&marker, &aside).expect("it is there");
    cluster.first.sh("s", "echo two > file");
    cluster.first.hibernate("s");
    until("the session sleeps", || (cluster.redis.cli(&["EXISTS", "sk:{s}:lease"]).trim() == "0").then_some(()));
    assert_eq!(cluster.second.post("/v1/nodes/n1/drain?wait=0", &json!({})).status, 200);
    until("it is kept there", || (cluster.redis.cli(&["EXISTS", "sk:{s}:lease"]).trim() == "1").then_some(()));
    std::fs::rename(&aside, &marker).expect("it is there");
    let drained = cluster.second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}\n{}", drained.text(), cluster.first.log());
    let (answer, _) = run_when_taken_over(&cluster.second, "s", &json!({"command": "cat file"}));
    assert_eq!(answer["stdout"], "two\n", "{answer}");
}

/// A directory that cannot be written must not hold a drain: the session leaves, and is told what it lacks.
#[test]
fn a_drain_does_not_wait_for_ever_for_files_that_cannot_be_copied() {
    let cluster = Cluster::start();
    cluster.first.create("s");
    cluster.first.sh("s", "echo one > file");
    cluster.shared(&cluster.first, "s");
    let (marker, aside) = (cluster.blobs.path().join("shellkeep-blobs"), cluster.blobs.path().join("aside"));
    std::fs::rename(marker, aside).expect("it is there");
    cluster.first.sh("s", "echo two > file");
    let drained = cluster.second.post("/v1/nodes/n1/drain?wait=30", &json!({}));
    assert_eq!(drained.json()["status"], "drained", "{}\n{}", drained.text(), cluster.first.log());
    let (answer, _) = run_when_taken_over(&cluster.second, "s", &json!({"command": "cat file 2>/dev/null; true"}));
    assert_ne!(answer["stdout"], "two\n", "{answer}");
    assert!(!moved(&answer).is_empty());
}

#[test]
fn what_stays_on_a_dead_node_is_said_to_and_services_start_again_by_their_policy() {
    let redis = Redis::start();
    let (mut first, second) = (Daemon::with(redis.settings("n1")), Daemon::with(redis.settings("n2")));
    first.create("s");
    for (name, restart) in [("again", "always"), ("once", "never")] {
        let body = json!({"command": "echo begun; exec sleep 1000", "name": name, "restart": restart});
        let started = first.post("/v1/sessions/s/services", &body);
        assert_eq!(started.status, 201, "{}", started.text());
    }
    let large = first.sh("s", "head -c 200000 /dev/zero | tr '\\0' x").run_id().to_owned();
    let put = Request::new("PUT", "/v1/sessions/s/kv/colour").json(json!("blue").to_string());
    assert!(first.send(&put).status < 300);
    first.kill();
    let (answer, _) = run_when_taken_over(&second, "s", &json!({"command": "true"}));
    let said = answer["notices"].to_string();
    assert!(said.contains("logs of services, background jobs and open descriptors stayed on node n1"), "{said}");
    assert!(said.contains("(again) was on node n1, which is gone. It starts again here"), "{said}");
    assert!(
        said.contains("(once) was on node n1, which is gone. Its restart policy does not start it again here"),
        "{said}"
    );
    let services = until("the service runs again", || {
        let services = second.get("/v1/sessions/s/services").json()["services"].clone();
        let runs = |service: &Value| service["name"] == "again" && service["status"] == "running";
        services.as_array()?.iter().any(runs).then_some(services)
    });
    let again = services.as_array().expect("a list").iter().find(|one| one["name"] == "again").expect("it is listed");
    // Its keeper outlives the daemon that was killed, and nobody heard of its end.
    assert!(again["detail"].as_str().is_some_and(|detail| detail.contains("may still run there until")), "{again}");
    let once =
        services.as_array().expect("a list").iter().find(|one| one["name"] == "once").expect("it is listed").clone();
    assert_eq!(once["status"], "stopped", "{once}");
    assert!(once.to_string().contains("node n1 is gone"), "{once}");
    let output = second.get(&format!("/v1/sessions/s/runs/{large}/output?offset=100000&limit=10"));
    assert_eq!((output.status, output.json()["code"].as_str()), (410, Some("output_reclaimed")), "{}", output.text());
    assert!(output.text().contains("stayed on node n1"), "{}", output.text());
    let value = second.get("/v1/sessions/s/kv/colour");
    assert_eq!(value.status, 404, "{}", value.text());
    assert!(value.text().contains("stayed on node n1"), "{}", value.text());
}

/// The bug: what could not be copied was known only to the process. If the node was killed and started again, nothing was copied
/// any more, and it said that all is well.
#[test]
fn files_that_are_not_copied_are_copied_after_a_restart() {
    let mut cluster = Cluster::start();
    cluster.first.create("s");
    cluster.first.sh("s", "echo one > file");
    cluster.shared(&cluster.first, "s");
    let (marker, aside) = (cluster.blobs.path().join("shellkeep-blobs"), cluster.blobs.path().join("aside"));
    std::fs::rename(&marker, &aside).expect("it is there");
    cluster.first.sh("s", "echo two > file");
    let (target, state) = ("/v1/sessions/s/agent_state", vec![b'y'; 100_000]);
    let mut put = Request::new("PUT", target).header("content-type", "application/octet-stream");
    put.body = state.clone();
    assert_eq!(cluster.first.send(&put).status, 201);
    let last = checkpoints(&cluster.first, "s").last().expect("there is a checkpoint")["checkpoint_id"].clone();
    let (note, name) = (cluster.first.data().join("uncopied-files/s"), last.as_str().expect("a name").to_owned());
    until("it is noted that they are not copied", || {
        let noted = std::fs::read_to_string(&note).unwrap_or_default();
        (noted.contains(&name) && noted.contains("agent_state")).then_some(())
    });
    cluster.first.kill();
    std::fs::rename(&aside, &marker).expect("it is there");
    cluster.first.restart();
    // Nobody asks for the session.
    until("the checkpoint is copied", || (cluster.noted("s")["name"] == last).then_some(()));
    until("the state is copied", || attached(cluster.blobs.path(), "s").first().map(|_| ()));
    until("nothing is to be copied", || (!note.exists()).then_some(()));
    cluster.first.kill();
    let (answer, _) = run_when_taken_over(&cluster.second, "s", &json!({"command": "cat file"}));
    assert_eq!(answer["stdout"], "two\n", "{answer}");
    let read = cluster.second.get(target);
    assert_eq!((read.status, read.body == state), (200, true));
}

/// The files that records name of a session, where both nodes can read them.
fn attached(blobs: &Path, session: &str) -> Vec<std::path::PathBuf> {
    let below = |path: &Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    below(&blobs.join(session)).into_iter().flat_map(|created| below(&created.join("attached"))).collect()
}

/// Outputs and agent states that are too large for their records used to stay on the node that was killed.
#[test]
fn large_outputs_and_agent_states_are_on_the_next_owner() {
    let mut cluster = Cluster::start();
    cluster.first.create("s");
    let run = cluster
        .first
        .sh("s", "head -c 300000 /dev/zero | tr '\\0' x; echo the-secret >&2; head -c 70000 /dev/zero >&2");
    let (run_id, target) = (run.run_id().to_owned(), "/v1/sessions/s/agent_state");
    let state = vec![b'y'; 200_000];
    let mut put = Request::new("PUT", target).header("content-type", "application/octet-stream");
    put.body = state.clone();
    assert_eq!(cluster.first.send(&put).status, 201);
    let names = |cluster: &Cluster| -> Vec<String> {
        let found = attached(cluster.blobs.path(), "s");
        let mut names: Vec<String> =
            found.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
        names.sort();
        names
    };
    // The state is there when its caller is answered.
    let agent_state = |names: &[String]| names.iter().filter(|name| name.starts_with("agent_state")).count();
    assert_eq!(agent_state(&names(&cluster)), 1, "{:?}", names(&cluster));
    until("the outputs are copied", || (names(&cluster).len() == 3).then_some(()));

    cluster.first.kill();
    run_when_taken_over(&cluster.second, "s", &json!({"command": "true"}));
    let output = |stream: &str| {
        cluster.second.get(&format!("/v1/sessions/s/runs/{run_id}/output?stream={stream}&limit=1000000"))
    };
    let stdout = output("stdout");
    assert_eq!((stdout.status, stdout.json()["total"].as_u64()), (200, Some(300_000)), "{}", stdout.text());
    assert!(stdout.json()["text"].as_str().is_some_and(|text| text.bytes().all(|byte| byte == b'x')));
    let read = cluster.second.get(target);
    assert_eq!((read.status, read.body == state), (200, true));

    // A secret that was written on the first node is masked in what both can read.
    let scrubbed = cluster.second.post("/v1/sessions/s/scrub", &json!({"secret": "the-secret"}));
    assert_eq!(scrubbed.status, 200, "{}", scrubbed.text());
    until("what was masked is copied", || {
        let paths = attached(cluster.blobs.path(), "s");
        // A copy has another name until it is complete.
        let files: Vec<Vec<u8>> = paths.iter().filter_map(|path| std::fs::read(path).ok()).collect();
        assert!(!files.iter().any(|bytes| bytes.windows(10).any(|part| part == b"the-secret")), "{paths:?}");
        (files.len() == 3).then_some(())
    });
    assert!(!output("stderr").text().contains("the-secret"));
    cluster.second.destroy("s");
    assert!(attached(cluster.blobs.path(), "s").is_empty());
}
