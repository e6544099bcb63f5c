CREATE TABLE IF NOT EXISTS sk_copies (
  session_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, begun BIGINT NOT NULL,
  line_count BIGINT NOT NULL, ends_before BIGINT,
  PRIMARY KEY (session_id, source)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
