// The daemon is killed under an open page. The page says so, comes back by itself, and shows what is true then.

import assert from 'node:assert/strict';
import { Tab, api, ask, run } from './console.mjs';

const tab = await Tab.open();
const { page } = tab;
const live = (state) => page.waitForSelector(`html[data-live=${state}]`);
const seq = (number) => page.waitForFunction((wanted) => Number(/#([\d,]+)/.exec(document.querySelector('.session-head')?.textContent)?.[1].replace(',', '')) >= wanted, number);
const names = () => page.locator('.rows .row:not([hidden]) .name').allInnerTexts();

// On the page of a session: the daemon comes back with a record that the page has not seen.
await tab.show('#/s/demo', '.inspector .body > *');
await ask('kill');
await live('off');
await page.getByText('daemon away').waitFor();
await ask('start');
await live('on');
const after = await run('demo', 'echo back again');
await seq(after.seq);
await page.waitForFunction((wanted) => Number(document.querySelector('.row[aria-selected=true] .seq')?.textContent) >= wanted, after.seq);
await page.getByText('back again').first().waitFor();

// On the list: a session that was deleted while the page was cut off is gone, a new one is there.
await api('POST', '/v1/sessions', { session_id: 'doomed' });
await tab.show('#/', '.rows .row:not([hidden])');
await page.waitForFunction(() => [...document.querySelectorAll('.name')].some((one) => one.textContent === 'doomed'));
await tab.context.setOffline(true);
await ask('kill');
await live('off');
await ask('start');
assert.equal((await api('DELETE', '/v1/sessions/doomed')).status, 204);
assert.equal((await api('POST', '/v1/sessions', { session_id: 'newcomer' })).status, 201);
await tab.context.setOffline(false);
await live('on');
await page.waitForFunction(() => {
  const shown = [...document.querySelectorAll('.row:not([hidden]) .name')].map((one) => one.textContent);
  return shown.includes('newcomer') && !shown.includes('doomed');
});
assert.ok((await names()).includes('demo'));
// The browser logs that it could not connect; nothing else may have gone wrong.
tab.faults = tab.faults.filter((fault) => !/WebSocket connection|ERR_CONNECTION|ERR_INTERNET|Failed to load resource/.test(fault));
tab.check('after two kills');
await tab.close();
