// A page of another origin, such as a development server that an agent runs on another port of this machine. It knows
// the address of the daemon and even a token, and still cannot read, write, open a socket or frame the console.

import assert from 'node:assert/strict';
import http from 'node:http';
import { Tab, api } from './console.mjs';

const tab = await Tab.open();
const token = await tab.page.evaluate(() => sessionStorage.getItem('shellkeep-token'));
assert.ok(token);
const server = http.createServer((_, response) => response.setHeader('content-type', 'text/html').end('<!doctype html><title>dev</title>'));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const stranger = await tab.context.newPage();
await stranger.goto(`http://127.0.0.1:${server.address().port}/`);

/** Runs in the foreign page: what each attempt got. */
async function attempts({ origin, token: secret }) {
  const authorization = `Bearer ${secret}`;
  const json = { 'content-type': 'application/json' };
  const outcome = (promise) => promise.then((answer) => `${answer.type} ${answer.status}`, (error) => `refused: ${error.name}`);
  const read = (path, options) => outcome(fetch(origin + path, options));
  const write = (body, options) => outcome(fetch(`${origin}/v1/sessions`, { method: 'POST', body, ...options }));
  const socket = (first) => new Promise((resolve) => {
    const made = new WebSocket(`${origin.replace('http', 'ws')}/v1/live`);
    made.onopen = () => made.send(first);
    made.onmessage = () => resolve('open');
    made.onclose = () => resolve('refused');
  });
  const element = (made, place) => new Promise((resolve) => {
    made.onload = () => resolve('loaded');
    made.onerror = () => resolve('refused');
    Object.assign(made, place);
    document.body.append(made);
  });
  const frame = document.createElement('iframe');
  frame.src = `${origin}/`;
  const framed = new Promise((resolve) => { frame.onload = resolve; });
  document.body.append(frame);
  await framed;
  let inside;
  try {
    inside = frame.contentWindow.document.body.textContent;
  } catch (error) {
    inside = `refused: ${error.name}`;
  }
  return {
    readPlain: await read('/v1/sessions'),
    readWithToken: await read('/v1/sessions', { headers: { authorization } }),
    readWithCredentials: await read('/v1/sessions', { credentials: 'include' }),
    writeJson: await write('{"session_id": "evil-1"}', { headers: { authorization, ...json } }),
    writeSimple: await write('{"session_id": "evil-2"}', { mode: 'no-cors', headers: { 'content-type': 'text/plain' } }),
    writeForm: await write(new URLSearchParams({ session_id: 'evil-3' }), { mode: 'no-cors' }),
    socketWithToken: await socket(JSON.stringify({ auth: secret })),
    events: await new Promise((resolve) => {
      const source = new EventSource(`${origin}/v1/sessions/demo/events`);
      source.onmessage = () => resolve('open');
      source.onerror = () => { source.close(); resolve('refused'); };
    }),
    script: await element(document.createElement('script'), { type: 'module', src: `${origin}/assets/api.js` }),
    picture: await element(document.createElement('img'), { src: `${origin}/assets/icon.svg` }),
    inside,
    storage: String(sessionStorage.getItem('shellkeep-token')),
  };
}

const got = await stranger.evaluate(attempts, { origin: tab.origin, token });
for (const name of ['readPlain', 'readWithToken', 'readWithCredentials', 'writeJson', 'socketWithToken', 'events', 'script', 'picture', 'inside']) {
  assert.match(got[name], /^refused/, `${name}: ${got[name]}`);
}
assert.equal(got.storage, 'null');
// A browser sends a simple request and hides the answer; the daemon must have refused it.
for (const name of ['writeSimple', 'writeForm']) assert.match(got[name], /^(opaque|refused)/, `${name}: ${got[name]}`);
const { json: { sessions } } = await api('GET', '/v1/sessions');
assert.deepEqual(sessions.map((session) => session.session_id).filter((id) => id.startsWith('evil')), []);

// A window that it opens is not its to read or to steer.
const [opened] = await Promise.all([tab.context.waitForEvent('page'), stranger.evaluate((origin) => { window.other = open(`${origin}/`); }, tab.origin)]);
await opened.waitForSelector('.welcome');
assert.equal(await stranger.evaluate(() => window.other.closed), true, 'the opener still has a handle');
// The tab that had the token still has it, and saw nothing of this.
tab.check('the console itself');
server.close();
await tab.close();
