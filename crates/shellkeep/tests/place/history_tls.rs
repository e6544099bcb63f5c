//! History in a PostgreSQL with TLS.

use crate::databases::{Kind, Server};
use crate::history::caught_up;
use crate::shared_stores::make_certificate;
use crate::support::{Daemon, Settings};
use shellkeep_poll::until;
use tempfile::TempDir;

/// A URL with `sslmode=require` was refused, and any other connected without TLS.
#[test]
fn history_is_written_to_a_postgres_with_tls() {
    let Some(mut server) = Server::start(Kind::Postgres) else { return };
    let files = TempDir::new().expect("a temporary directory");
    make_certificate(files.path());
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| files.path().join(name));
    server.use_tls(&certificate, &key);
    let with = |query: String| Daemon::with(Settings::default().env("SHELLKEEP_HISTORY", &(server.url() + &query)));
    let connections = |ssl: &str| {
        server.text(&format!(
            "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'shellkeep' \
             AND pid <> pg_backend_pid() AND {ssl}"
        ))
    };
    for query in ["?sslmode=require".to_owned(), format!("?sslmode=verify-full&sslrootcert={}", certificate.display())]
    {
        let mut daemon = with(query.clone());
        let session = if query.contains("verify") { "checked" } else { "unchecked" };
        daemon.create(session);
        daemon.sh(session, "echo kept");
        caught_up(&server, &daemon, session);
        assert_ne!(connections("ssl"), "0", "{query}");
        // The test's own are closed a moment after they were used.
        until("none is without TLS", || (connections("NOT ssl") == "0").then_some(()));
        assert_eq!(daemon.stop(), Some(0));
        until("its connections are closed", || (connections("ssl") == "0").then_some(()));
    }

    // A daemon that does not trust the certificate sends nothing there, and says why.
    let stranger = with("?sslmode=verify-full".to_owned());
    until("it says that it does not trust the database", || {
        let ready = stranger.get("/readyz").json();
        (ready["status"] == "degraded" && ready["reasons"].to_string().contains("certificate")).then_some(())
    });
}
