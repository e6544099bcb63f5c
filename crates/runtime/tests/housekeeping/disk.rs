//! What is done when sessions use too much disk, and what makes room by itself.

use super::{HOUR, LONG, Node, SECOND, codes};
use shellkeep_poll::until_async;
use shellkeep_process::proc::Stat;
use shellkeep_runtime::{
    ExpectedFile, Fork, NewEvent, NewMessage, OpError, OutputQuery, RemoveFile, RunCommand, StartService, Stream,
    WriteFile,
};
use shellkeep_session::{NoticeCode, QuotaName, RestartPolicy, RunId, ServiceStatus, SessionId};
use std::time::Duration;
use tokio::time::timeout;

fn removal(name: &str) -> RemoveFile {
    RemoveFile { path: name.into(), recursive: false, expected: ExpectedFile::Anything }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_too_much_disk_is_told_and_can_make_room() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 2 << 20)).await;
    let id = node.session("s").await;
    assert!(codes(&node.sh(&id, "head -c 5M /dev/zero > big").await).is_empty());
    node.after(SECOND).await;
    let next = node.sh(&id, "echo still runs").await;
    assert_eq!(next.stdout.bytes, b"still runs\n");
    assert_eq!(codes(&next), [NoticeCode::DiskQuota], "{:?}", next.notices);
    assert!(next.notices[0].message.contains("uses 5 MiB of disk space; its limit is 2 MiB"), "{:?}", next.notices);
    let refused = node.engine.services().start(&id, StartService::new("true")).await;
    let Err(OpError::QuotaExceeded(met)) = refused else { panic!("{refused:?}") };
    assert_eq!((met.quota, met.limit), (QuotaName::DiskBytesPerSession, 2 << 20));
    // What makes room may run, and then all is well again.
    node.sh(&id, "rm big").await;
    node.after(SECOND).await;
    assert!(codes(&node.sh(&id, "true").await).is_empty());
    node.service(&id, "echo up; exec sleep 1000").await;
    node.stop().await;
}

