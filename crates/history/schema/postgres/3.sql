CREATE TABLE IF NOT EXISTS sk_lines (
  session_id text NOT NULL, source text NOT NULL, seq bigint NOT NULL, hash text NOT NULL, line bytea NOT NULL,
  PRIMARY KEY (session_id, source, seq)
);
CREATE TABLE IF NOT EXISTS sk_heads (
  session_id text NOT NULL, source text NOT NULL, seq bigint NOT NULL, head text NOT NULL,
  PRIMARY KEY (session_id, source)
);
