// Drives the built program: a daemon of its own, over its socket and over TCP.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, createServer } from "node:net";
import { createInterface } from "node:readline";
import { after, before, suite, test } from "node:test";
import { Client, DaemonUnavailable, program, ShellkeepError, type Chunk } from "../src/index.js";

let room: string;
let data: string;
let socket: string;
let url: string;
let daemon: ChildProcess;

/** Starts a daemon and returns when both of its doors are open. */
async function serve(listen: string): Promise<string> {
  daemon = spawn(program(), ["serve", "--data", data, "--socket", socket, "--listen", listen], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  for await (const line of createInterface({ input: daemon.stdout! })) {
    const found = /^listening on (http:\S+)/.exec(line);
    if (found) return found[1]!;
  }
  throw new Error("the daemon ended before it listened");
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const gone = once(daemon, "exit");
  daemon.kill(signal);
  await gone;
}

before(async () => {
  room = await mkdtemp(join(tmpdir(), "shellkeep-ts-"));
  data = join(room, "data");
  socket = join(room, "s.sock");
  url = await serve("127.0.0.1:0");
});

after(async () => {
  await end("SIGTERM");
  await rm(room, { recursive: true, maxRetries: 10 });
});

async function clients(): Promise<Record<string, Client>> {
  const token = (await readFile(join(data, "token"), "utf8")).trim();
  return { socket: new Client({ socket, start: false }), tcp: new Client({ url, token }) };
}

for (const door of ["socket", "tcp"] as const) {
  suite(door, () => {
    let client: Client;
    before(async () => {
      client = (await clients())[door]!;
    });
    after(() => client.close());

    test("a session keeps what its commands did", async () => {
      const session = await client.session(`${door}-keeps`);
      await session.run("cd /tmp; export NAME=ann; greet() { echo hello $NAME; }");
      const again = await client.session(`${door}-keeps`);
      const result = await again.run("pwd; greet");
      assert.equal(result.stdout, "/tmp\nhello ann\n");
      assert.ok((await client.sessions()).some(({ session_id }) => session_id === session.id));
    });

    test("a non-zero exit is a result, and the streams are apart", async () => {
      const session = await client.session(`${door}-exit`);
      const result = await session.run("echo out; echo err >&2; (exit 3)");
      assert.deepEqual([result.exit_code, result.stdout, result.stderr], [3, "out\n", "err\n"]);
    });

    test("a refusal has a code and says what to do", async () => {
      const session = await client.session(`${door}-refused`);
      await assert.rejects(session.run("true", { timeout: -1 }), (error: ShellkeepError) => {
        assert.ok(error instanceof ShellkeepError);
        assert.deepEqual([error.code, error.status], ["invalid_request", 400]);
        return true;
      });
      await session.delete();
      await assert.rejects(session.info(), { name: "ShellkeepError", code: "session_not_found", status: 404 });
    });

    test("output is streamed as it is written", async () => {
      const session = await client.session(`${door}-stream`);
      const stream = session.stream("echo one; read line; echo two >&2", { stdin: "go\n" });
      const chunks: Chunk[] = [];
      for (;;) {
        const next = await stream.next();
        if (next.done) {
          assert.equal(next.value.exit_code, 0);
          break;
        }
        chunks.push(next.value);
      }
      assert.deepEqual(chunks, [
        { stream: "stdout", text: "one\n" },
        { stream: "stderr", text: "two\n" },
      ]);
    });

    test("an aborted run is interrupted, and the session goes on", async () => {
      const session = await client.session(`${door}-abort`);
      await session.run("mkfifo started");
      const stop = new AbortController();
      const running = session.run("echo > started; sleep 600", { signal: stop.signal, timeout: 900, request_id: "long" });
      const other = await client.session(`${door}-other`);
      await other.run(`read < '${(await session.info()).workspace}/started'`);
      stop.abort();
      await assert.rejects(running, { name: "AbortError" });
      assert.equal((await session.run("echo next")).stdout, "next\n");
      const interrupted = await session.run("echo > started; sleep 600", { timeout: 900, request_id: "long" });
      assert.equal(interrupted.status, "interrupted");
    });

    test("an aborted run that waits for its turn is not started", async () => {
      const session = await client.session(`${door}-queue`);
      const busy = await session.start("sleep 600", { timeout: 900 });
      const run = session.run("touch queued", { signal: AbortSignal.timeout(500), request_id: "queued" });
      await assert.rejects(run, { name: "AbortError" });
      await client.call("post", "/v1/sessions/{session_id}/runs/{run_id}/signal", {
        path: { session_id: session.id, run_id: busy.run_id },
        body: { signal: "INT" },
      });
      await session.wait(busy.run_id, 60);
      assert.equal((await session.run("ls")).stdout, "");
    });

    test("bytes that are not UTF-8, and ten MiB of output", async () => {
      const session = await client.session(`${door}-bytes`);
      const odd = await session.run("printf 'a\\xffb'");
      assert.deepEqual([...Buffer.from(odd.stdout_base64 ?? "", "base64")], [0x61, 0xff, 0x62]);
      const large = await session.run("head -c 10485760 /dev/zero | tr '\\0' x", { max_output: 16777216 });
      assert.equal(large.stdout.length, 10485760);
    });

    test("a fork and a rewind", async () => {
      const session = await client.session(`${door}-travel`);
      const { seq } = await session.run("echo first > file");
      await session.run("echo second > file");
      const fork = await session.fork({ at: seq });
      assert.equal((await fork.run("cat file")).stdout, "first\n");
      await session.rewind(seq);
      assert.equal((await session.run("cat file")).stdout, "first\n");
    });

    test("an event of one's own is recorded", async () => {
      const session = await client.session(`${door}-events`);
      const seq = await session.record("user_input", { message: "hello" });
      const { events } = await client.call("get", "/v1/sessions/{session_id}/events", {
        path: { session_id: session.id },
        query: { type: "user_input" },
      });
      assert.deepEqual(events.map((event) => [event.seq, "data" in event ? event.data : undefined]), [[seq, { message: "hello" }]]);
    });
  });
}

test("a daemon is started, also after it was killed, and a stream goes on to the run's end", async () => {
  const place = join(room, "started");
  const pid = async () => Number(await readFile(join(place, "lock"), "utf8"));
  const client = new Client({ data: place });
  const session = await client.session("killed");
  await session.run("export KEPT=yes");
  const stream = session.stream("echo before; sleep 600", { timeout: 900 });
  assert.deepEqual((await stream.next()).value, { stream: "stdout", text: "before\n" });
  process.kill(await pid(), "SIGKILL");
  const last = await stream.next();
  assert.equal(last.done, true);
  assert.equal((last.value as { status: string }).status, "lost");
  assert.equal((await session.run("echo $KEPT")).stdout, "yes\n");

  // What the client started is no child of this process; the end of a stream says that it stops.
  const following = await client.open("get", "/v1/sessions/{session_id}/events", {
    path: { session_id: session.id },
    headers: { Accept: "text/event-stream" },
  });
  const closed = once(following.resume(), "close");
  process.kill(await pid(), "SIGTERM");
  await closed;
  client.close();
});

/** A way to the daemon that cuts the first stream as soon as what was streamed has this text. */
async function cutting(text: string): Promise<{ path: string; cuts: () => number; close: () => Promise<void> }> {
  const path = join(room, "cut.sock");
  let cuts = 0;
  const server = createServer((near) => {
    const far = connect(socket);
    let asked = "";
    let answered = "";
    near.on("data", (data) => {
      asked += data.toString();
      far.write(data);
    });
    far.on("data", (data) => {
      answered += data.toString();
      if (cuts === 0 && asked.includes("text/event-stream") && answered.includes(text)) {
        cuts += 1;
        near.end(data);
        far.destroy();
      } else {
        near.write(data);
      }
    });
    for (const [one, other] of [[near, far], [far, near]] as const) {
      one.on("error", () => other.destroy());
      one.on("close", () => other.end());
    }
  });
  server.listen(path);
  await once(server, "listening");
  return { path, cuts: () => cuts, close: async () => void (await once(server.close(), "close")) };
}

test("a stream that broke has all output", async () => {
  // What was written after the connection broke was in the result only, and cut to its size there.
  const way = await cutting("three");
  const client = new Client({ socket: way.path, start: false });
  const session = await client.session("cut");
  const { workspace } = await session.info();
  const command = "echo one; printf '\\xff' >&2; echo three; until [ -e go ]; do sleep 0.05; done; yes é | head -n 600000; echo end >&2";
  const stream = session.stream(command, { max_output: 1000 });
  const told = { stdout: "", stderr: "" };
  for (;;) {
    const next = await stream.next();
    if (next.done) {
      assert.equal(next.value.exit_code, 0);
      break;
    }
    told[next.value.stream] += next.value.text;
    if (told.stdout.endsWith("three\n")) {
      await writeFile(join(workspace, "go"), "");
    }
  }
  assert.equal(told.stdout, `one\nthree\n${"é\n".repeat(600000)}`);
  assert.equal(told.stderr, "\ufffdend\n");
  assert.equal(way.cuts(), 1);
  client.close();
  await way.close();
});

test("no daemon and a wrong address say what to do", async () => {
  const nobody = new Client({ socket: join(room, "nobody.sock"), start: false });
  await assert.rejects(nobody.session("x"), (error: Error) => {
    assert.ok(error instanceof DaemonUnavailable);
    assert.match(error.message, /shellkeep serve/);
    return true;
  });
  for (const wrong of ["localhost", "unix:s", "unix://s/t"]) {
    await assert.rejects(new Client({ url: wrong }).session("x"), (error: Error) => {
      assert.ok(error instanceof DaemonUnavailable);
      assert.match(error.message, /write http:\/\/HOST:PORT, or unix:\/PATH/);
      return true;
    });
  }
});

test("the address that a daemon prints is one", async () => {
  for (const address of [`unix:${socket}`, `unix://${socket}`]) {
    const client = new Client({ url: address, start: false });
    assert.equal((await (await client.session("by-address")).run("echo here")).stdout, "here\n");
    client.close();
  }
});
