//! Going back: every step as it was, and nothing lost of what is there.

use crate::fixture::*;
use shellkeep_runtime::{CheckpointError, Expected, Fork, Moment, NewEvent, OpError, Rewind, SaveAgentState};
use shellkeep_session::{Cause, NoticeCode, SessionId};

/// What a shell says of itself, without what is its own each time.
const SAY: &str = "declare -p | grep -vE '^declare -[a-zA-Z-]+ (_|BASHPID|BASH_[A-Z]+|EPOCH[A-Z]*|PIPESTATUS|PPID|RANDOM|SECONDS|SHLVL|SRANDOM|LINENO)='; declare -f; shopt -p; set -o; alias; pwd; umask";

async fn save(node: &Node, id: &SessionId, text: &str) {
    let save = SaveAgentState {
        media_type: "text/plain".to_owned(),
        bytes: text.as_bytes().to_vec(),
        expected: Expected::Anything,
    };
    node.engine.records().save_agent_state(id, save).await.unwrap();
}

#[tokio::test]
async fn ten_steps_with_a_venv_functions_and_files_are_each_as_they_were() {
    let node = Node::start().await;
    let id = node.session("steps").await;
    let mut steps = Vec::new();
    let venv = "mkdir -p .venv/bin && printf 'export VIRTUAL_ENV=$PWD/.venv OLD_PATH=$PATH; PATH=$VIRTUAL_ENV/bin:$PATH; deactivate() { PATH=$OLD_PATH; unset VIRTUAL_ENV; }\\n' > .venv/bin/activate && . .venv/bin/activate";
    for number in 0..10 {
        let command = match number {
            0 => "echo one > a; mkdir -p src/deep; echo x > src/deep/x".to_owned(),
            1 => venv.to_owned(),
            2 => "greet() { echo hello; }; shopt -s extglob; cd src".to_owned(),
            3 => "echo two >> ../a; rm deep/x; rmdir deep; ln -s ../a link; chmod 600 ../a".to_owned(),
            4 => "greet() { echo other; }; declare -A map=([k]=v); alias ll='ls -l'".to_owned(),
            5 => "mkdir ../a-dir; mv ../a ../a-dir/; touch $'odd\\nname'; umask 027".to_owned(),
            6 => "deactivate; unset -f greet; set -o pipefail; cd ..".to_owned(),
            7 => "rm -r src; printf 'now a file' > src".to_owned(),
            8 => "rm src; mkdir src; echo back > src/back; export STEP=eight".to_owned(),
            _ => "echo last > z; unalias ll; unset map".to_owned(),
        };
        node.sh(&id, &command).await;
        save(&node, &id, &format!("state {number}")).await;
        let said = node.sh(&id, SAY).await;
        let seq = node.seq(&id).await;
        steps.push((seq, said, tree(&node.workspace(&id))));
    }
    for index in [4, 0, 9, 3, 7, 1, 8, 2, 6, 5] {
        let (seq, said, files) = &steps[index];
        let rewound = node.rewind(&id, *seq).await;
        assert_eq!(rewound.kept_back, [], "{index}");
        let tracked = |files: &std::collections::BTreeMap<_, _>| {
            let mut files = files.clone();
            // What is installed is ignored by default.
            files.retain(|path: &std::path::PathBuf, _: &mut (u32, Vec<u8>)| !path.starts_with(".venv"));
            files
        };
        assert_eq!(tracked(&tree(&node.workspace(&id))), tracked(files), "{index}");
        let state = node.engine.records().agent_state(&id, None).await.unwrap();
        assert_eq!(state.bytes, format!("state {index}").into_bytes());
        let view = node.run(&id, SAY).await;
        assert_eq!(String::from_utf8_lossy(&view.stdout.bytes), *said, "{index}");
        assert!(view.notices.iter().any(|notice| notice.code == NoticeCode::Rewound), "{:?}", view.notices);
    }
    let verdict = node.engine.records().verify(&id).await.unwrap();
    assert!(verdict.is_intact(), "{verdict:?}");
}

