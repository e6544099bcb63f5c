// Many sessions, and a session with many events: the list and any place of the timeline come at once, the page stays
// small. The Rust test says how many; times are printed, sizes are checked.

import assert from 'node:assert/strict';
import { Tab, api, figure, many, run, times, visible } from './console.mjs';

const SESSIONS = Number(process.env.SHELLKEEP_SESSIONS);
const EVENTS = Number(process.env.SHELLKEEP_EVENTS);
const BATCH = 500;
const MOST_ELEMENTS = 1500;
const MOST_HEAP = 30e6;

const name = (index) => `session-${String(index).padStart(6, '0')}`;
await many(SESSIONS, (index) => api('POST', '/v1/sessions', { session_id: name(index), agent: `agent-${index % 50}` }));
// Some have a last command.
const BUSY = Math.ceil(SESSIONS / 100);
await many(BUSY, (index) => run(name(index * 100), `true task-${index}`));
await api('POST', '/v1/sessions', { session_id: 'long' });
const event = (index) => ({ event_type: 'user_input', data: { message: `message ${index}` } });
for (let from = 0; from < EVENTS; from += BATCH) {
  // A failure that is not among the last rows.
  if (from === EVENTS - 4 * BATCH) await run('long', 'false');
  const { status, json } = await api('POST', '/v1/sessions/long/events', { events: Array.from({ length: BATCH }, (_, index) => event(from + index)) });
  assert.equal(status, 201, JSON.stringify(json));
}
const { json: { seq: last } } = await api('GET', '/v1/sessions/long');
assert.ok(last >= EVENTS);

const tab = await Tab.open();
const { page } = tab;

/** Does something in the page, and returns how many milliseconds later a row is there that fits. */
const until = (act, wanted) => page.evaluate(([what, [selector, text]]) => new Promise((resolve, reject) => {
  const start = performance.now();
  const lost = () => reject(new Error(`no ${selector} '${text}' after ${JSON.stringify(what)}: ${document.querySelector('main')?.innerText}`));
  setTimeout(lost, 60_000);
  if (what.hash) location.hash = what.hash;
  if (what.filter !== undefined) {
    const input = document.querySelector('input[type=search]');
    input.value = what.filter;
    input.dispatchEvent(new Event('input'));
  }
  const look = () => {
    const shown = [...document.querySelectorAll(`.rows .row:not([hidden]) ${selector}`)].map((one) => one.textContent);
    if (shown.includes(text)) return resolve(performance.now() - start);
    // A frame with rows that have to be read first.
    if (shown.includes('…')) window.emptyFrames = (window.emptyFrames ?? 0) + 1;
    return requestAnimationFrame(look);
  };
  look();
}), [act, wanted]);

const SCRIPT = new Set(['EvaluateScript', 'FunctionCall', 'RunMicrotasks', 'FireAnimationFrame', 'TimerFire', 'EventDispatch']);

/** Milliseconds of script in each frame while something is done, by the browser's own trace. */
async function frames(act) {
  await tab.browser.startTracing(page, { categories: ['devtools.timeline', 'devtools.timeline.frame', 'disabled-by-default-devtools.timeline'] });
  await act();
  const { traceEvents } = JSON.parse((await tab.browser.stopTracing()).toString());
  const begins = traceEvents.filter((event) => event.name === 'AnimationFrame' && event.ph === 'b').sort((one, other) => one.ts - other.ts);
  assert.ok(begins.length > 20, `${begins.length} frames`);
  const { pid, tid } = begins[0];
  const scripts = traceEvents.filter((event) => event.pid === pid && event.tid === tid && event.ph === 'X' && event.tdur !== undefined && SCRIPT.has(event.name)).sort((one, other) => one.ts - other.ts);
  const spent = begins.map(() => 0);
  let frame = 0;
  let until = 0;
  for (const { ts, tts, tdur } of scripts) {
    while (frame + 1 < begins.length && begins[frame + 1].ts <= ts) frame += 1;
    // Time of the processor, which other programs do not lengthen. One that runs inside another is part of it.
    spent[frame] += Math.max(0, tts + tdur - Math.max(tts, until)) / 1000;
    until = Math.max(until, tts + tdur);
  }
  return spent.sort((one, other) => one - other);
}

/** The page is small, whatever it shows. */
async function small(where) {
  const session = await tab.context.newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  await session.detach();
  const elements = await page.evaluate(() => document.querySelectorAll('*').length);
  figure(`${where}: elements, heap in MB`, `${elements}, ${(usedSize / 1e6).toFixed(1)}`);
  assert.ok(elements <= MOST_ELEMENTS, `${where}: ${elements} elements`);
  assert.ok(usedSize <= MOST_HEAP, `${where}: ${usedSize} bytes`);
}

