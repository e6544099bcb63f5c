PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('applied','{"segment":2,"offset":0}');
INSERT INTO meta VALUES('format','1');
INSERT INTO meta VALUES('id','0123456789abcdef0123456789abcdef');
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, agent TEXT, last_active_at TEXT NOT NULL, cwd BLOB NOT NULL, generation INTEGER NOT NULL,
    seq INTEGER NOT NULL, pending TEXT NOT NULL, rest TEXT NOT NULL, damaged TEXT, unrest INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
INSERT INTO sessions VALUES('golden','ann','2023-11-14T22:13:20.000006Z',X'2f656c73657768657265',1,6,'{"active_runs":{"r6":{"request_id":"req-2","command":"true","started_at":"2023-11-14T22:13:20.000006Z","detached":false}},"processes":[],"pending_notices":[{"code":"shell_replaced","message":"a new shell"}]}','{"cwd":"/elsewhere","directory_stack":[],"variables":{},"functions":{},"aliases":{},"options":null,"traps":{},"umask":null,"limits":{},"positional":[],"argv0":null,"disabled_builtins":[],"status":0}',NULL,1);
INSERT INTO sessions VALUES('other',NULL,'2023-11-14T22:13:20.000001Z',X'2f7374617274',0,1,'{"active_runs":{},"processes":[],"pending_notices":[]}','{"cwd":"/start","directory_stack":[],"variables":{},"functions":{},"aliases":{},"options":null,"traps":{},"umask":null,"limits":{},"positional":[],"argv0":null,"disabled_builtins":[],"status":0}',NULL,0);
CREATE TABLE origins (
    session TEXT PRIMARY KEY, created_at TEXT NOT NULL, meta TEXT NOT NULL, first_shell TEXT NOT NULL
);
INSERT INTO origins VALUES('golden','2023-11-14T22:13:20.000001Z','{"session_id":"golden","agent":"ann","agent_config":{"depth":1,"model":"m"},"created_at":"2023-11-14T22:13:20.000001Z","workspace":"/start"}','{"cwd":"/start","directory_stack":[],"variables":{"HOME":{"attributes":"x","value":"/home"}},"functions":{"f":{"source":"f () { :; }"}},"aliases":{},"options":null,"traps":{},"umask":null,"limits":{},"positional":[],"argv0":null,"disabled_builtins":[],"status":0}');
INSERT INTO origins VALUES('other','2023-11-14T22:13:20.000001Z','{"session_id":"other","agent_config":{"depth":1,"model":"m"},"created_at":"2023-11-14T22:13:20.000001Z","workspace":"/start"}','{"cwd":"/start","directory_stack":[],"variables":{"HOME":{"attributes":"x","value":"/home"}},"functions":{"f":{"source":"f () { :; }"}},"aliases":{},"options":null,"traps":{},"umask":null,"limits":{},"positional":[],"argv0":null,"disabled_builtins":[],"status":0}');
CREATE TABLE shell_entries (
    session TEXT NOT NULL, kind TEXT NOT NULL, name BLOB NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (session, kind, name)
) WITHOUT ROWID;
INSERT INTO shell_entries VALUES('golden','variable',X'41','{"value":"1"}');
INSERT INTO shell_entries VALUES('golden','variable',X'484f4d45','{"attributes":"x","value":"/home"}');
INSERT INTO shell_entries VALUES('other','function',X'66','{"source":"f () { :; }"}');
INSERT INTO shell_entries VALUES('other','variable',X'484f4d45','{"attributes":"x","value":"/home"}');
CREATE TABLE runs (
    session TEXT NOT NULL, seq INTEGER NOT NULL, run_id TEXT NOT NULL, request_id TEXT, command BLOB NOT NULL,
    started_at TEXT NOT NULL, result TEXT, by_token TEXT, PRIMARY KEY (session, seq)
) WITHOUT ROWID;
INSERT INTO runs VALUES('golden',3,'r3','req-1',X'74727565','2023-11-14T22:13:20.000003Z','{"status":"exited","exit_code":0,"stdout":{"total":3,"kept":3,"inline":"hi\n"},"stderr":{"total":0,"kept":0},"duration_us":42,"cwd":"/elsewhere"}',NULL);
INSERT INTO runs VALUES('golden',6,'r6','req-2',X'74727565','2023-11-14T22:13:20.000006Z',NULL,NULL);
CREATE INDEX sessions_unrest ON sessions (id) WHERE unrest = 1;
CREATE INDEX sessions_of_agent ON sessions (agent, id);
CREATE INDEX runs_by_request ON runs (session, request_id) WHERE request_id IS NOT NULL;
COMMIT;
