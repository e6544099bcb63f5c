//! PostgreSQL with TLS: a server whose certificate an authority of the test has signed.

use shellkeep_servers::{DatabaseServer, Kind};
use shellkeep_shared::open;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

fn openssl(directory: &Path, words: &[&str]) {
    let made = Command::new("openssl").args(words).current_dir(directory).output().expect("openssl is installed");
    assert!(made.status.success(), "{words:?}: {}", String::from_utf8_lossy(&made.stderr));
}

/// An authority in `ca.pem`, and a certificate of it for localhost in `cert.pem` with its key in `key.pem`.
fn certificates(directory: &Path) {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem"];
    openssl(directory, &[&authority[..], &key].concat());
    openssl(
        directory,
        &[&["req", "-subj", "/CN=server", "-keyout", "key.pem", "-out", "server.csr"][..], &key].concat(),
    );
    std::fs::write(directory.join("names"), "subjectAltName=DNS:localhost\n").unwrap();
    let sign =
        ["x509", "-req", "-days", "2", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    openssl(directory, &[&sign[..], &["-extfile", "names", "-out", "cert.pem"]].concat());
}

#[test]
fn a_certificate_is_checked_as_far_as_the_url_says() {
    let files = TempDir::new().unwrap();
    certificates(files.path());
    let other = TempDir::new().unwrap();
    certificates(other.path());
    let mut server =
        DatabaseServer::start(Kind::Postgres).unwrap().expect("PostgreSQL is installed (Debian: postgresql)");
    let ping = |server: &DatabaseServer, host: &str, query: &str| {
        let url = format!("{}{query}", server.url().replace("127.0.0.1", host));
        open(&url).unwrap().ping().map_err(|down| down.reason)
    };
    let refused = ping(&server, "localhost", "?sslmode=require").unwrap_err();
    assert!(refused.contains("TLS"), "{refused}");
    ping(&server, "localhost", "?sslmode=prefer").unwrap();

    server.use_tls(&files.path().join("cert.pem"), &files.path().join("key.pem")).unwrap();
    server.restart().unwrap();
    let trusting = |mode: &str, folder: &TempDir| {
        format!("?sslmode={mode}&sslrootcert={}", folder.path().join("ca.pem").display())
    };
    for (host, query) in [
        ("localhost", trusting("verify-full", &files)),
        ("localhost", trusting("verify-ca", &files)),
        ("127.0.0.1", trusting("verify-ca", &files)),
        ("127.0.0.1", "?sslmode=require".to_owned()),
        ("127.0.0.1", "?sslmode=prefer".to_owned()),
        ("127.0.0.1", "?sslmode=disable".to_owned()),
        ("127.0.0.1", String::new()),
    ] {
        ping(&server, host, &query).unwrap_or_else(|error| panic!("{host} {query}: {error}"));
    }
    for (host, query) in [
        ("127.0.0.1", trusting("verify-full", &files)),
        ("localhost", trusting("verify-full", &other)),
        ("localhost", trusting("verify-ca", &other)),
    ] {
        let refused = ping(&server, host, &query).expect_err(&query);
        assert!(refused.contains("certificate"), "{host} {query}: {refused}");
    }
    let missing = open(&format!("{}?sslmode=verify-full&sslrootcert=/nowhere.pem", server.url()));
    assert!(missing.err().is_some_and(|error| error.to_string().contains("/nowhere.pem")));
}
