// The client: any route of the daemon, with the types of its OpenAPI document.
import type http from "node:http";
import { find, start, type Address, type Where } from "./daemon.js";
import { DaemonUnavailable } from "./errors.js";
import { nobodyListens, open, pool, whole } from "./http.js";
import type { components, paths } from "./schema.js";
import { Session } from "./session.js";

export type Schemas = components["schemas"];

type Method = "get" | "post" | "put" | "delete";
type Operation<P extends keyof paths, M extends Method> = Exclude<paths[P][M], undefined>;
type Parameters<O, K extends "path" | "query"> = O extends { parameters: { [key in K]?: infer V } } ? Exclude<V, undefined> : never;
type Body<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;
type Json<R> = R extends { content: { "application/json": infer B } } ? B : never;
type Success<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201)]> : never;

/** What a request carries besides its route; a field that the route does not have cannot be given. */
export interface Call<O> {
  path?: Parameters<O, "path">;
  query?: Partial<Parameters<O, "query">>;
  body?: Body<O>;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

export class Client {
  readonly #where: Where;
  readonly #agent: http.Agent = pool();
  #address: Promise<Address> | undefined;

  constructor(where: Where = {}) {
    this.#where = where;
  }

  /** The session of this name, which is created if there is none. */
  async session(id?: string, options: Omit<Schemas["CreateSessionRequest"], "session_id"> = {}): Promise<Session> {
    const body = { ...options, ...(id === undefined ? {} : { session_id: id }) };
    const { session_id } = await this.call("post", "/v1/sessions", { body });
    return new Session(this, session_id);
  }

  async sessions(): Promise<Schemas["Session"][]> {
    const found: Schemas["Session"][] = [];
    for (let after: string | undefined; ; ) {
      const page = await this.call("get", "/v1/sessions", { query: after === undefined ? {} : { after } });
      found.push(...page.sessions);
      if (!page.next) return found;
      after = page.next;
    }
  }

  /** Calls a route and returns its JSON. */
  async call<M extends Method, P extends keyof paths>(method: M, route: P, call: Call<Operation<P, M>> = {}): Promise<Success<Operation<P, M>>> {
    const text = (await whole(await this.open(method, route, call))).toString();
    return (text === "" ? undefined : JSON.parse(text)) as Success<Operation<P, M>>;
  }

  /** Calls a route and returns when the answer begins, for streams and for bytes. */
  async open<M extends Method, P extends keyof paths>(method: M, route: P, call: Call<Operation<P, M>> = {}): Promise<http.IncomingMessage> {
    const request = {
      method: method.toUpperCase(),
      path: target(route, (call.path ?? {}) as Values, (call.query ?? {}) as Values),
      headers: { ...(call.body === undefined ? {} : { "Content-Type": "application/json" }), ...call.headers },
      ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
      ...(call.signal ? { signal: call.signal } : {}),
    };
    this.#address ??= find(this.#where);
    const address = await this.#address;
    try {
      return await open(this.#agent, address, request);
    } catch (error) {
      if (!nobodyListens(error)) throw error;
      if (!address.socketPath || this.#where.start === false) {
        throw new DaemonUnavailable(`no daemon listens at ${address.socketPath ?? `${address.host}:${address.port}`}; start one with 'shellkeep serve'`);
      }
      await start({ ...this.#where, socket: address.socketPath });
      return await open(this.#agent, address, request);
    }
  }

  /** Closes idle connections. Sessions stay. */
  close(): void {
    this.#agent.destroy();
  }
}

type Values = Record<string, string | number | boolean | null | undefined>;

function target(route: string, path: Values, query: Values): string {
  const filled = route.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(path[name])));
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null) asked.set(name, String(value));
  return asked.size > 0 ? `${filled}?${asked}` : filled;
}