#[tokio::test]
async fn a_rewind_can_be_looked_at_before_and_taken_back_after() {
    let node = Node::start().await;
    let id = node.session("undo").await;
    node.sh(&id, "echo one > f; export WHERE=one").await;
    let first = node.seq(&id).await;
    node.sh(&id, "echo two > f; echo new > g; export WHERE=two; mkdir d; cd d").await;
    let second = node.seq(&id).await;
    let before = tree(&node.workspace(&id));
    let request = Rewind { dry_run: true, ..Rewind::to(Moment::Seq(first)) };
    let preview = node.engine.files().rewind(&id, request).await.unwrap();
    assert_eq!((preview.seq, preview.undo, preview.files_total), (None, None, 2));
    assert_eq!(preview.shell.env.get("WHERE"), Some(&Some("one".to_owned())));
    assert_eq!(tree(&node.workspace(&id)), before);
    assert_eq!(node.engine.get(&id).await.unwrap().seq, second);

    // What nobody has kept yet is kept before it is replaced.
    std::fs::write(node.workspace(&id).join("f"), "from outside").unwrap();
    let rewound = node.rewind(&id, first).await;
    assert_eq!(node.sh(&id, "cat f; ls; echo $WHERE; pwd").await.lines().next(), Some("one"));
    let checkpoints = node.checkpoints(&id).await;
    assert!(checkpoints.iter().any(|view| view.checkpoint.cause == Cause::Rewind), "{checkpoints:?}");
    node.rewind(&id, rewound.undo.unwrap()).await;
    assert_eq!(node.sh(&id, "cat ../f ../g; echo $WHERE").await, "from outsidenew\ntwo\n");
    assert_eq!(std::fs::read(node.workspace(&id).join("f")).unwrap(), b"from outside");
    let events = node.engine.records().verify(&id).await.unwrap();
    assert!(events.is_intact());
}

#[tokio::test]
async fn a_checkpoint_is_made_only_when_files_changed() {
    let node = Node::start().await;
    let id = node.session("only").await;
    node.sh(&id, "true; x=1; ls").await;
    assert_eq!(node.engine.files().checkpoint(&id).await.unwrap(), None);
    assert!(node.checkpoints(&id).await.is_empty());
    assert!(!node.directory.path().join("checkpoints/only/repo.git").exists());
    node.sh(&id, "echo 1 > a").await;
    node.sh(&id, "cat a").await;
    node.sh(&id, "(sleep 0.01; echo 2 > b) & wait").await;
    node.sh(&id, "true").await;
    let checkpoints = node.checkpoints(&id).await;
    assert_eq!(checkpoints.len(), 2, "{checkpoints:?}");
    for view in &checkpoints {
        assert!(view.checkpoint.at.name.starts_with("tool_run_command_2"), "{view:?}");
        assert!(view.kept && matches!(view.checkpoint.cause, Cause::Tool { .. }));
    }
    // What is written between two commands is kept after the next one, whatever that does.
    std::fs::write(node.workspace(&id).join("outside"), "x").unwrap();
    node.sh(&id, "true").await;
    node.sh(&id, "true").await;
    assert_eq!(node.checkpoints(&id).await.len(), 3);
    let path = "outside".into();
    let history = node.engine.files().history(&id, &path).await.unwrap();
    assert_eq!(history.len(), 1, "{history:?}");
}

#[tokio::test]
async fn what_cannot_be_gone_back_to_is_refused_in_words() {
    let node = Node::start().await;
    let id = node.session("words").await;
    node.sh(&id, "echo 1 > a").await;
    let to = Rewind::to;
    let seq = node.seq(&id).await;
    let error = node.engine.files().rewind(&id, to(Moment::Seq(seq + 50))).await.unwrap_err();
    assert_eq!(error.code(), "no_such_moment", "{error}");
    let error = node.engine.files().rewind(&id, to(Moment::Checkpoint("nothing".to_owned()))).await.unwrap_err();
    assert!(matches!(error, OpError::Checkpoint(CheckpointError::NotFound { .. })), "{error}");
    let event = NewEvent { event_type: "x_after".to_owned(), data: serde_json::json!({}) };
    node.engine.records().post_events(&id, vec![event]).await.unwrap();
    assert_eq!(node.sh(&id, "cat a").await, "1\n");
}

/// `latest` was the newest checkpoint: what had changed since in the shell was lost, a rewind was undone, and a session
/// without files had no such moment.
#[tokio::test]
async fn latest_is_after_the_last_record() {
    let node = Node::start().await;
    let id = node.session("latest").await;
    let latest = || Moment::Checkpoint("latest".to_owned());
    node.sh(&id, "V=zero").await;
    node.engine.files().rewind(&id, Rewind::to(latest())).await.unwrap();
    assert_eq!(node.sh(&id, "echo $V").await, "zero\n");
    node.sh(&id, "echo one > f").await;
    let first = node.seq(&id).await;
    node.sh(&id, "echo two > f").await;
    node.seq(&id).await;
    node.rewind(&id, first).await;
    node.sh(&id, "V=one").await;
    node.engine.files().rewind(&id, Rewind::to(latest())).await.unwrap();
    assert_eq!(node.sh(&id, "cat f; echo $V").await, "one\none\n");
    let session_id = Some(SessionId::parse("branch").unwrap());
    let fork = Fork { at: Some(latest()), session_id, ..Fork::default() };
    let fork = node.engine.files().fork(&id, fork).await.unwrap().session.meta.session_id;
    assert_eq!(node.sh(&fork, "cat f; echo $V").await, "one\none\n");
}
