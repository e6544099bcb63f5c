//! A server that speaks S3 and checks signatures: s3rver, on Node.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What it was started with; it has no others.
pub const KEY: &str = "S3RVER";
pub const SECRET: &str = "S3RVER";

/// Starts the server on a free port and says which. For the pages of its lists it needs a cipher that OpenSSL has no longer by itself.
const SCRIPT: &str = "const S3rver = require(process.argv[1]); \
    new S3rver({ address: '127.0.0.1', port: 0, silent: true, directory: process.argv[2], \
    configureBuckets: [{ name: 'bucket' }] }).run().then((at) => console.log(at.port))";

/// A running server with an empty bucket.
pub struct S3 {
    child: Child,
    port: u16,
    _directory: TempDir,
}

impl S3 {
    /// Starts one; nothing if it could not be fetched, which is a failure in CI.
    pub fn start() -> Option<Self> {
        let home = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/s3-tools");
        let module = home.join("node_modules/@20minutes/s3rver");
        if !module.exists() {
            let reason = std::fs::read_to_string(home.join("unavailable")).unwrap_or_default();
            assert!(std::env::var_os("CI").is_none(), "s3rver is missing; run `make s3-tools`. {reason}");
            println!("skipped: s3rver is missing; run `make s3-tools`. {reason}");
            return None;
        }
        let directory = TempDir::new().unwrap();
        let mut command = Command::new("node");
        command
            .args(["--openssl-legacy-provider", "-e", SCRIPT])
            .arg(module)
            .arg(directory.path())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("node is installed (Debian: npm)");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|error| panic!("s3rver said '{line}': {error}"));
        Some(Self { child, port, _directory: directory })
    }

    /// The URL of its bucket.
    pub fn url(&self, prefix: &str) -> String {
        format!("s3://bucket/{prefix}?endpoint=http://127.0.0.1:{}", self.port)
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
