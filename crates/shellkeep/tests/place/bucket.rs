//! Nodes that share no file system: checkpoints, outputs and keyed stores are in a bucket, at a real server that checks
//! signatures. For a program with the feature `s3`.

#[path = "../../../s3/tests/contract/server.rs"]
mod server;

use crate::nodes::run_when_taken_over;
use crate::redis::Redis;
use crate::support::{Daemon, Request, Settings};
use serde_json::json;
use server::{KEY, S3, SECRET};
use shellkeep_poll::until;

fn settings(redis: &Redis, name: &str, bucket: &S3) -> Settings {
    let settings = redis.settings(name).env("SHELLKEEP_BLOBS", &bucket.url("cluster"));
    settings.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET)
}

fn put(daemon: &Daemon, key: &str, bytes: &[u8]) {
    let mut request = Request::new("PUT", &format!("/v1/sessions/s/kv/{key}"));
    request.body = bytes.to_vec();
    let answer = daemon.send(&request);
    assert!(answer.status < 300 && !answer.text().contains("kept_here_only"), "{}", answer.text());
}

#[test]
fn a_killed_node_s_session_comes_from_a_bucket() {
    let redis = Redis::start();
    let Some(bucket) = S3::start() else { return };
    let node = |name: &str| Daemon::with(settings(&redis, name, &bucket));
    let (mut first, mut second) = (node("n1"), node("n2"));
    first.create("s");
    first.sh("s", "mkdir -p a/b; for n in $(seq 200); do echo $n > a/b/$n; done; v=7; seq 60000");
    put(&first, "plan", b"one");
    put(&first, "plan", b"two");
    put(&first, "large", &vec![7; 2 << 20]);
    let noted = |redis: &Redis| redis.cli(&["HGET", "sk:{s}:head", "files"]);
    until("its files are in the bucket", || noted(&redis).contains("commit").then_some(()));
    let environment = first.sh("s", "echo x$AWS_SECRET_ACCESS_KEY");
    assert_eq!(environment.out(), "x\n", "shells do not get the credentials");

    first.kill();
    let check = json!({"command": "cat a/b/* | sort -n | tail -n 1; ls a/b | wc -l; echo $v"});
    let (answer, _) = run_when_taken_over(&second, "s", &check);
    assert_eq!(answer["stdout"], "200\n200\n7\n", "{answer}");
    assert_eq!(second.get("/v1/sessions/s/kv/plan").body, b"two");
    assert_eq!(second.get("/v1/sessions/s/kv/large").body, vec![7; 2 << 20]);
    put(&second, "plan", b"three");
    second.sh("s", "echo new > a/new");
    until("the next owner's files are there", || noted(&redis).contains(".n2.").then_some(()));

    // Back on the first node, and gone with the session.
    first.restart();
    second.kill();
    let (answer, _) = run_when_taken_over(&first, "s", &json!({"command": "cat a/new; ls a/b | wc -l"}));
    assert_eq!(answer["stdout"], "new\n200\n", "{answer}");
    assert_eq!(first.get("/v1/sessions/s/kv/plan").body, b"three");
    first.destroy("s");
    assert_eq!(first.get("/readyz").json()["status"], "ready");
}

#[test]
fn a_bucket_that_refuses_is_told() {
    let redis = Redis::start();
    let Some(bucket) = S3::start() else { return };
    let stranger = Daemon::with(settings(&redis, "n1", &bucket).env("AWS_SECRET_ACCESS_KEY", "another"));
    stranger.create("s");
    stranger.sh("s", "echo 1 > file");
    until("it says so", || {
        let ready = stranger.get("/readyz").json();
        (ready["status"] == "degraded" && ready["reasons"].to_string().contains("SignatureDoesNotMatch")).then_some(())
    });
}
