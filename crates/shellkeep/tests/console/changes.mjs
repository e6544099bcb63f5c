// What happens in the daemon is on the page without a reload: commands, sessions that come and go, a log, a running
// command's output. How long that takes is measured and printed.

import assert from 'node:assert/strict';
import { Tab, api, figure, run, visible } from './console.mjs';

const tab = await Tab.open();
const { page } = tab;

// Posted events, from their time to the row on the page.
await tab.show('#/s/demo', '.inspector .body > *');
const said = (round) => `event ${round} of many`;
figure('event to visible, ms', await visible(page, 15, '.rows .row .text', said, async (round) => {
  const { json: { seq } } = await api('POST', '/v1/sessions/demo/events', { event_type: 'user_input', data: { message: said(round) } });
  return { session: 'demo', seq };
}));

// A command as it writes: the page shows the first line before the command ends.
const started = await api('POST', '/v1/sessions/demo/run', { command: 'echo first line; read -r line; echo got $line', blocking: false });
await page.getByText('first line').first().waitFor();
await api('POST', `/v1/sessions/demo/runs/${started.json.run_id}/input`, { text: 'ann\n' });
await page.getByText('got ann').first().waitFor();

// The list: sessions come, run, and leave.
await tab.show('#/', '.rows .row:not([hidden])');
const named = (name) => page.waitForFunction((wanted) => [...document.querySelectorAll('.row:not([hidden]) .name')].some((one) => one.textContent === wanted), name);
const gone = (name) => page.waitForFunction((wanted) => ![...document.querySelectorAll('.row:not([hidden]) .name')].some((one) => one.textContent === wanted), name);
await api('POST', '/v1/sessions', { session_id: 'brief' });
await named('brief');
const waiting = await api('POST', '/v1/sessions/brief/run', { command: 'read -r line', blocking: false });
await page.waitForSelector('.row[data-mark=running]');
await api('POST', `/v1/sessions/brief/runs/${waiting.json.run_id}/signal`, { signal: 'INT' });
await page.waitForSelector('.row[data-mark=running]', { state: 'detached' });
for (let round = 0; round < 5; round += 1) {
  assert.equal((await api('DELETE', '/v1/sessions/brief')).status, 204);
  await gone('brief');
  await api('POST', '/v1/sessions', { session_id: 'brief' });
  await named('brief');
  await run('brief', `mkdir -p many; cd many; touch $(seq ${round * 200})`);
}
await page.locator('input[type=search]').fill('brief');
await gone('demo');

// A log that grows.
const { json: { cwd } } = await api('GET', '/v1/sessions/brief');
const feed = await api('POST', '/v1/sessions/brief/services', { command: `echo begins >${cwd}/feed; exec tail -n +1 -f ${cwd}/feed`, name: 'feed' });
assert.equal(feed.status, 201, JSON.stringify(feed.json));
await tab.show('#/s/brief/services', '.log pre.output');
await run('brief', `echo one more line >>${cwd}/feed`);
await page.getByText('one more line').waitFor();
await page.getByRole('button', { name: 'Stop' }).click();
await page.getByText('stopped').first().waitFor();
// The browser logs the answer about a session that was deleted while the page asked for its last command.
tab.faults = tab.faults.filter((fault) => !/status of 404 .*\/v1\/sessions\/brief\b/.test(fault));
tab.check('changes');
await tab.close();