// The list, from nothing.
const loads = [];
for (let round = 0; round < 5; round += 1) {
  await page.reload();
  loads.push(await page.evaluate(() => new Promise((resolve) => {
    const look = () => (document.querySelector('.rows .row:not([hidden]) .name')?.textContent ? resolve(performance.now()) : requestAnimationFrame(look));
    look();
  })));
}
figure(`list of ${SESSIONS + 1} sessions usable, ms`, times(loads));
await small('list');
const wanted = name(Math.floor(SESSIONS / 3));
figure('list filtered by a word of the id, ms', Math.round(await until({ filter: wanted }, ['.name', wanted])));
// Only one has it, so all sessions are looked at.
figure('list filtered by a word of the last command, ms', Math.round(await until({ filter: 'task-0' }, ['.name', name(0)])));
figure('list filtered by an agent, ms', Math.round(await until({ filter: 'agent:agent-7' }, ['.agent', 'agent-7'])));
await page.locator('input[type=search]').fill('');
await page.waitForFunction(() => [...document.querySelectorAll('.rows .row:not([hidden]) .agent')].some((one) => one.textContent !== 'agent-7'));
// A command in a session that is not on the page, from its record's time until the row is on top.
await page.locator('.rows').focus();
await page.keyboard.press('Home');
figure(`command to visible in the list of ${SESSIONS + 1} sessions, ms`, await visible(page, 15, '.rows .row:not([hidden]) .name', (round) => name(round + 1), async (round) => {
  const { run_id: id } = await run(name(round + 1), 'true');
  return { session: name(round + 1), seq: Number(id.slice(1)) };
}));
// A change that comes while the list is read is not lost with the answer, which lacks it.
const top = () => page.evaluate(() => document.querySelector('.rows .row:not([hidden]) .name').textContent);
const late = name(20);
const isList = (url) => url.pathname === '/v1/sessions';
let answer;
let asked;
const wasAsked = new Promise((resolve) => { asked = resolve; });
await page.route(isList, async (route) => {
  const response = await route.fetch();
  answer = () => route.fulfill({ response });
  asked();
}, { times: 1 });
await page.keyboard.press('r');
await wasAsked;
await run(late, 'true');
await page.waitForFunction((wanted) => document.querySelector('.rows .row:not([hidden]) .name').textContent === wanted, late);
const answered = page.waitForResponse((response) => isList(new URL(response.url())));
await answer();
await (await answered).finished();
await page.evaluate(() => new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); }));
assert.equal(await top(), late);
// Pages come while one scrolls.
const before = await page.evaluate(() => document.querySelector('.rows .row').getAttribute('aria-setsize'));
await page.keyboard.press('End');
await page.waitForFunction((size) => Number(document.querySelector('.rows .row').getAttribute('aria-setsize')) > Number(size), before);
await small('list, scrolled');

// Any place of the timeline.
await tab.show('#/s/long', '.rows .row:not([hidden])');
const jumps = [];
for (let round = 0; round < 20; round += 1) {
  const seq = 1 + Math.floor(((round * 0.6180339887) % 1) * (last - 1));
  const { json: { events: [{ text }] } } = await api('GET', `/v1/sessions/long/events?view=summary&after=${seq - 1}&limit=1`);
  jumps.push(await until({ hash: `#/s/long@${seq}` }, ['.text', text]));
}
figure(`any of ${last} records, ms`, times(jumps));
figure('frames with empty rows meanwhile', await page.evaluate(() => window.emptyFrames ?? 0));
await page.mouse.move(300, 500);
const spent = await frames(async () => {
  for (let step = 0; step < 150; step += 1) await page.mouse.wheel(0, step % 50 === 49 ? -20_000 : 700);
  for (let step = 0; step < 50; step += 1) await page.keyboard.press('PageDown');
});
const part = (share) => spent[Math.floor(spent.length * share)].toFixed(1);
figure(`script in a frame while ${last} records are scrolled, ms`, `middle ${part(0.5)}, p95 ${part(0.95)}, most ${part(0.9999)}, of ${spent.length} frames`);
await page.locator('.rows').focus();
await page.keyboard.press('End');
await page.waitForFunction((seq) => document.querySelector('.row[aria-selected=true] .seq')?.textContent === String(seq), last);
await small('timeline');
await page.keyboard.press('N');
await page.waitForSelector('.row[aria-selected=true][data-failed=true]');
await page.keyboard.press('End');
await page.waitForFunction((seq) => document.querySelector('.row[aria-selected=true] .seq')?.textContent === String(seq), last);
const said = (round) => `newest event ${round}`;
figure(`event to visible in a timeline of ${last} records, ms`, await visible(page, 40, '.rows .row:not([hidden]) .text', said, async (round) => {
  const { json: { seq } } = await api('POST', '/v1/sessions/long/events', { event_type: 'user_input', data: { message: said(round) } });
  return { session: 'long', seq };
}));
tab.check('scale');
await tab.close();