/// Only services were refused; what came through the API was written, however much there was already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_too_much_disk_writes_no_more_through_the_api() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerAgent, 6 << 20)).await;
    let id = node.session_of("s", Some("ann")).await;
    let upload = |name: &str, bytes: usize| WriteFile {
        path: name.into(),
        bytes: vec![0; bytes],
        mode: None,
        expected: ExpectedFile::Anything,
    };
    let quota = |error: OpError| match error {
        OpError::QuotaExceeded(met) => met.quota,
        other => panic!("{other:?}"),
    };
    let files = node.engine.files();
    files.write(&id, upload("a", 4 << 20)).await.unwrap();
    // It counts before it was measured.
    assert_eq!(quota(files.write(&id, upload("b", 4 << 20)).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    assert_eq!(quota(files.fork(&id, Fork::default()).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    let event = || vec![NewEvent { event_type: "x_note".to_owned(), data: serde_json::json!({}) }];
    let message = || NewMessage { role: "user".to_owned(), content: "hello".into() };
    let records = node.engine.records();
    records.post_events(&id, event()).await.unwrap();
    node.sh(&id, "head -c 7M /dev/zero > big").await;
    node.after(SECOND).await;
    assert_eq!(quota(records.post_events(&id, event()).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    assert_eq!(quota(records.add_message(&id, message()).await.unwrap_err()), QuotaName::DiskBytesPerAgent);
    // Another agent goes on, and so does this one when it has made room.
    let other = node.session_of("other", Some("bob")).await;
    records.add_message(&other, message()).await.unwrap();
    files.remove(&id, removal("big")).await.unwrap();
    files.remove(&id, removal("a")).await.unwrap();
    node.after(SECOND).await;
    records.add_message(&id, message()).await.unwrap();
    node.stop().await;
}

/// Each upload counted as one more file, and nothing that was removed was subtracted: a session without a shell was not
/// measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_a_session_without_a_shell_count_as_long_as_they_are_there() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 20 << 20)).await;
    let id = node.session("s").await;
    let upload = |name: &str, bytes: usize| WriteFile {
        path: name.into(),
        bytes: vec![0; bytes],
        mode: None,
        expected: ExpectedFile::Anything,
    };
    let files = node.engine.files();
    for _ in 0..6 {
        files.write(&id, upload("a", 4 << 20)).await.unwrap();
    }
    let refused = files.write(&id, upload("b", 17 << 20)).await;
    let Err(OpError::QuotaExceeded(met)) = refused else { panic!("{refused:?}") };
    // The file, and what a checkpoint has of it if it was measured meanwhile.
    assert!(met.quota == QuotaName::DiskBytesPerSession && met.used < 9 << 20, "{met:?}");
    files.remove(&id, removal("a")).await.unwrap();
    node.after(SECOND).await;
    // Its checkpoints may still have the first.
    files.write(&id, upload("b", 15 << 20)).await.unwrap();
    node.stop().await;
}

/// Each session was within its own quota, and an agent had as many as it liked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_an_agent_share_a_disk_quota() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerAgent, 5 << 20)).await;
    let (one, two) = (node.session_of("one", Some("ann")).await, node.session_of("two", Some("ann")).await);
    let other = node.session("other").await;
    for id in [&one, &two, &other] {
        node.sh(id, "head -c 3M /dev/zero > big").await;
    }
    node.after(SECOND).await;
    let told = node.sh(&one, "true").await;
    assert_eq!(codes(&told), [NoticeCode::DiskQuota], "{:?}", told.notices);
    assert!(told.notices[0].message.contains("(disk_bytes_per_agent)"), "{:?}", told.notices);
    assert!(codes(&node.sh(&other, "true").await).is_empty());
    node.sh(&two, "rm big").await;
    node.after(SECOND).await;
    // The first was not used since, so it is measured with its next command.
    node.sh(&one, "true").await;
    node.after(SECOND).await;
    assert!(codes(&node.sh(&one, "true").await).is_empty());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_opens_too_many_files_is_told_once() {
    let node = Node::start(|config| config.quotas.set(QuotaName::OpenFiles, 1100)).await;
    let id = node.session("s").await;
    let many = "python3 -c \"files = [open('/dev/null') for _ in range(2000)]\"";
    let failed = node.sh(&id, many).await;
    assert_eq!(codes(&failed), [NoticeCode::OpenFilesLimit], "{failed:?}");
    assert!(failed.notices[0].message.contains("may have 1100 open (open_files)"), "{:?}", failed.notices);
    assert!(codes(&node.sh(&id, many).await).is_empty());
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_writes_on_beyond_the_disk_quota_is_ended() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 8 << 20)).await;
    let id = node.session("s").await;
    let writer = RunCommand { blocking: false, timeout: LONG, ..RunCommand::new("yes > big") };
    let run = node.engine.run(&id, writer).await.unwrap().run_id;
    let ending = async {
        loop {
            node.engine.node().keep_house().await.unwrap();
            let view = node.engine.runs().view(&id, &run, Duration::from_millis(20), 0).await.unwrap().run;
            if view.status != shellkeep_session::RunStatus::Running {
                return view;
            }
        }
    };
    let view = timeout(LONG, ending).await.expect("it is ended");
    assert_eq!(view.signal.as_deref(), Some("KILL"), "{view:?}");
    assert_eq!(codes(&node.sh(&id, "rm big").await), [NoticeCode::DiskQuota]);
    node.stop().await;
}

/// Only the command that ran was ended, and only sessions that were used were measured: a service, and what a command had
/// left running, wrote on until the disk was full.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_and_what_is_left_running_do_not_write_beyond_the_disk_quota() {
    const WRITER: &str = "echo $BASHPID > pid; while :; do head -c 5000000 /dev/zero >> big; sleep 0.02; done";
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 8 << 20)).await;
    let [served, left, gone] = [node.session("served").await, node.session("left").await, node.session("gone").await];
    // One that is restarted whenever it ends by itself.
    let request = StartService { restart: RestartPolicy::Always, ..StartService::new(WRITER) };
    let service = node.engine.services().start(&served, request).await.unwrap();
    let in_background = format!("n=1; ( {WRITER} ) > /dev/null 2>&1 &");
    node.sh(&left, &in_background).await;
    // Its shell has ended.
    node.sh(&gone, &format!("{in_background} exit 3")).await;
    let is_over = |id: &SessionId| {
        let pid = std::fs::read_to_string(node.directory.path().join("workspaces").join(id.as_str()).join("pid"));
        pid.ok().and_then(|pid| pid.trim().parse().ok()).is_some_and(|pid| Stat::read(pid).is_none())
    };
    until_async(LONG, "all that writes is ended", async || {
        node.engine.node().keep_house().await.unwrap();
        [&served, &left, &gone].into_iter().all(is_over).then_some(())
    })
    .await;
    let ended = node.ended(&service).await;
    assert_eq!((ended.status, ended.restarts), (ServiceStatus::Stopped, 0), "{ended:?}");
    let detail = ended.detail.unwrap();
    assert!(detail.contains("its limit is 8 MiB (disk_bytes_per_session)") && detail.contains("delete"), "{detail}");
    assert_eq!(codes(&node.sh(&served, "rm big").await), [NoticeCode::ServiceEnded, NoticeCode::DiskQuota]);
    for id in [&left, &gone] {
        let told = node.sh(id, "echo $n; rm big").await;
        assert_eq!(told.stdout.bytes, b"1\n", "{told:?}");
        assert!(codes(&told).contains(&NoticeCode::DiskQuota), "{told:?}");
        let lost = told.notices.iter().find(|notice| notice.code == NoticeCode::ShellReplaced);
        assert!(lost.is_some_and(|lost| lost.message.contains("over its disk quota")), "{told:?}");
    }
    node.stop().await;
}

