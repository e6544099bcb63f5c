// The console without a mouse: from the list to a record, its tabs, a dialog and back. Every control can be reached.

import assert from 'node:assert/strict';
import { Tab, api } from './console.mjs';

const tab = await Tab.open();
const { page } = tab;
const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
const hash = (pattern) => page.waitForFunction((source) => new RegExp(source).test(location.hash), pattern.source);
const focused = () => page.evaluate(() => document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent);

await page.waitForSelector('.rows .row:not([hidden])');
await press('/');
await page.keyboard.type('demo');
await page.waitForFunction(() => document.querySelector('.rows [aria-selected=true] .name')?.textContent === 'demo');
await press('Escape', 'Enter');
await hash(/^#\/s\/demo/);

// Rows move with j and k, g and G; the record's number is in the address.
await page.waitForSelector('.inspector .body > *');
await press('g');
await hash(/^#\/s\/demo@1$/);
await press('j', 'j', 'ArrowDown', 'k');
await hash(/^#\/s\/demo@3/);
await press('G');
await page.waitForFunction(() => Number(/@(\d+)/.exec(location.hash)?.[1]) > 10);
// The chosen row stays in sight when the window gets smaller.
await page.setViewportSize({ width: 1360, height: 500 });
await page.waitForFunction(() => {
  const row = document.querySelector('.row[aria-selected=true]:not([hidden])')?.getBoundingClientRect();
  return row && row.bottom <= document.querySelector('.rows').getBoundingClientRect().bottom + 1;
});
await page.setViewportSize({ width: 1360, height: 820 });
await press('g', 'n');
await page.waitForSelector('.row[aria-selected=true][data-failed=true]');
await press('t');
await hash(/tab=raw/);
await press('d');
await hash(/tab=diff/);
await press('o');
await hash(/tab=output/);

// A tab list moves with the arrows.
await page.locator('[role=tab][aria-selected=true]').focus();
await press('ArrowRight');
await hash(/tab=changes/);
assert.equal(await focused(), 'Changes');

// A dialog begins with Cancel, keeps the focus, and Escape gives it back.
await page.locator('.rows').focus();
await press('R');
await page.waitForFunction(() => document.querySelector('dialog[open]') && !document.querySelector('dialog [aria-busy=true]'));
assert.equal(await focused(), 'Cancel');
for (let count = 0; count < 12; count += 1) {
  await press('Tab');
  assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest('dialog')), 'the focus left the dialog');
}
await press('Escape');
await page.waitForSelector('dialog', { state: 'detached' });
await press('?');
await page.waitForSelector('dialog[open] kbd');
const keys = await page.locator('dialog kbd').allTextContents();
assert.deepEqual([keys.filter((key) => key === 'j').length, keys.length], [1, new Set(keys).size], 'each key is listed once');
await press('Escape');

// A dialog is about the page under it, and closes with it.
await press('?');
await page.waitForSelector('dialog[open] kbd');
await page.goBack();
await page.waitForSelector('dialog', { state: 'detached' });
await page.goForward();

// The record of a rewind offers to undo it, whenever one looks at it.
const { json: { events: [rewound] } } = await api('GET', '/v1/sessions/demo/events?type=session_rewound');
await tab.show(`#/s/demo@${rewound.seq}`, '.inspector .actions button');
await page.getByRole('button', { name: 'Undo this rewind…' }).focus();
await press('Enter');
await page.getByRole('heading', { name: `Rewind demo to #${rewound.seq - 1}?` }).waitFor();
await page.waitForFunction(() => !document.querySelector('dialog [aria-busy=true]'));
await press('Escape');
await page.waitForSelector('dialog', { state: 'detached' });

// The record after which a fork begins leads to it, and to a comparison.
const { json: { events: [{ data: forked }] } } = await api('GET', '/v1/sessions/demo/events?type=session_forked');
await tab.show(`#/s/demo@${forked.at}`, '.row[aria-selected=true][data-edge~=forks]');
await page.getByRole('link', { name: 'Compare with try-1' }).waitFor();
await page.getByRole('link', { name: 'Fork try-1' }).focus();
await press('Enter');
await hash(/^#\/s\/try-1/);

// A file as it was, from its history.
await tab.show('#/s/demo/files?path=src/app.py&history=1', 'table');
await page.getByRole('link', { name: 'as it was' }).first().focus();
await press('Enter');
await hash(/[?&]at=/);
await page.locator('.scroll pre.output').getByText('print("one")').waitFor();

// A service is stopped with x, and Enter.
await tab.show('#/s/demo/services', '.log pre.output');
await press('x');
assert.equal(await focused(), 'Stop');

// The theme changes with D, and stays.
const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
await press('D');
assert.equal(await theme(), 'dark');
await press('D');
assert.equal(await theme(), 'light');

// Whatever can be clicked can be reached with Tab, and shows that it has the focus.
for (const [state, selector] of [['#/', '.rows .row:not([hidden])'], ['#/s/demo@5', '.inspector .body > *'], ['#/s/demo/files', '.patch .line'], ['#/s/demo/files?path=src/app.py&history=1', 'table'], ['#/s/demo/services', '.log pre.output'], ['#/s/demo/terminal', '.terminal .tools button'], ['#/s/demo/replay?at=9', 'article'], ['#/compare/demo/try-1', 'details.file'], ['#/node', '.cards']]) {
  await tab.show(state, selector);
  const missed = await page.evaluate(() => {
    const controls = [...document.querySelectorAll('a[href], button, input, select, summary')];
    window.unreached = new Set(controls.filter((one) => one.checkVisibility() && one.tabIndex >= 0));
    document.activeElement.blur();
    return window.unreached.size;
  });
  for (let count = 0; count < missed + 30; count += 1) {
    await press('Tab');
    const bare = await page.evaluate(() => {
      window.unreached.delete(document.activeElement);
      if (document.activeElement === document.body) return null;
      // A list marks the row that has the focus.
      const marked = document.activeElement.querySelector('[role=option][aria-selected=true]') ?? document.activeElement;
      const style = getComputedStyle(marked);
      return style.outlineStyle === 'none' ? document.activeElement.outerHTML.slice(0, 200) : null;
    });
    assert.equal(bare, null, `${state}: no sign of the focus`);
  }
  assert.deepEqual(await page.evaluate(() => [...window.unreached].map((one) => one.outerHTML.slice(0, 120))), [], state);
}

await press('q');
await hash(/^#\/$/);
tab.check('keyboard');
await tab.close();
