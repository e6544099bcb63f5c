//! `/v1/live`, the WebSocket of the console, without a browser: who may open it, and what a slow client gets.

use crate::support::{Daemon, Door, Request, Settings, procs};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use tungstenite::{ClientRequestBuilder, Error, HandshakeError, Message, WebSocket};

const TOKEN: &str = "the-token-of-the-host";
/// What a topic may be ahead of a client that says nothing.
const CREDIT: usize = 256 << 10;

/// A connection through either door.
trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

struct Socket(WebSocket<Box<dyn Wire>>);

/// What a client hears.
#[derive(Debug, PartialEq)]
enum Heard {
    Frame(Value),
    Closed(u16),
}

fn daemon() -> Daemon {
    Daemon::with(Settings::default().tcp().env("SHELLKEEP_TOKEN", TOKEN))
}

fn address(daemon: &Daemon) -> SocketAddr {
    match daemon.tcp_door() {
        Door::Tcp(address) => address,
        Door::Socket(path) => panic!("{} is not TCP", path.display()),
    }
}

/// A connection, or the status with which it was refused.
fn connect(daemon: &Daemon, origin: Option<&str>) -> Result<Socket, u16> {
    let headers: Vec<(&str, &str)> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
    connect_with(daemon.tcp_door(), &headers)
}

