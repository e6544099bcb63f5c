// Finds the program and the daemon. The program itself knows the rules, so it is called for them.
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { DaemonUnavailable } from "./errors.js";

const run = promisify(execFile);

/** Prefix of an agent's token. Any other token belongs to the host, which needs none on the socket. */
const AGENT_TOKEN = "sk_";

/** Where a daemon is. Without any of these, the environment and the program's configuration decide, as for the CLI. */
export interface Where {
  /** `http://HOST:PORT`, or `unix:/PATH` for a socket */
  url?: string;
  /** Path of the daemon's Unix socket. */
  socket?: string;
  /** The daemon's data directory. */
  data?: string;
  token?: string;
  /** Whether to start a daemon on the socket if none runs; true by default. */
  start?: boolean;
}

/** Where to connect, as `http.request` wants it. */
export interface Address {
  socketPath?: string;
  host?: string;
  port?: number;
  token?: string;
}

/** The shellkeep program: `SHELLKEEP_BIN`, the package for this platform, or the one on `PATH`. */
export function program(): string {
  const named = process.env["SHELLKEEP_BIN"];
  if (named) return named;
  try {
    return createRequire(import.meta.url).resolve(`@shellkeep/cli-${process.platform}-${process.arch}/shellkeep`);
  } catch {
    return "shellkeep";
  }
}

async function ask(args: string[]): Promise<string> {
  try {
    return (await run(program(), args)).stdout;
  } catch (error) {
    const { code, stderr } = error as { code?: string | number; stderr?: string };
    if (code === "ENOENT") {
      throw new DaemonUnavailable(`'${program()}' was not found; install it, or set SHELLKEEP_BIN to its path`);
    }
    throw new DaemonUnavailable(`${stderr?.trim() || error}`);
  }
}

function flags({ socket, data }: Where): string[] {
  return [...(socket ? ["--socket", socket] : []), ...(data ? ["--data", data] : [])];
}

/** The path in `unix:/PATH`, which is how a daemon names its socket, or in `unix:///PATH`. */
function socketIn(url: string): string | undefined {
  if (!url.startsWith("unix:")) return undefined;
  const path = url.slice("unix:".length).replace(/^\/\//, "");
  return path.startsWith("/") && path.length > 1 ? path : undefined;
}

/** Where the daemon listens. */
export async function find(where: Where): Promise<Address> {
  const environment = process.env["SHELLKEEP_TOKEN"];
  const url = where.url ?? (where.socket || where.data ? undefined : process.env["SHELLKEEP_URL"]);
  const named = url === undefined ? undefined : socketIn(url);
  if (url !== undefined && named === undefined) {
    const { protocol, hostname, port } = URL.canParse(url) ? new URL(url) : { protocol: "", hostname: "", port: "" };
    if (protocol !== "http:") {
      const forms = "write http://HOST:PORT, or unix:/PATH for a socket";
      throw new DaemonUnavailable(`'${url}' is not the address of a daemon; ${forms}`);
    }
    const token = where.token ?? environment ?? (await kept(where));
    return { host: hostname, port: Number(port || 80), ...(token ? { token } : {}) };
  }
  const token = where.token ?? (environment?.startsWith(AGENT_TOKEN) ? environment : undefined);
  const socketPath = named ?? where.socket ?? (await setting(where, "socket"));
  return { socketPath, ...(token ? { token } : {}) };
}

async function setting(where: Where, name: "socket" | "data"): Promise<string> {
  const { settings } = JSON.parse(await ask(["config", "--json", ...flags(where)])) as {
    settings: Record<string, { value: string }>;
  };
  const found = settings[name];
  if (!found) throw new DaemonUnavailable(`'${program()}' has no setting '${name}'; install the version of this package`);
  return found.value;
}

/** The host's token in the data directory, if this user may read it. */
async function kept(where: Where): Promise<string | undefined> {
  try {
    return (await readFile(join(await setting(where, "data"), "token"), "utf8")).trim();
  } catch {
    return undefined;
  }
}

/** Starts a daemon on the socket, as every command of the program does. */
export async function start(where: Where): Promise<void> {
  await ask(["sessions", "ls", "--json", ...flags(where)]);
}
