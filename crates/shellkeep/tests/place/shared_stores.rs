//! Nodes that share another store than a plain Redis: Redis with TLS, PostgreSQL.

use crate::databases::{Kind, Server};
use crate::nodes::run_when_taken_over;
use crate::redis::{node, settings};
use crate::support::Daemon;
use crate::support::daemon::free_port;
use serde_json::json;
use shellkeep_poll::until;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A session is used through both nodes, and goes on when its node is killed; what was answered is not run again.
fn a_session_goes_on(mut first: Daemon, second: &Daemon) {
    first.create("s");
    let count = json!({"command": "n=$((n+1)); echo $n", "request_id": "one"});
    assert_eq!(first.run("s", count.clone()).out(), "1\n");
    assert_eq!(second.run("s", json!({"command": "n=$((n+1)); echo $n"})).out(), "2\n");
    assert_eq!(second.post("/v1/sessions", &json!({"session_id": "s"})).status, 200, "the name is taken");
    first.kill();
    let (after, _) = run_when_taken_over(second, "s", &json!({"command": "n=$((n+1)); echo $n"}));
    assert_eq!(after["stdout"], "3\n", "{after}");
    assert_eq!(second.run("s", count).out(), "1\n", "it was answered before");
}

/// A Redis that takes connections with TLS only, with a certificate of its own.
struct TlsRedis {
    child: Child,
    port: u16,
    directory: TempDir,
}

impl TlsRedis {
    fn start() -> Self {
        let (directory, port) = (TempDir::new().expect("a temporary directory"), free_port().port());
        make_certificate(directory.path());
        let child = Command::new("redis-server")
            .args(["--port", "0", "--tls-port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem", "--tls-ca-cert-file", "cert.pem"])
            .args(["--tls-auth-clients", "no"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed (Debian: redis-server)");
        let redis = Self { child, port, directory };
        until("redis-server answers", || {
            let certificate = redis.certificate();
            let mut ask = Command::new("redis-cli");
            ask.args(["--tls", "--cacert", &certificate, "-h", "localhost", "-p", &port.to_string(), "PING"]);
            let answer = ask.output().expect("redis-cli is installed");
            (answer.stdout == b"PONG\n").then_some(())
        });
        redis
    }

    fn certificate(&self) -> String {
        self.directory.path().join("cert.pem").display().to_string()
    }

    fn url(&self) -> String {
        format!("rediss://localhost:{}", self.port)
    }
}

impl Drop for TlsRedis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate for localhost that nobody but itself has signed, in `cert.pem`, with its key in `key.pem`.
fn make_certificate(directory: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(directory)
        .output()
        .expect("openssl is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn nodes_share_a_redis_with_tls() {
    let redis = TlsRedis::start();
    let trusting = |name: &str| settings(name, &redis.url()).env("SSL_CERT_FILE", &redis.certificate());
    a_session_goes_on(Daemon::with(trusting("n1")), &Daemon::with(trusting("n2")));
    // A node that does not trust the certificate sends nothing there, and says why.
    let stranger = node("n3", &redis.url());
    let ready = until("it does not reach the store", || {
        Some(stranger.get("/readyz").json()).filter(|ready| ready["status"] == "degraded")
    });
    assert!(ready["reasons"].to_string().contains("certificate"), "{ready}");
}

#[test]
fn nodes_share_a_postgres() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    a_session_goes_on(node("n1", &server.url()), &node("n2", &server.url()));
}
