CREATE TABLE IF NOT EXISTS sk_sources (
  source text PRIMARY KEY, node text NOT NULL, segment bigint NOT NULL, position bigint NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS sk_records (
  session_id text NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL, at timestamptz NOT NULL, type text NOT NULL,
  line jsonb NOT NULL, exact bytea, PRIMARY KEY (session_id, seq)
);
CREATE INDEX IF NOT EXISTS sk_records_type_at ON sk_records (type, at);
CREATE TABLE IF NOT EXISTS sk_superseded (
  session_id text NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL, at timestamptz NOT NULL, type text NOT NULL,
  line jsonb NOT NULL, exact bytea, superseded_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (session_id, seq, epoch, at)
);
CREATE TABLE IF NOT EXISTS sk_sessions (
  session_id text PRIMARY KEY, agent text, created_at timestamptz, last_active_at timestamptz NOT NULL,
  seq bigint NOT NULL, epoch bigint NOT NULL, node text NOT NULL, ended_at timestamptz, deleted_at timestamptz,
  deleted_by text
);
CREATE INDEX IF NOT EXISTS sk_sessions_agent ON sk_sessions (agent, last_active_at);
CREATE TABLE IF NOT EXISTS sk_messages (
  session_id text NOT NULL, seq_id bigint NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL, role text NOT NULL,
  content jsonb NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (session_id, seq_id)
);
CREATE TABLE IF NOT EXISTS sk_runs (
  session_id text NOT NULL, run_id text NOT NULL, seq bigint NOT NULL, epoch bigint NOT NULL, request_id text,
  command bytea, command_text text, by_token text, started_at timestamptz, finished_at timestamptz,
  status text NOT NULL, exit_code integer, signal text, duration_us bigint, stdout_bytes bigint, stderr_bytes bigint,
  PRIMARY KEY (session_id, run_id)
);
CREATE INDEX IF NOT EXISTS sk_runs_request ON sk_runs (session_id, request_id);
CREATE INDEX IF NOT EXISTS sk_runs_started ON sk_runs (started_at);
