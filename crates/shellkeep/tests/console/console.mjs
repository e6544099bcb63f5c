// Opens the console of a daemon in Chromium, and collects everything that a page of it must never do. The Rust test that
// runs a script says in the environment where the daemon is.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const { SHELLKEEP_BIN, SHELLKEEP_SOCKET, SHELLKEEP_TOOLS } = process.env;
const require = createRequire(`${SHELLKEEP_TOOLS}/`);
const { chromium } = require('playwright-core');
const { source: AXE } = require('axe-core');

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Runs in every document before its own scripts. */
function collect() {
  addEventListener('securitypolicyviolation', (event) => console.error(`violation: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
}

/** A fresh link: `shellkeep console --print`. */
export async function link(...flags) {
  const { stdout } = await promisify(execFile)(SHELLKEEP_BIN, ['console', '--print', '--socket', SHELLKEEP_SOCKET, ...flags]);
  return stdout.trim();
}

const agent = new http.Agent({ keepAlive: true });

/** Asks the daemon as the host. */
export function api(method, path, body) {
  const text = body === undefined ? undefined : JSON.stringify(body);
  const headers = text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  return new Promise((resolve, reject) => {
    const request = http.request({ agent, socketPath: SHELLKEEP_SOCKET, method, path, headers }, (response) => {
      const parts = [];
      response.on('data', (part) => parts.push(part));
      response.on('end', () => {
        const answer = Buffer.concat(parts).toString();
        resolve({ status: response.statusCode, json: answer ? JSON.parse(answer) : null });
      });
    });
    request.on('error', reject);
    request.end(text);
  });
}

/** Does something many times, some at once. */
export async function many(count, act) {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      next += 1;
      await act(next - 1);
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

/** Runs a command and returns its result. */
export async function run(session, command) {
  const { status, json } = await api('POST', `/v1/sessions/${session}/run`, { command });
  assert.equal(status, 200, JSON.stringify(json));
  return json;
}

let answers = null;
/** Asks the Rust test for something that only it can do, and waits until it is done. */
export async function ask(order) {
  answers ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log(order);
  await answers.next();
}

/** Tells a figure to the person who reads the test's output. */
export function figure(name, value) {
  console.log(`figure: ${name}: ${value}`);
}

/** The middle and the largest of some times. */
export function times(list) {
  const sorted = [...list].sort((one, other) => one - other);
  return `middle ${Math.round(sorted[Math.floor(sorted.length / 2)])}, most ${Math.round(sorted.at(-1))}`;
}

/** A time of the daemon, in milliseconds since 1970 with a fraction. */
export function instant(text) {
  const [, whole, fraction] = /^([^.]+)(\.\d+)?Z$/.exec(text);
  return Date.parse(`${whole}Z`) + Number(fraction ?? 0) * 1000;
}

/**
 * Watches a page for a text. The result is asked for when it was there: in the document, and when the frame with it was
 * drawn, in milliseconds since 1970 by the page's finest clock. The daemon's clock is that of the same machine.
 */
export async function watch(page, selector, text) {
  await page.evaluate(([where, what]) => {
    // The wall clock has whole milliseconds, so the other one is set by it when it turns.
    const before = Date.now();
    while (Date.now() === before);
    const offset = Date.now() - performance.now();
    window.shown = new Promise((resolve) => {
      const watcher = new MutationObserver(() => {
        if (![...document.querySelectorAll(where)].some((one) => one.textContent.includes(what))) return;
        watcher.disconnect();
        const changed = offset + performance.now();
        // A message that is sent before a frame is drawn arrives behind it.
        requestAnimationFrame(() => {
          const { port1, port2 } = new MessageChannel();
          port1.onmessage = () => resolve({ changed, drawn: offset + performance.now() });
          port2.postMessage(null);
        });
      });
      watcher.observe(document.body, { subtree: true, childList: true, characterData: true });
    });
  }, [selector, text]);
  return () => page.evaluate(() => window.shown);
}

/** How long it takes from a record's time until a page shows what it says, many times: in the document, and drawn. */
export async function visible(page, rounds, selector, text, act) {
  const delays = { changed: [], drawn: [] };
  for (let round = 0; round < rounds; round += 1) {
    const shown = await watch(page, selector, text(round));
    const { session, seq } = await act(round);
    const { changed, drawn } = await shown();
    const { json: { events: [{ timestamp }] } } = await api('GET', `/v1/sessions/${session}/events?after=${seq - 1}&limit=1`);
    delays.changed.push(changed - instant(timestamp));
    delays.drawn.push(drawn - instant(timestamp));
  }
  return `in the page ${times(delays.changed)}; drawn ${times(delays.drawn)}`;
}

/** A browser with one page, which has entered with a link. */
export class Tab {
  static async open({ flags = [], viewport = { width: 1360, height: 820 }, colours = 'light' } = {}) {
    const executablePath = BROWSERS.find(existsSync);
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--enable-precise-memory-info'] });
    const context = await browser.newContext({ viewport, colorScheme: colours, reducedMotion: 'reduce' });
    await context.addInitScript(collect);
    const page = await context.newPage();
    const address = await link(...flags);
    const tab = new Tab(browser, context, page, new URL(address).origin);
    await page.goto(address);
    await page.waitForSelector('html[data-live=on]');
    return tab;
  }

  constructor(browser, context, page, origin) {
    Object.assign(this, { browser, context, page, origin, faults: [] });
    page.on('console', (message) => message.type() === 'error' && this.faults.push(`${message.text()} ${message.location().url}`));
    page.on('pageerror', (error) => this.faults.push(String(error)));
    page.on('dialog', (dialog) => { this.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on('request', (request) => {
      if (new URL(request.url()).origin !== origin && !request.url().startsWith('blob:')) this.faults.push(`request to ${request.url()}`);
    });
  }

  /** Shows a state of the console, until an element is there. */
  async show(hash, selector) {
    await this.page.evaluate((next) => { location.hash = next; }, hash);
    await this.page.waitForSelector(selector);
  }

  /** What axe finds wrong, a line each. */
  async accessibility() {
    if (!this.axe) {
      const session = await this.context.newCDPSession(this.page);
      await session.send('Runtime.evaluate', { expression: AXE });
      this.axe = true;
    }
    const { violations } = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    return violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.target.join(' ')}: ${node.any[0]?.message ?? node.all[0]?.message ?? ''}`));
  }

  /** Nothing happened so far that must not happen. */
  check(where) {
    assert.deepEqual(this.faults, [], where);
  }

  async close() {
    await this.browser.close();
    // Node would wait for more of them.
    process.stdin.destroy();
    agent.destroy();
  }
}
