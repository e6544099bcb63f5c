// shellkeep for Node: durable shell sessions, over the daemon's socket or TCP.
export { Client, type Schemas } from "./client.js";
export { program, type Where } from "./daemon.js";
export { DaemonUnavailable, ShellkeepError, type Problem } from "./errors.js";
export { Session, type Chunk, type RunOptions, type RunResult } from "./session.js";
