//! A service is a tree, and ends as one.

use crate::fixture::{Fixture, Sleeps, end_of, in_each_mode, is_alive, status_of, until};
use rustix::process::Signal;
use shellkeep_process::*;

in_each_mode! {
    whoever_tries_to_get_away_ends_with_it: Auto, Marks;
    what_a_failed_command_leaves_is_ended: Auto, Marks;
    one_that_puts_itself_into_the_background_goes_on: Auto, Marks;
    everyone_gets_time_to_end: Auto, Marks;
    a_signal_reaches_everyone: Auto, Marks;
    ports_and_connections_are_seen: Auto, Marks;
}

/// Everything a process can do to lose its parent, its session, and its environment.
fn escapes(sleeps: &Sleeps) -> String {
    let one = |digit| sleeps.command(digit);
    format!(
        "setsid {} & (setsid {} &) ; (({} &) &) ; env -i setsid {} & nohup {} & trap '' TERM; ({}) & ",
        one(1),
        one(2),
        one(3),
        one(4),
        one(5),
        one(6)
    )
}

async fn whoever_tries_to_get_away_ends_with_it(fixture: Fixture) {
    let sleeps = Sleeps::new();
    let mut service = fixture.start("service-a", &format!("{} wait", escapes(&sleeps))).await;
    sleeps.until(6).await;
    let members = service.members();
    assert!(sleeps.alive().iter().all(|pid| members.iter().any(|stat| stat.pid == *pid)), "all of them are known");
    service.kill();
    assert_eq!(status_of(&mut service).await, ExitStatus::Signalled(9));
    assert_eq!(sleeps.alive(), [0; 0]);
}

async fn what_a_failed_command_leaves_is_ended(fixture: Fixture) {
    let sleeps = Sleeps::new();
    let command = format!("{} until [ -e \"$GO\" ]; do read -t 0.01 <> <(:); done; exit 3", escapes(&sleeps));
    let go = fixture.scratch.path().join("go");
    let env = [(b"GO".to_vec(), go.to_str().unwrap().as_bytes().to_vec())];
    let run = RunSpec { command: command.as_bytes(), cwd: None, env: &env, until: None };
    let cage = fixture.factory.cage("service-a");
    let (mut service, _) = ServiceProcess::start(fixture.spec("service-a"), cage, None, &[], run).await.unwrap();
    sleeps.until(6).await;
    std::fs::write(go, "").unwrap();
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(3));
    assert_eq!(sleeps.alive(), [0; 0]);
}

async fn one_that_puts_itself_into_the_background_goes_on(fixture: Fixture) {
    let sleeps = Sleeps::new();
    let mut service = fixture.start("service-a", &format!("({} &); echo gone on", sleeps.command(1))).await;
    let stamps = service.stamps();
    sleeps.until(1).await;
    until("the main process has ended", || !is_alive(stamps.main)).await;
    fixture.until_logged("service-a", "gone on").await;
    assert_eq!(service.members().iter().map(|stat| stat.pid).collect::<Vec<_>>(), sleeps.alive());
    assert!(is_alive(stamps.keeper));
    drop(service);
    service = fixture.adopt("service-a", stamps).expect("it can be taken over all the same");
    service.kill();
    assert_eq!(status_of(&mut service).await, ExitStatus::Exited(0), "the status is that of the main process");
    assert_eq!(sleeps.alive(), [0; 0]);
}

/// A launcher ends at the signal, what it launched writes its last line first.
async fn everyone_gets_time_to_end(fixture: Fixture) {
    let worker = "(trap 'read -t 0.3 <> <(:); echo last line; exit' TERM; echo ready; while :; do sleep 0.01; done)";
    let mut service = fixture.start("service-a", &format!("{worker} & wait")).await;
    fixture.until_logged("service-a", "ready").await;
    service.stop(Signal::TERM);
    assert_eq!(status_of(&mut service).await, ExitStatus::Signalled(15));
    let text = fixture.text("service-a");
    assert!(text.ends_with("last line\n"), "{text}");
}

async fn a_signal_reaches_everyone(fixture: Fixture) {
    let worker = |name: &str| {
        format!("bash -c 'trap \"echo {name} told\" HUP; echo {name} is here; while :; do sleep 0.01; done'")
    };
    let (first, second) = (worker("first"), worker("second"));
    let mut service = fixture
        .start("service-a", &format!("trap 'echo main told' HUP; {first} & setsid {second} & while :; do wait; done"))
        .await;
    fixture.until_logged("service-a", "first is here").await;
    fixture.until_logged("service-a", "second is here").await;
    service.signal(Signal::HUP);
    for name in ["main", "first", "second"] {
        fixture.until_logged("service-a", &format!("{name} told")).await;
    }
    service.kill();
    end_of(&mut service).await;
}

async fn ports_and_connections_are_seen(fixture: Fixture) {
    // The server is a grandchild, and its port is the system's choice.
    let server = "import http.server\nhttp.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler).serve_forever()";
    let mut service = fixture.start("service-a", &format!("bash -c 'python3 -c \"$1\"; :' - \"{server}\"; :")).await;
    let pids = |service: &ServiceProcess| service.members().iter().map(|stat| stat.pid).collect::<Vec<_>>();
    until("it listens", || ports::listening(&pids(&service)).len() == 1).await;
    let sockets = || SocketTables::default().of(&pids(&service));
    let found = sockets();
    assert_eq!(found.connections, 0);
    let connection = std::net::TcpStream::connect(("127.0.0.1", found.listening[0])).unwrap();
    until("the connection is seen", || sockets().connections == 1).await;
    assert_eq!(sockets().listening, found.listening);
    drop(connection);
    service.kill();
    end_of(&mut service).await;
    assert_eq!(ports::listening(&pids(&service)), [0; 0]);
}
