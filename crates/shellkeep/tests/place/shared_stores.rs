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

/// A Redis that takes connections with TLS only, with a certificate of its own, and perhaps a Sentinel beside it.
struct TlsRedis {
    child: Child,
    sentinel: Option<(Child, u16)>,
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
        let redis = Self { child, sentinel: None, port, directory };
        until("redis-server answers", || {
            let certificate = redis.certificate();
            let mut ask = Command::new("redis-cli");
            ask.args(["--tls", "--cacert", &certificate, "-h", "localhost", "-p", &port.to_string(), "PING"]);
            let answer = ask.output().expect("redis-cli is installed");
            (answer.stdout == b"PONG\n").then_some(())
        });
        redis
    }

    /// Starts a Sentinel that takes connections with TLS only, and gives the URL that asks it.
    fn start_sentinel(&mut self) -> String {
        let address = free_port();
        let settings = format!(
            "port 0\ntls-port {}\nbind 127.0.0.1\ndir {}\ntls-cert-file cert.pem\ntls-key-file key.pem\n\
             tls-ca-cert-file cert.pem\ntls-auth-clients no\ntls-replication yes\n\
             sentinel monitor shared 127.0.0.1 {} 1\n",
            address.port(),
            self.directory.path().display(),
            self.port
        );
        std::fs::write(self.directory.path().join("sentinel.conf"), settings).expect("a file");
        let mut sentinel = Command::new("redis-sentinel");
        let started = sentinel.arg("sentinel.conf").current_dir(self.directory.path()).stdout(Stdio::null()).spawn();
        self.sentinel = Some((started.expect("redis-sentinel is installed (Debian: redis-sentinel)"), address.port()));
        format!("rediss+sentinel://localhost:{}/shared", address.port())
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
        let sentinel = self.sentinel.as_mut().map(|(child, _)| child);
        for child in sentinel.into_iter().chain([&mut self.child]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A certificate for localhost that nobody but itself has signed, in `cert.pem`, with its key in `key.pem`.
pub fn make_certificate(directory: &Path) {
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
    until("it says that it does not trust the store", || {
        let ready = stranger.get("/readyz").json();
        (ready["status"] == "degraded" && ready["reasons"].to_string().contains("certificate")).then_some(())
    });
}

/// Sentinels were asked without TLS, whatever the server had.
#[test]
fn nodes_find_a_redis_with_tls_through_sentinels_with_tls() {
    let mut redis = TlsRedis::start();
    let url = redis.start_sentinel();
    let trusting = |name: &str| settings(name, &url).env("SSL_CERT_FILE", &redis.certificate());
    let (first, second) = (Daemon::with(trusting("n1")), Daemon::with(trusting("n2")));
    for daemon in [&first, &second] {
        until("the Sentinel answers", || (daemon.get("/readyz").json()["status"] == "ready").then_some(()));
    }
    a_session_goes_on(first, &second);
    let stranger = node("n3", &url);
    until("it says that it does not trust the store", || {
        let ready = stranger.get("/readyz").json();
        (ready["status"] == "degraded" && ready["reasons"].to_string().contains("certificate")).then_some(())
    });
}

/// TLS to PostgreSQL was refused.
#[test]
fn nodes_share_a_postgres_with_tls() {
    let Some(mut server) = Server::start(Kind::Postgres) else { return };
    let files = TempDir::new().expect("a temporary directory");
    make_certificate(files.path());
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
    server.use_tls(&certificate, &key);
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), certificate.display());
    let second = node("n2", &url);
    a_session_goes_on(node("n1", &url), &second);
    let with = |ssl: &str| {
        server.text(&format!(
            "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'shellkeep' \
             AND pid <> pg_backend_pid() AND {ssl}"
        ))
    };
    assert_eq!((with("ssl").as_str(), with("NOT ssl").as_str()), ("1", "0"));
}

#[test]
fn nodes_share_a_postgres() {
    let Some(server) = Server::start(Kind::Postgres) else { return };
    a_session_goes_on(node("n1", &server.url()), &node("n2", &server.url()));
}