/// Who is over its quota can still clean up, so a shell in which nothing works stays, with what only it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quiet_shell_over_the_disk_quota_stays() {
    let node = Node::start(|config| config.quotas.set(QuotaName::DiskBytesPerSession, 2 << 20)).await;
    let id = node.session("s").await;
    node.sh(&id, "exec 7<> kept").await;
    node.engine.node().keep_house().await.unwrap();
    node.sh(&id, "head -c 5000000 /dev/zero > big").await;
    let generation = async || node.engine.get(&id).await.unwrap().generation;
    let before = generation().await;
    node.engine.node().keep_house().await.unwrap();
    assert_eq!(codes(&node.sh(&id, "echo here >&7; rm big").await), [NoticeCode::DiskQuota]);
    assert_eq!(generation().await, before);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_outputs_give_way_to_new_ones() {
    let node = Node::start(|config| config.quotas.set(QuotaName::OutputBytesPerSession, 1 << 20)).await;
    let id = node.session("s").await;
    let mut runs = Vec::new();
    for letter in ["a", "b", "c"] {
        runs.push(node.sh(&id, &format!("head -c 400000 /dev/zero | tr '\\0' {letter}")).await.run_id);
    }
    let read = async |run: &RunId| {
        let query = OutputQuery { stream: Stream::Stdout, offset: 300_000, limit: 10, tail: None, grep: None };
        node.engine.output(&id, run, query).await.map(|page| page.bytes)
    };
    assert_eq!(read(&runs[0]).await.unwrap(), b"aaaaaaaaaa", "all of them fit until somebody looks");
    node.after(SECOND).await;
    let gone = read(&runs[0]).await.unwrap_err();
    assert_eq!(gone.code(), "output_reclaimed", "{gone}");
    assert_eq!(read(&runs[1]).await.unwrap(), b"bbbbbbbbbb");
    assert_eq!(read(&runs[2]).await.unwrap(), b"cccccccccc");
    // It is gone and known; one that somebody removed is missed.
    let verdict = node.engine.records().verify(&id).await.unwrap();
    assert!(verdict.is_intact() && verdict.files_reclaimed == 1, "{verdict:?}");
    std::fs::remove_file(node.directory.path().join(format!("outputs/s/{}.stdout", runs[1]))).unwrap();
    let bad = node.engine.records().verify(&id).await.unwrap().bad.unwrap();
    assert!(bad.reason.contains("no event says"), "{bad:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_checkpoints_are_removed_by_themselves_when_a_session_is_idle() {
    let node = Node::start(|config| config.checkpoints.keep_all = 4).await;
    let id = node.session("a").await;
    for n in 0..12 {
        node.sh(&id, &format!("echo {n} > f")).await;
        // Each gets a checkpoint of its own.
        node.engine.files().checkpoints(&id, 0, 1).await.unwrap();
    }
    let kept = async || {
        let page = node.engine.files().checkpoints(&id, 0, 100).await.unwrap();
        assert_eq!(page.checkpoints.len(), 12, "the list stays");
        page.checkpoints.iter().filter(|view| view.kept).count()
    };
    assert_eq!(kept().await, 12);
    // It is in use: its next command should not wait.
    node.after(SECOND).await;
    assert_eq!(kept().await, 12);
    node.engine.hibernate(&id).await.unwrap();
    // The newest four stay, and the last of the hour.
    let thinned = async {
        while kept().await != 5 {
            node.after(2 * HOUR).await;
        }
    };
    timeout(LONG, thinned).await.unwrap();
    assert_eq!(node.sh(&id, "cat f").await.stdout.bytes, b"11\n");
}