fn connect_with(door: Door, headers: &[(&str, &str)]) -> Result<Socket, u16> {
    let (host, wire): (String, Box<dyn Wire>) = match door {
        Door::Tcp(address) => (address.to_string(), Box::new(TcpStream::connect(address).unwrap())),
        Door::Socket(path) => ("localhost".to_owned(), Box::new(UnixStream::connect(path).unwrap())),
    };
    let mut request = ClientRequestBuilder::new(format!("ws://{host}/v1/live").parse().unwrap());
    for (name, value) in headers {
        request = request.with_header(*name, *value);
    }
    match tungstenite::client(request, wire) {
        Ok((socket, _)) => Ok(Socket(socket)),
        Err(HandshakeError::Failure(Error::Http(answer))) => Err(answer.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// A connection that has authenticated with this token.
fn enter(daemon: &Daemon, token: &str) -> Socket {
    let mut socket = connect(daemon, None).unwrap();
    socket.say(&json!({"auth": token}));
    let ready = socket.frame();
    assert!(ready["ready"]["role"].is_string(), "{ready}");
    socket
}

impl Socket {
    fn say(&mut self, value: &Value) {
        self.0.send(Message::text(value.to_string())).unwrap();
    }

    fn hear(&mut self) -> Heard {
        loop {
            match self.0.read().unwrap() {
                Message::Text(text) => return Heard::Frame(serde_json::from_str(&text).unwrap()),
                Message::Close(frame) => return Heard::Closed(frame.map_or(0, |frame| frame.code.into())),
                _ => {}
            }
        }
    }

    fn frame(&mut self) -> Value {
        match self.hear() {
            Heard::Frame(value) => value,
            Heard::Closed(code) => panic!("closed with {code}"),
        }
    }

    /// The next frame that fits.
    fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame();
            if wanted(&frame) {
                return frame;
            }
        }
    }
}

#[test]
fn a_client_that_does_not_authenticate_is_sent_away() {
    let daemon = daemon();
    // The first says nothing and is sent away after 5 seconds, the others at once.
    let mut silent = connect(&daemon, None).unwrap();
    for first in
        [json!({"auth": "wrong"}), json!({"open": 1, "topic": "node"}), json!([]), json!({"auth": TOKEN, "x": 1})]
    {
        let mut socket = connect(&daemon, None).unwrap();
        socket.say(&first);
        assert_eq!(socket.hear(), Heard::Closed(4401), "{first}");
    }
    let mut known = enter(&daemon, TOKEN);
    known.say(&json!({"run": "rm -rf /"}));
    assert_eq!(known.hear(), Heard::Closed(4400));
    assert_eq!(silent.hear(), Heard::Closed(4401));
}

#[test]
fn only_a_page_of_the_daemon_itself_opens_it() {
    let daemon = daemon();
    let own = format!("http://{}", address(&daemon));
    for origin in ["http://127.0.0.1:3000", "http://localhost", "https://example.com", "null", "http://127.0.0.1"] {
        assert_eq!(connect(&daemon, Some(origin)).err(), Some(403), "{origin}");
    }
    assert!(connect(&daemon, Some(&own)).is_ok());
}

/// The socket needs no token, but a WebSocket over it had to send one; a token in the header was not looked at either.
#[test]
fn a_caller_who_is_known_needs_no_first_frame() {
    let daemon = daemon();
    daemon.create("of-the-host");
    let secret = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json()["token"].as_str().unwrap().to_owned();
    let (host, ann) = (format!("Bearer {TOKEN}"), format!("Bearer {secret}"));
    let opened = |door: Door, header: Option<&str>| {
        let headers: Vec<(&str, &str)> = header.map(|value| ("Authorization", value)).into_iter().collect();
        let mut socket = connect_with(door, &headers).unwrap();
        socket.say(&json!({"open": 1, "topic": "session/of-the-host"}));
        (socket.frame()["ready"]["role"].clone(), socket.frame())
    };
    for (door, header) in [(daemon.door(), None), (daemon.door(), Some(&*host)), (daemon.tcp_door(), Some(&*host))] {
        let (role, followed) = opened(door, header);
        assert_eq!((&role, &followed["snapshot"]["session"]["session_id"]), (&json!("act"), &json!("of-the-host")));
    }
    for door in [daemon.door(), daemon.tcp_door()] {
        let (role, followed) = opened(door, Some(&*ann));
        assert_eq!((&role, &followed["error"]["code"]), (&json!("agent"), &json!("session_not_found")));
    }
    for door in [daemon.door(), daemon.tcp_door()] {
        assert_eq!(connect_with(door, &[("Authorization", "Bearer wrong")]).err(), Some(401));
    }
    // One that waited for `ready` was sent away after 5 seconds, as if it were not known.
    let mut silent = connect_with(daemon.door(), &[]).unwrap();
    assert_eq!(silent.frame()["ready"]["role"], "act");
    silent.say(&json!({"open": 1, "topic": "session/of-the-host"}));
    assert_eq!(silent.frame()["snapshot"]["session"]["session_id"], "of-the-host");
    // A page of another origin has no use of a header that somebody adds to its request.
    let foreign = [("Authorization", &*host), ("Origin", "http://127.0.0.1:3000")];
    assert_eq!(connect_with(daemon.tcp_door(), &foreign).err(), Some(403));
    // Over the socket a token may come in the first frame as before, and counts.
    let mut socket = connect_with(daemon.door(), &[]).unwrap();
    socket.say(&json!({"auth": secret}));
    assert_eq!(socket.frame()["ready"]["role"], "agent");
    // Behind a proxy with a password, the token of the page comes in the first frame.
    let mut behind = connect_with(daemon.tcp_door(), &[("Authorization", "Basic b2Y6cHJveHk=")]).unwrap();
    behind.say(&json!({"auth": TOKEN}));
    assert_eq!(behind.frame()["ready"]["role"], "act");
    let mut wrong = connect_with(daemon.door(), &[]).unwrap();
    wrong.say(&json!({"run": "rm -rf /"}));
    assert!(wrong.frame()["ready"].is_object());
    assert_eq!(wrong.hear(), Heard::Closed(4400));
}

/// A process of a session is not the host on the socket, whatever token it sends; in the first frame of a WebSocket the
/// host's token was accepted nevertheless.
#[test]
fn a_process_of_a_session_is_not_the_host_on_a_websocket() {
    let daemon = daemon();
    daemon.create("inside");
    daemon.create("other");
    let Door::Socket(path) = daemon.door() else { panic!("a socket") };
    let asked = |first: &Value| {
        let script = format!("python3 - '{}' <<'END'\n{ASK}\nEND", path.display()).replace("FIRST", &first.to_string());
        daemon.sh("inside", &script).out()
    };
    let own = asked(&json!({"open": 1, "topic": "session/inside"}));
    assert!(own.contains("\"role\":\"agent\"") && own.contains("\"snapshot\""), "{own}");
    let other = asked(&json!({"open": 1, "topic": "session/other"}));
    assert!(other.contains("session_not_found"), "{other}");
    let host = asked(&json!({"auth": TOKEN}));
    assert!(!host.contains("ready") && host.contains("valid token"), "{host}");
}

/// Opens a WebSocket over the daemon's socket, sends one frame, and prints the first two answers.
const ASK: &str = r#"
import base64, os, socket, struct, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
key = base64.b64encode(os.urandom(16)).decode()
connection.sendall(
    f"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
)
answers = connection.makefile("rb")
while answers.readline().strip():
    pass
frame = b'FIRST'
# Masked with zeros, which changes nothing.
connection.sendall(bytes([0x81, 0x80 | len(frame), 0, 0, 0, 0]) + frame)
shown = 0
while shown < 2 and len(head := answers.read(2)) == 2:
    length = head[1]
    if length == 126:
        length, = struct.unpack(">H", answers.read(2))
    elif length == 127:
        length, = struct.unpack(">Q", answers.read(8))
    text = answers.read(length)
    if head[0] & 15 == 9:
        continue
    print(text.decode(errors="replace"))
    shown += 1 if head[0] & 15 == 1 else 2
"#;

#[test]
fn a_slow_client_gets_a_new_snapshot_and_never_a_queue() {
    let daemon = daemon();
    daemon.create("s");
    let command = "read -r go; head -c 8000000 /dev/zero | tr '\\0' x; echo; echo the end";
    let run = daemon.run("s", json!({"command": command, "blocking": false, "timeout": 60})).run_id().to_owned();
    let mut slow = enter(&daemon, TOKEN);
    slow.say(&json!({"open": 1, "topic": format!("run/s/{run}")}));
    assert_eq!(slow.frame()["snapshot"]["text"], "");
    daemon.post(&format!("/v1/sessions/s/runs/{run}/input"), &json!({"text": "go\n"}));
    // A client that reads nothing does not hold up the command.
    assert_eq!(daemon.wait_run("s", &run, 60).status(), "exited");
    let mut sent = 0;
    while sent < CREDIT {
        let frame = slow.frame();
        assert_eq!(frame["id"], 1);
        sent += frame.to_string().len();
    }
    // Nothing more was sent than its credit, and the frame with which it ended.
    slow.say(&json!({"open": 2, "topic": "node"}));
    let other = slow.frame();
    assert_eq!(other["id"], 2, "more than its credit was sent");
    assert!(sent < 2 * CREDIT, "{sent}");
    slow.say(&json!({"credit": 1, "bytes": sent}));
    let next = slow.until(|frame| frame["id"] == 1);
    let text = next["snapshot"]["text"].as_str().unwrap_or_else(|| panic!("not a snapshot: {:.200}", next.to_string()));
    assert!(text.ends_with("\nthe end\n"), "{}", &text[text.len().saturating_sub(40)..]);
}

/// Many pictures of a large screen were made on the threads that serve everybody. They wait for their turn now, and none of
/// them may be refused for that.
#[test]
fn a_large_screen_is_shown_to_all_who_follow_it() {
    const TOPICS: u64 = 32;
    let daemon = daemon();
    daemon.create("s");
    let size = json!({"rows": 500, "cols": 500});
    let body = json!({"command": "printf hello; sleep 600", "blocking": false, "tty": true, "tty_size": size});
    let run = daemon.run("s", body).run_id().to_owned();
    let mut sockets: Vec<Socket> = (0..5).map(|_| enter(&daemon, TOKEN)).collect();
    for socket in &mut sockets {
        (0..TOPICS).for_each(|id| socket.say(&json!({"open": id, "topic": format!("screen/s/{run}")})));
    }
    for socket in &mut sockets {
        let mut shown = BTreeSet::new();
        while shown.len() < TOPICS as usize {
            let frame = socket.frame();
            let rows = frame["snapshot"]["cells"].as_array().map(Vec::len);
            assert_eq!(rows, Some(500), "{:.200}", frame.to_string());
            shown.insert(frame["id"].as_u64());
        }
    }
}

/// A connection that a thread writes to while another reads: an answer to a ping would come into the middle of a frame.
struct Mutes {
    stream: TcpStream,
    is_mute: Rc<Cell<bool>>,
}

impl Read for Mutes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for Mutes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_mute.get() { Ok(bytes.len()) } else { self.stream.write(bytes) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// One agent's connection that opened one number again and again, as fast as it could, made the daemon use 2.9 GB, and others
/// waited for seconds: each order became a task, and the task before was asked to end but not waited for.
#[test]
fn a_number_that_is_opened_again_and_again_is_one_task() {
    const PAIRS: usize = 20_000;
    /// What the daemon may take of memory, whatever one client does.
    const MEMORY_KIB: u64 = 512 << 10;
    let daemon = daemon();
    daemon.create("s");
    let stream = TcpStream::connect(address(&daemon)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let request = ClientRequestBuilder::new(format!("ws://{}/v1/live", address(&daemon)).parse().unwrap());
    let is_mute = Rc::new(Cell::new(false));
    let wire: Box<dyn Wire> = Box::new(Mutes { stream, is_mute: Rc::clone(&is_mute) });
    let Ok((socket, _)) = tungstenite::client(request, wire) else { panic!("a WebSocket") };
    let mut socket = Socket(socket);
    socket.say(&json!({"auth": TOKEN}));
    assert!(socket.frame()["ready"].is_object());
    is_mute.set(true);
    // Masked with zeros, which changes nothing.
    let framed = |value: Value| {
        let text = value.to_string();
        let head = [0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        [&head[..], text.as_bytes()].concat()
    };
    let open = |topic: &str| framed(json!({"open": 1, "topic": topic}));
    let pair = [open("session/s"), open("no/such")].concat();
    let last = framed(json!({"open": 2, "topic": "node"}));
    let sending = std::thread::spawn(move || {
        for _ in 0..PAIRS / 100 {
            writer.write_all(&pair.repeat(100)).unwrap();
        }
        writer.write_all(&last).unwrap();
    });
    // Each topic that does not exist is answered, also if its number is opened again at once.
    let mut refused = 0;
    let end = socket.until(|frame| {
        refused += usize::from(frame["error"]["code"] == "invalid_request");
        frame["id"] == 2
    });
    assert!(end["snapshot"].is_object(), "{end}");
    assert_eq!(refused, PAIRS);
    sending.join().unwrap();
    let peak = procs::peak_resident_kib(daemon.pid());
    assert!(peak < MEMORY_KIB, "{peak} KiB");
}

#[test]
fn a_revoked_token_ends_the_connection() {
    let daemon = daemon();
    daemon.create("of-the-host");
    let issued = daemon.post("/v1/tokens", &json!({"agent": "ann"})).json();
    let mut ann = enter(&daemon, issued["token"].as_str().unwrap());
    // Another's session is one that does not exist.
    ann.say(&json!({"open": 1, "topic": "session/of-the-host"}));
    assert_eq!(ann.frame()["error"]["code"], "session_not_found");
    ann.say(&json!({"open": 2, "topic": "everything"}));
    assert_eq!(ann.frame()["error"]["code"], "invalid_request");
    let target = format!("/v1/tokens/{}", issued["id"].as_str().unwrap());
    assert_eq!(daemon.send(&Request::new("DELETE", &target)).status, 204);
    assert_eq!(ann.hear(), Heard::Closed(4401));
}

#[test]
fn sessions_that_come_and_go_are_reported() {
    let daemon = daemon();
    let mut socket = enter(&daemon, TOKEN);
    socket.say(&json!({"open": 1, "topic": "sessions"}));
    assert!(socket.frame()["snapshot"]["node"]["commands"].is_array());
    for _ in 0..3 {
        daemon.create("s");
        let came = |frame: &Value| frame["update"]["sessions"][0]["session_id"] == "s";
        socket.until(came);
        daemon.sh("s", "touch $(seq 500)");
        daemon.destroy("s");
        let left = socket.until(|frame| frame["update"]["gone"] == json!(["s"]));
        assert_eq!(left["update"]["sessions"], json!([]));
    }
}

/// An agent was told of its own session of the same short name when another's changed, and that something changed whenever
/// anything did.
#[test]
fn an_agent_hears_nothing_of_the_sessions_of_others() {
    let daemon = daemon();
    let token = |agent: &str| daemon.post("/v1/tokens", &json!({"agent": agent})).json()["token"].clone();
    daemon.create_with(json!({"session_id": "thread_ann_main", "agent": "ann"}));
    daemon.create_with(json!({"session_id": "thread_bob_thread_ann_main", "agent": "bob"}));
    daemon.create_with(json!({"session_id": "thread_bob_own", "agent": "bob"}));
    let mut bob = enter(&daemon, token("bob").as_str().unwrap());
    bob.say(&json!({"open": 1, "topic": "sessions"}));
    assert_eq!(bob.frame()["id"], 1);
    let note = |session: &str| {
        let noted =
            daemon.post(&format!("/v1/sessions/{session}/events"), &json!({"event_type": "x_noted", "data": {}}));
        assert!(noted.status < 300, "{}", noted.text());
    };
    let mut host = enter(&daemon, TOKEN);
    host.say(&json!({"open": 1, "topic": "sessions"}));
    assert_eq!(host.frame()["id"], 1);
    note("thread_ann_main");
    // By now it was looked at, by each who follows.
    host.until(|frame| frame["update"]["sessions"][0]["session_id"] == "thread_ann_main");
    note("thread_bob_own");
    let heard = bob.frame();
    let named: Vec<&Value> =
        heard["update"]["sessions"].as_array().unwrap().iter().map(|one| &one["session_id"]).collect();
    assert_eq!(named, ["thread_bob_own"], "{heard}");
}
