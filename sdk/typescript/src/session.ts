// A session: commands, files of its workspace, keyed values, events. It holds a name, never a process.
import { randomUUID } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import { setTimeout } from "node:timers/promises";
import type { Client, Schemas } from "./client.js";
import { ShellkeepError } from "./errors.js";
import { dropped, events } from "./http.js";

export type RunResult = Schemas["RunResponse"];
export type RunOptions = Omit<Schemas["RunRequest"], "command" | "blocking"> & {
  /** Interrupts the command when it is aborted. */
  signal?: AbortSignal;
};
/** A piece of a command's output, as it is written. */
export interface Chunk {
  stream: "stdout" | "stderr";
  text: string;
}

/** A part of an output as the daemon sends it: with its bytes where they are not UTF-8. */
interface Piece {
  text: string;
  base64?: string | null;
}

function bytes({ text, base64 }: Piece): Buffer {
  return base64 ? Buffer.from(base64, "base64") : Buffer.from(text);
}

/** How often a run is requested again after a broken connection. The request id ensures that it runs once. */
const ATTEMPTS = 5;
/** The pauses, in milliseconds, in which a request that was sent and aborted arrives. */
const ARRIVAL = [0, 50, 200];

export class Session {
  readonly #client: Client;
  readonly id: string;

  constructor(client: Client, id: string) {
    this.#client = client;
    this.id = id;
  }

  /** Runs a command and waits for its end. A non-zero exit is a result, not an error. */
  async run(command: string, options: RunOptions = {}): Promise<RunResult> {
    const { signal, body } = this.#request(command, options);
    return await this.#interruptible(body, signal, async () => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await this.#client.call("post", "/v1/sessions/{session_id}/run", { path: this.#path, body, signal });
        } catch (error) {
          if (attempt === ATTEMPTS || signal?.aborted || !dropped(error)) throw error;
        }
      }
    });
  }

  /** Runs a command; the loop gets its output as it is written, and the generator returns the result. */
  async *stream(command: string, options: RunOptions = {}): AsyncGenerator<Chunk, RunResult, void> {
    const { signal, body } = this.#request(command, options);
    const seen = { stdout: 0, stderr: 0 };
    let ended = false;
    try {
      const answer = await this.#client.open("post", "/v1/sessions/{session_id}/run", {
        path: this.#path,
        body,
        signal,
        headers: { Accept: "text/event-stream" },
      });
      for await (const { event, data } of events(answer)) {
        if (event === "result") {
          ended = true;
          return JSON.parse(data) as RunResult;
        }
        if (event === "stdout" || event === "stderr") {
          const piece = JSON.parse(data) as Piece;
          seen[event] += bytes(piece).length;
          yield { stream: event, text: piece.text };
        }
      }
    } catch (error) {
      if (signal?.aborted || !dropped(error)) throw error;
    } finally {
      if (!ended && (signal?.aborted ?? false)) await this.#interrupt(body);
    }
    // The stream broke, not the command: its result is requested with the same request id, and then what was not streamed.
    const result = await this.run(command, { ...options, request_id: body.request_id ?? null });
    for (const stream of ["stdout", "stderr"] as const) yield* this.#rest(result.run_id, stream, seen[stream], signal);
    return result;
  }

  /** What is kept of a run's output, from an offset. A page may end in the middle of a character. */
  async *#rest(runId: string, stream: Chunk["stream"], from: number, signal: AbortSignal | undefined): AsyncGenerator<Chunk, void, void> {
    const decoder = new StringDecoder("utf8");
    for (let offset = from; ; ) {
      const page = await this.#client.call("get", "/v1/sessions/{session_id}/runs/{run_id}/output", {
        path: { ...this.#path, run_id: runId },
        query: { stream, offset },
        signal,
      });
      offset = page.next_offset;
      const isLast = offset >= page.total;
      const text = decoder.write(bytes(page)) + (isLast ? decoder.end() : "");
      if (text !== "") yield { stream, text };
      if (isLast) return;
    }
  }

  /** Starts a command and returns at once; `wait` on the client's `runs` route gets its result. */
  async start(command: string, options: Omit<RunOptions, "signal"> = {}): Promise<RunResult> {
    const { body } = this.#request(command, options);
    return await this.#client.call("post", "/v1/sessions/{session_id}/run", {
      path: this.#path,
      body: { ...body, blocking: false },
    });
  }

  /** The result of a run, waiting up to `seconds` for its end. */
  async wait(runId: string, seconds: number): Promise<RunResult> {
    return await this.#client.call("get", "/v1/sessions/{session_id}/runs/{run_id}", {
      path: { ...this.#path, run_id: runId },
      query: { wait: seconds },
    });
  }

  async info(): Promise<Schemas["Session"]> {
    return await this.#client.call("get", "/v1/sessions/{session_id}", { path: this.#path });
  }

  async record(eventType: string, data: Record<string, unknown>): Promise<number> {
    const posted = await this.#client.call("post", "/v1/sessions/{session_id}/events", {
      path: this.#path,
      body: { event_type: eventType, data },
    });
    return posted.seq;
  }

  async fork(options: Schemas["ForkRequest"] = {}): Promise<Session> {
    const forked = await this.#client.call("post", "/v1/sessions/{session_id}/fork", { path: this.#path, body: options });
    return new Session(this.#client, forked.session_id);
  }

  async rewind(to: Schemas["RewindRequest"]["to"]): Promise<Schemas["RewindResponse"]> {
    return await this.#client.call("post", "/v1/sessions/{session_id}/rewind", { path: this.#path, body: { to } });
  }

  async delete(): Promise<void> {
    await this.#client.call("delete", "/v1/sessions/{session_id}", { path: this.#path });
  }

  get #path(): { session_id: string } {
    return { session_id: this.id };
  }

  #request(command: string, { signal, ...rest }: RunOptions): { signal: AbortSignal | undefined; body: Schemas["RunRequest"] } {
    return { signal, body: { ...rest, command, request_id: rest.request_id ?? randomUUID() } };
  }

  async #interruptible<T>(body: Schemas["RunRequest"], signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (signal?.aborted) await this.#interrupt(body);
      throw error;
    }
  }

  /** Hanging up leaves a command running. A signal finds it by the request id, also while it waits for its turn. */
  async #interrupt(body: Schemas["RunRequest"]): Promise<void> {
    for (const pause of ARRIVAL) {
      await setTimeout(pause);
      try {
        await this.#client.call("post", "/v1/sessions/{session_id}/runs/{run_id}/signal", {
          path: { ...this.#path, run_id: body.request_id ?? "" },
          body: { signal: "INT" },
        });
        return;
      } catch (error) {
        // Otherwise it has ended, or no daemon answers: the caller learns that it was aborted, and nothing else.
        if (!(error instanceof ShellkeepError) || error.code !== "run_not_found") return;
      }
    }
  }
}
