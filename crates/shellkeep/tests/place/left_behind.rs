//! The past of a session that moved: what came along, and what stayed on the node that had it.

use crate::node_files::Cluster;
use crate::nodes::run_when_taken_over;
use serde_json::json;

/// The bug: the directory of an earlier moment was compared with the workspace of the node that the session is on now, so a fork at
/// any moment before the move was refused with `files_not_apart`.
#[test]
fn a_moment_before_the_move_can_be_forked() {
    let mut cluster = Cluster::start();
    cluster.first.create("s");
    let early = cluster.first.sh("s", "mkdir sub; cd sub; echo one > f; v=1").run_id().to_owned();
    cluster.shared(&cluster.first, "s");
    cluster.first.sh("s", "echo two > f; v=2");
    cluster.shared(&cluster.first, "s");
    cluster.first.kill();
    run_when_taken_over(&cluster.second, "s", &json!({"command": "true"}));
    let fork = cluster.second.post("/v1/sessions/s/fork", &json!({"session_id": "early", "at": early}));
    assert_eq!(fork.status, 201, "{}", fork.text());
    let here = cluster.second.data().join("workspaces/early/sub");
    let answer = cluster.second.sh("early", "pwd; cat f; echo $v");
    assert_eq!(answer.out(), format!("{}\none\n1\n", here.display()));
    assert_eq!(cluster.second.sh("s", "cat f; echo $v").out(), "two\n2\n");
}
