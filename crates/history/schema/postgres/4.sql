CREATE TABLE IF NOT EXISTS sk_copies (
  session_id text NOT NULL, source text NOT NULL, begun bigint NOT NULL, line_count bigint NOT NULL,
  ends_before bigint,
  PRIMARY KEY (session_id, source)
);
