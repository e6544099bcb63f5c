CREATE OR REPLACE VIEW sk_v_messages AS
  SELECT m.session_id, s.agent, m.seq_id, m.role, m.content, m.at
  FROM sk_messages m LEFT JOIN sk_sessions s ON s.session_id = m.session_id;
CREATE OR REPLACE VIEW sk_v_commands AS
  SELECT r.session_id, s.agent, r.by_token, r.run_id, r.seq, r.command_text AS command, r.status, r.exit_code,
    r.started_at, r.finished_at, r.duration_us
  FROM sk_runs r LEFT JOIN sk_sessions s ON s.session_id = r.session_id;
CREATE OR REPLACE VIEW sk_v_failed_commands AS
  SELECT * FROM sk_v_commands WHERE status <> 'running' AND (exit_code IS NULL OR exit_code <> 0 OR status <> 'exited');
CREATE OR REPLACE VIEW sk_v_tool_calls AS
  SELECT r.session_id, s.agent, r.seq, r.at, JSON_UNQUOTE(JSON_EXTRACT(r.line, '$.event.noted.data.tool_name')) AS tool,
    CASE WHEN JSON_TYPE(JSON_EXTRACT(r.line, '$.event.noted.data.duration')) IN ('INTEGER', 'DOUBLE', 'DECIMAL')
      THEN JSON_EXTRACT(r.line, '$.event.noted.data.duration') + 0e0 END AS duration,
    COALESCE(JSON_TYPE(JSON_EXTRACT(r.line, '$.event.noted.data.error')), 'NULL') <> 'NULL' AS failed
  FROM sk_records r LEFT JOIN sk_sessions s ON s.session_id = r.session_id WHERE r.type = 'tool_call';
CREATE OR REPLACE VIEW sk_v_llm_calls AS
  SELECT r.session_id, s.agent, r.seq, r.at,
    COALESCE(JSON_EXTRACT(r.line, '$.event.noted.data.token_usage.input_tokens'),
      JSON_EXTRACT(r.line, '$.event.noted.data.token_usage.prompt_tokens')) AS input_tokens,
    COALESCE(JSON_EXTRACT(r.line, '$.event.noted.data.token_usage.output_tokens'),
      JSON_EXTRACT(r.line, '$.event.noted.data.token_usage.completion_tokens')) AS output_tokens,
    JSON_EXTRACT(r.line, '$.event.noted.data.token_usage.total_tokens') AS total_tokens
  FROM sk_records r LEFT JOIN sk_sessions s ON s.session_id = r.session_id WHERE r.type = 'llm_call';
CREATE OR REPLACE VIEW sk_v_idle_sessions AS
  SELECT session_id, agent, node, last_active_at, TIMESTAMPDIFF(DAY, last_active_at, UTC_TIMESTAMP()) AS idle_days
  FROM sk_sessions WHERE ended_at IS NULL AND deleted_at IS NULL;
