//! Forks: each with its own files and shell, and a way back.

use crate::fixture::*;
use shellkeep_runtime::{CheckpointError, MergeBack, OpError, SessionError, Side};
use shellkeep_session::SessionId;

#[tokio::test]
async fn ten_forks_do_not_see_each_other() {
    let node = Node::start().await;
    let id = node.session("root").await;
    node.sh(&id, "mkdir -p src node_modules/dep; echo base > src/f; echo dep > node_modules/dep/x; ln -s src/f l")
        .await;
    node.sh(&id, "cd src; export NAME=base HERE=$PWD; f() { echo $NAME; }").await;
    let mut forks = Vec::new();
    for number in 0..10 {
        let view = node.fork(&id, &format!("fork-{number}"), None).await;
        assert_eq!(view.meta.forked_from.as_ref().unwrap().session_id, id);
        forks.push(view.meta.session_id);
    }
    for (number, fork) in forks.iter().enumerate() {
        assert_eq!(node.sh(fork, "f; cat f ../node_modules/dep/x ../l").await, "base\nbase\ndep\nbase\n");
        node.sh(fork, &format!("echo {number} > f; export NAME={number}")).await;
    }
    for (number, fork) in forks.iter().enumerate() {
        let here = node.workspace(fork).join("src");
        let wanted = format!("{number}\n{number}\n{}\n{}\n", here.display(), here.display());
        assert_eq!(node.sh(fork, "cat f; f; pwd; echo $HERE").await, wanted);
        assert!(node.engine.records().verify(fork).await.unwrap().is_intact());
        let checkpoints = node.checkpoints(fork).await;
        assert_eq!(checkpoints.len(), 2, "{checkpoints:?}");
    }
    assert_eq!(node.sh(&id, "cat f; f").await, "base\nbase\n");
}

#[tokio::test]
async fn a_fork_of_the_past_is_the_past() {
    let node = Node::start().await;
    let id = node.session("past").await;
    let empty = node.engine.get(&id).await.unwrap().seq;
    node.sh(&id, "echo one > f; V=one").await;
    let first = node.seq(&id).await;
    node.sh(&id, "echo two > f; echo g > g; V=two").await;
    let fork = node.fork(&id, "then", Some(first)).await.meta.session_id;
    assert_eq!(node.sh(&fork, "cat *; echo $V").await, "one\none\n");
    let nothing = node.fork(&id, "nothing", Some(empty)).await.meta.session_id;
    assert_eq!(node.sh(&nothing, "ls -A; echo \"$V\"").await, "\n");
    // A fork goes back as any session does, to its own beginning.
    node.sh(&fork, "rm f").await;
    node.rewind(&fork, 1).await;
    assert_eq!(node.sh(&fork, "cat f; echo $V").await, "one\none\n");
    let again =
        node.engine.files().fork(&id, shellkeep_runtime::Fork { session_id: Some(fork), ..Default::default() }).await;
    assert!(matches!(again, Err(OpError::Session(SessionError::Exists { .. }))), "{again:?}");
    assert_eq!(node.sh(&id, "cat f g").await, "two\ng\n");
}

#[tokio::test]
async fn a_forks_files_come_back_as_a_merge() {
    let node = Node::start().await;
    let id = node.session("origin").await;
    node.sh(&id, "seq 20 > text; echo a > mine; echo b > theirs; echo c > gone").await;
    let fork = node.fork(&id, "branch", None).await.meta.session_id;
    node.sh(&fork, "sed -i s/^2$/two/ text; echo B > theirs; rm gone; echo new > new; chmod 755 new").await;
    node.sh(&id, "sed -i s/^19$/nineteen/ text; echo A > mine").await;
    let looked = node.engine.files().merge_back(&fork, MergeBack { dry_run: true, prefer: None }).await.unwrap();
    assert_eq!((looked.files_total, looked.conflicts.len(), looked.seq), (4, 0, None), "{looked:?}");
    let merged = node.engine.files().merge_back(&fork, MergeBack::default()).await.unwrap();
    let text = node.sh(&id, "cat mine theirs new; ls; grep -c . text; grep t text; stat -c %a new").await;
    assert_eq!(text, "A\nB\nnew\nmine\nnew\ntext\ntheirs\n20\ntwo\nnineteen\n755\n");
    node.rewind(&id, merged.undo.unwrap()).await;
    assert_eq!(node.sh(&id, "cat theirs gone; grep t text").await, "b\nc\nnineteen\n");

    node.sh(&id, "echo ours > theirs").await;
    let refused = node.engine.files().merge_back(&fork, MergeBack::default()).await.unwrap_err();
    assert!(
        matches!(&refused, OpError::Checkpoint(CheckpointError::MergeConflict { first, .. }) if first.contains("theirs")),
        "{refused}"
    );
    assert_eq!(node.sh(&id, "cat theirs gone").await, "ours\nc\n");
    let prefer = Some(Side::Fork);
    node.engine.files().merge_back(&fork, MergeBack { dry_run: false, prefer }).await.unwrap();
    assert_eq!(node.sh(&id, "cat theirs; ls gone 2>&1 | wc -l").await, "B\n1\n");
    let alone = SessionId::parse("origin").unwrap();
    let error = node.engine.files().merge_back(&alone, MergeBack::default()).await.unwrap_err();
    assert_eq!(error.code(), "no_origin");
}
