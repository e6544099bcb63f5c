CREATE TABLE IF NOT EXISTS sk_sources (
  source VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, node VARCHAR(64) NOT NULL,
  segment BIGINT NOT NULL, position BIGINT NOT NULL, updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS sk_records (
  session_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, seq BIGINT NOT NULL, epoch BIGINT NOT NULL,
  at DATETIME(6) NOT NULL, type VARCHAR(190) NOT NULL, line JSON NOT NULL, exact LONGBLOB,
  PRIMARY KEY (session_id, seq), KEY sk_records_type_at (type, at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS sk_superseded (
  session_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, seq BIGINT NOT NULL, epoch BIGINT NOT NULL,
  at DATETIME(6) NOT NULL, type VARCHAR(190) NOT NULL, line JSON NOT NULL, exact LONGBLOB,
  superseded_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), PRIMARY KEY (session_id, seq, epoch, at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS sk_sessions (
  session_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, agent VARCHAR(160),
  created_at DATETIME(6), last_active_at DATETIME(6) NOT NULL, seq BIGINT NOT NULL, epoch BIGINT NOT NULL,
  node VARCHAR(64) NOT NULL, ended_at DATETIME(6), deleted_at DATETIME(6), deleted_by VARCHAR(190),
  KEY sk_sessions_agent (agent, last_active_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS sk_messages (
  session_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, seq_id BIGINT NOT NULL, seq BIGINT NOT NULL,
  epoch BIGINT NOT NULL, role TEXT NOT NULL, content JSON NOT NULL, at DATETIME(6) NOT NULL,
  PRIMARY KEY (session_id, seq_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS sk_runs (
  session_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  run_id VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, seq BIGINT NOT NULL, epoch BIGINT NOT NULL,
  request_id TEXT, command LONGBLOB, command_text LONGTEXT, by_token TEXT, started_at DATETIME(6),
  finished_at DATETIME(6), status VARCHAR(32) NOT NULL, exit_code INT, `signal` VARCHAR(32), duration_us BIGINT,
  stdout_bytes BIGINT, stderr_bytes BIGINT, PRIMARY KEY (session_id, run_id),
  KEY sk_runs_request (session_id, request_id(128)), KEY sk_runs_started (started_at)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
