// A program that used the whole screen is replayed as it was: step by step, and as it was typed.

import assert from 'node:assert/strict';
import { Tab, api } from './console.mjs';

await api('POST', '/v1/sessions', { session_id: 'film' });
const started = await api('POST', '/v1/sessions/film/run', { command: 'vi -u NONE -N note.txt', tty: true, tty_size: { rows: 12, cols: 70 }, blocking: false, timeout: 600 });
const run = `/v1/sessions/film/runs/${started.json.run_id}`;

/** Types keys, and waits until the screen has a text and is still: what is drawn together is one screen of the replay. */
async function type(keys, text) {
  if (keys.length) assert.equal((await api('POST', `${run}/input`, { keys })).status, 200);
  const seen = await api('GET', `${run}/screen?timeout=60&wait=match:${encodeURIComponent(text)}`);
  assert.equal(seen.json.timed_out, false, JSON.stringify(seen.json));
  await api('GET', `${run}/screen?timeout=60&wait=quiet:100`);
}

await type([], 'note.txt');
await type(['i', 'first line'], 'first line');
await type(['Enter', 'second line', 'Esc'], 'second line');
await api('POST', `${run}/input`, { keys: [':wq', 'Enter'] });
const { json: ended } = await api('GET', `${run}?wait=60`);
assert.equal(ended.exit_code, 0, JSON.stringify(ended));
const { json: { events } } = await api('GET', '/v1/sessions/film/events?limit=100');
const of = (kind) => events.filter((event) => event.event_type === kind && event.data.run_id === started.json.run_id).map((event) => event.seq);
const [[begin], typed, [end]] = [of('run_started'), of('run_input'), of('tool_call')];
assert.equal(typed.length, 3);

const tab = await Tab.open();
const { page } = tab;
const rows = () => page.evaluate(() => [...document.querySelectorAll('.film .screen > div')].map((row) => row.textContent.replace(/\u200b/g, '').trimEnd()));

// Step by step: what was on the screen when a key was pressed is there.
await tab.show(`#/s/film/replay?at=${begin}`, '.film .screen > div');
assert.equal((await rows()).length, 12);
const shown = [];
for (const seq of [...typed, end]) {
  while (!(await page.evaluate(() => location.hash)).includes(`at=${seq}&`)) {
    const before = await page.evaluate(() => location.hash);
    await page.keyboard.press('j');
    await page.waitForFunction((hash) => location.hash !== hash, before);
  }
  shown.push(await rows());
}
assert.equal(shown[0][5], '~');
assert.equal(shown[1][0], 'first line');
for (const last of shown.slice(2)) assert.deepEqual(last.slice(0, 3), ['first line', 'second line', '~']);
assert.equal(await page.locator('article:has(.film) pre.output').count(), 0, 'its text is not shown beside its screen');

// As it was typed.
await tab.show('#/', '.rows .row:not([hidden])');
await page.evaluate(() => {
  window.seen = [];
  const look = () => {
    const lines = [...document.querySelectorAll('.film .screen > div')].slice(0, 2).map((row) => row.textContent.replace(/\u200b/g, '').trimEnd()).join('|');
    if (window.seen.at(-1) !== lines) window.seen.push(lines);
  };
  new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
});
await tab.show(`#/s/film/replay?at=${begin}&speed=32`, '.film .screen > div');
await page.getByRole('button', { name: 'Play', exact: true }).click();
await page.getByRole('button', { name: 'Play', exact: true }).waitFor();
const seen = await page.evaluate(() => window.seen);
const places = ['|', '|~', 'first line|~', 'first line|second line'].map((lines) => seen.indexOf(lines));
assert.ok(places.every((place, index) => place > (places[index - 1] ?? -1)), JSON.stringify(seen));
tab.check('replay');
await tab.close();
