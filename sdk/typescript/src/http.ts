// One request and its answer, over a Unix socket or TCP, with nothing but Node.
import http from "node:http";
import type { Address } from "./daemon.js";
import { DaemonUnavailable, ShellkeepError, type Problem } from "./errors.js";

export interface Request {
  method: string;
  path: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  signal?: AbortSignal;
}

export interface Answer {
  status: number;
  headers: http.IncomingHttpHeaders;
  body: Buffer;
}

/** One event of a `text/event-stream`. */
export interface ServerEvent {
  event: string;
  data: string;
}

/** Connections that are reused; unreferenced while idle, so that they keep no program running. */
export function pool(): http.Agent {
  return new http.Agent({ keepAlive: true });
}

/** Whether no daemon listens, so that one may be started. */
export function nobodyListens(error: unknown): boolean {
  return ["ENOENT", "ECONNREFUSED"].includes((error as NodeJS.ErrnoException).code ?? "");
}

/** Whether a connection broke before the answer was complete. */
export function dropped(error: unknown): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  return ["ECONNRESET", "EPIPE"].includes(code ?? "") || message === "aborted";
}

/** Sends a request and returns when the headers of the answer are there. Refusals are thrown. */
export async function open(agent: http.Agent, to: Address, request: Request): Promise<http.IncomingMessage> {
  const { token, ...address } = to;
  const answer = await new Promise<http.IncomingMessage>((resolve, reject) => {
    const { method, path, body, signal } = request;
    const headers: http.OutgoingHttpHeaders = { ...request.headers };
    if (token) headers["Authorization"] = `Bearer ${token}`;
    if (body !== undefined) headers["Content-Length"] = Buffer.byteLength(body);
    const sent = http.request({ ...address, agent, method, path, headers, ...(signal ? { signal } : {}) }, resolve);
    sent.on("error", reject);
    sent.end(body);
  });
  if ((answer.statusCode ?? 0) < 400) return answer;
  throw refusal(answer.statusCode ?? 0, await whole(answer));
}

function refusal(status: number, body: Buffer): Error {
  try {
    const problem = JSON.parse(body.toString()) as Problem;
    if (typeof problem.code === "string") return new ShellkeepError(problem);
  } catch {
    // Not one of ours; said below.
  }
  return new DaemonUnavailable(`what answered is not a shellkeep daemon: status ${status}`);
}

export async function whole(answer: http.IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part as Buffer);
  if (!answer.complete) throw Object.assign(new Error("aborted"), { code: "ECONNRESET" });
  return Buffer.concat(parts);
}

/** The events of a stream. Leaving the loop closes the connection. */
export async function* events(answer: http.IncomingMessage): AsyncGenerator<ServerEvent, void, void> {
  answer.setEncoding("utf8");
  let rest = "";
  for await (const part of answer) {
    const blocks = (rest + (part as string)).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const event = parse(block);
      if (event) yield event;
    }
  }
  if (!answer.complete) throw Object.assign(new Error("aborted"), { code: "ECONNRESET" });
}

function parse(block: string): ServerEvent | undefined {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trimStart();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length > 0 ? { event, data: data.join("\n") } : undefined;
}
