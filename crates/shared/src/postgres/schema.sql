-- What nodes share. `sk_shared_heads` has one row for each session; the columns are those of the hash in Redis.
-- `sk_shared_log` has the records after `base`, oldest first. The row of `sk_shared_heads` with an empty `session_id`
-- has the name of what there is in `data`. `sk_shared_removed` says which sessions were removed, by when they were created. Some of this may be there: somebody dropped the tables and left the
-- sequence.
CREATE TABLE IF NOT EXISTS sk_shared_heads (
    session_id text PRIMARY KEY,
    owner text, seq bigint NOT NULL DEFAULT 0, at text NOT NULL DEFAULT '', claims text NOT NULL DEFAULT '',
    home text NOT NULL DEFAULT '', data text NOT NULL DEFAULT '', agent text, files text, forks text NOT NULL DEFAULT '',
    is_free boolean NOT NULL DEFAULT false, lease text, lease_until timestamptz, removed_at timestamptz,
    base bytea, next bytea, covers bigint
);
CREATE INDEX IF NOT EXISTS sk_shared_heads_by_agent ON sk_shared_heads (agent) WHERE agent IS NOT NULL;
CREATE TABLE IF NOT EXISTS sk_shared_log (
    session_id text NOT NULL, number bigint GENERATED ALWAYS AS IDENTITY, line bytea NOT NULL,
    PRIMARY KEY (session_id, number)
);
CREATE TABLE IF NOT EXISTS sk_shared_removed (
    session_id text NOT NULL, created_at text NOT NULL, until timestamptz NOT NULL, PRIMARY KEY (session_id, created_at)
);
CREATE INDEX IF NOT EXISTS sk_shared_removed_by_end ON sk_shared_removed (until);
CREATE TABLE IF NOT EXISTS sk_shared_agent_services (
    agent text NOT NULL, session_id text NOT NULL, service_id text NOT NULL, until timestamptz NOT NULL,
    PRIMARY KEY (agent, session_id, service_id)
);
CREATE TABLE IF NOT EXISTS sk_shared_tokens (id text PRIMARY KEY, is_revoked boolean NOT NULL, record text NOT NULL);
CREATE SEQUENCE IF NOT EXISTS sk_shared_tokens_version;
CREATE TABLE IF NOT EXISTS sk_shared_nodes (name text PRIMARY KEY, entry text NOT NULL, until timestamptz NOT NULL);
