//! A bucket under the contract that a directory for blobs keeps, at a real server that checks signatures.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on should stop")]

#[path = "../../../workspace/tests/repo/blobs.rs"]
mod blobs;
#[allow(dead_code, reason = "the tests of repositories use more of it")]
#[path = "../../../workspace/tests/repo/fixture.rs"]
mod fixture;
mod server;

use server::{KEY, S3, SECRET};
use shellkeep_s3::{Address, Bucket};
use shellkeep_workspace::blobs::{Blobs, Objects};
use std::fs;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

fn bucket(url: &str, secret: &str) -> Bucket {
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" => Some(KEY.to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some(secret.to_owned()),
        _ => None,
    };
    Bucket::open(Address::parse(url, variable).unwrap()).unwrap()
}

/// Opens the bucket as nodes do that just started: each with a connection and copies of its own.
fn nodes(server: &S3, copies: &TempDir) -> impl Fn() -> Blobs {
    let (url, copies, count) = (server.url("deep/prefix"), copies.path().to_owned(), AtomicU32::new(0));
    move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        Blobs::of_objects(Arc::new(bucket(&url, SECRET)), copies.join(number.to_string())).unwrap()
    }
}

#[test]
fn checkpoints_are_kept_in_a_bucket() {
    let Some(server) = S3::start() else { return };
    blobs::checkpoints(nodes(&server, &TempDir::new().unwrap()));
    assert_eq!(bucket(&server.url(""), SECRET).list("").unwrap(), [], "everything was removed");
}

#[test]
fn attached_files_are_kept_in_a_bucket() {
    let Some(server) = S3::start() else { return };
    blobs::attached(nodes(&server, &TempDir::new().unwrap()));
}

/// A file to which bytes are appended is an object for each part, and no part is taken without those before it.
#[test]
fn a_log_is_kept_in_a_bucket() {
    let Some(server) = S3::start() else { return };
    let copies = TempDir::new().unwrap();
    let open = nodes(&server, &copies);
    let (first, second) = (open().of("s", "7"), open().of("s", "7"));
    let objects = first.keyed_objects().unwrap();
    let path = copies.path().join("log");
    let mut log = fs::File::create(&path).unwrap();
    for part in ["one ", "two ", "three"] {
        log.write_all(part.as_bytes()).unwrap();
        objects.keep("1.n1.x-1.log", &path).unwrap();
        objects.keep("1.n1.x-1.log", &path).unwrap();
    }
    let fetched = || {
        second.fetch_keyed().unwrap();
        let path = second.keyed().unwrap().join("1.n1.x-1.log");
        path.exists().then(|| fs::read_to_string(path).unwrap())
    };
    assert_eq!(objects.names().unwrap(), ["1.n1.x-1.log"]);
    assert_eq!(fetched().as_deref(), Some("one two three"));
    let all = bucket(&server.url("deep/prefix"), SECRET);
    let mut names: Vec<String> = all.list("s/7/kv/").unwrap().into_iter().map(|object| object.name).collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    all.remove(&names[1]).unwrap();
    assert_eq!(fetched().as_deref(), Some("one "));
    objects.remove("1.n1.x-1.log").unwrap();
    assert_eq!((fetched(), all.list("").unwrap()), (None, Vec::new()));
}

/// The server of this test refuses what is signed wrongly; otherwise the tests would show nothing about signatures.
#[test]
fn a_wrong_secret_opens_nothing() {
    let Some(server) = S3::start() else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let stranger = bucket(&server.url(""), "not the secret");
    let error = stranger.put("a", file.path(), 0..0).unwrap_err().to_string();
    assert!(error.contains("SignatureDoesNotMatch") && !error.contains("not the secret"), "{error}");
    stranger.list("").unwrap_err();
    assert_eq!(bucket(&server.url(""), SECRET).list("").unwrap(), []);
    let missing = bucket(&server.url("").replace("bucket", "another"), SECRET).list("").unwrap_err().to_string();
    assert!(missing.contains("NoSuchBucket"), "{missing}");
}

/// Names with the signs that a session's id or a file may have, and more objects than one page of a list.
#[test]
fn every_name_and_every_page_is_listed() {
    let Some(server) = S3::start() else { return };
    let (all, file) = (bucket(&server.url("p"), SECRET), tempfile::NamedTempFile::new().unwrap());
    fs::write(file.path(), "0123456789").unwrap();
    let mut names: Vec<String> = (0..1003).map(|number| format!("n/{number:04}")).collect();
    names.extend(["s/a:b/1.n1.x-1.log+00000000000000000004", "s/c.d_e-f/HEAD"].map(str::to_owned));
    for name in &names {
        all.put(name, file.path(), 2..6).unwrap();
    }
    let mut listed: Vec<(String, u64)> = all.list("").unwrap().into_iter().map(|it| (it.name, it.bytes)).collect();
    listed.sort();
    names.sort();
    assert_eq!(listed, names.iter().map(|name| (name.clone(), 4)).collect::<Vec<_>>());
    for name in names.iter().filter(|name| name.starts_with("s/")) {
        let mut bytes = Vec::new();
        all.get(name, &mut bytes).unwrap();
        assert_eq!(bytes, b"2345", "{name}");
        all.remove(name).unwrap();
        all.remove(name).unwrap();
        all.get(name, &mut bytes).unwrap_err();
    }
    assert_eq!(all.list("s/").unwrap(), []);
}
