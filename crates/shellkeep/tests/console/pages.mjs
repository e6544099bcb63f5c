// Every page, in both themes and at twice the size: nothing that its policy forbids, no request elsewhere, nothing that
// axe finds, nothing wider than the window. With SHELLKEEP_SCREENS it keeps pictures there.

import assert from 'node:assert/strict';
import { Tab, api } from './console.mjs';

const PAGES = [
  ['sessions', '#/', '.rows .row:not([hidden])'],
  ['sessions-filtered', '#/?q=nothing-like-this', 'section p.pad:not([hidden])'],
  ['timeline', '#/s/demo', '.inspector .body > *'],
  ['timeline-failed', '#/s/demo?q=failed:', '.inspector .body pre.output'],
  ['changes', '#/s/demo@5?tab=changes', '.inspector .body > *'],
  ['diff', '#/s/demo@5?tab=diff', '.inspector .body > *'],
  ['raw', '#/s/demo@5?tab=raw', '.inspector .body pre.output'],
  ['proof', '#/s/demo@5?tab=proof', '.inspector .hash'],
  ['files', '#/s/demo/files', '.patch .line'],
  ['files-split', '#/s/demo/files?view=split', '.patch .line.split'],
  ['file-history', '#/s/demo/files?path=src/app.py&history=1', 'table'],
  ['file-as-it-was', '#/s/demo/files?path=src/app.py&at=r4', '.scroll pre.output'],
  ['services', '#/s/demo/services', '.log pre.output'],
  ['terminal', '#/s/demo/terminal', '.terminal .tools button'],
  ['terminal-running', '#/s/edit/terminal', '.screen > div'],
  ['replay', '#/s/demo/replay?at=9', 'article'],
  ['replay-screen', '#/s/drawn/replay?at=99', '.film .screen > div'],
  ['compare', '#/compare/demo/try-1?path=src/app.py', '.patch .line'],
  ['compare-split', '#/compare/demo/try-1?path=src/app.py&view=split', '.patch .line.split'],
  ['compare-same', '#/compare/demo/demo', 'table'],
  ['node', '#/node', '.cards'],
  ['missing', '#/s/no-such-session', '.problem'],
];
const DIALOGS = [['rewind', 'R'], ['fork', 'F'], ['keys', '?']];
const COLOURS = ['light', 'dark'];

// A program that draws with colours.
await api('POST', '/v1/sessions', { session_id: 'edit', agent: 'builder' });
const draws = `printf '\\033[1mdisk\\033[0m  \\033[42;30m%40s\\033[0m 41 %%\\n\\033[31mfailed\\033[0m 2  \\033[32mpassed\\033[0m 40  \\033[7m q quits \\033[0m ' ''; read -r`;
await api('POST', '/v1/sessions/edit/run', { command: draws, tty: true, blocking: false, timeout: 3600 });
await api('POST', '/v1/sessions', { session_id: 'drawn', agent: 'builder' });
const wholeScreen = `printf '\\033[?1049h\\033[H\\033[30;42m  PID USER      CPU%%  Command%30s\\033[0m\\n 4031 ann       \\033[32m12.0\\033[0m  python3 app.py\\n 4032 ann       \\033[31m98.4\\033[0m  cc -O2 -c parse.c\\n\\n\\033[7mF9\\033[0m stop \\033[30;46mF10\\033[0m quit' ''; sleep 0.1; printf '\\033[?1049l'`;
await api('POST', '/v1/sessions/drawn/run', { command: wholeScreen, tty: true, tty_size: { rows: 14, cols: 80 } });

const tab = await Tab.open();
const { page } = tab;
const wrong = [];

async function inspect(name) {
  for (const colorScheme of COLOURS) {
    await page.emulateMedia({ colorScheme });
    wrong.push(...(await tab.accessibility()).map((line) => `${name}, ${colorScheme}: ${line}`));
    if (process.env.SHELLKEEP_SCREENS) await page.screenshot({ path: `${process.env.SHELLKEEP_SCREENS}/${name}-${colorScheme}.png` });
  }
}

for (const [name, hash, selector] of PAGES) {
  await tab.show(hash, selector);
  await inspect(name);
  // The one request that is refused on purpose is logged by the browser.
  if (name === 'missing') tab.faults = tab.faults.filter((fault) => !/status of 404/.test(fault));
  tab.check(name);
}

await tab.show('#/s/demo@5', '.inspector .body > *');
for (const [name, key] of DIALOGS) {
  await page.locator('.rows').focus();
  await page.keyboard.press(key);
  await page.waitForSelector('dialog[open] :not([aria-busy]) ~ .actions button');
  await page.waitForFunction(() => !document.querySelector('dialog [aria-busy=true]'));
  await inspect(`dialog-${name}`);
  await page.keyboard.press('Escape');
  await page.waitForSelector('dialog', { state: 'detached' });
}
tab.check('dialogs');

// Twice the size is half the room; a phone has less.
for (const [size, width, height] of [['small', 680, 410], ['phone', 400, 800]]) {
  await page.setViewportSize({ width, height });
  for (const [name, hash, selector] of PAGES) {
    await tab.show(hash, selector);
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) wrong.push(`${name}: ${over} pixels wider than a window of ${width}`);
    if (process.env.SHELLKEEP_SCREENS) await page.screenshot({ path: `${process.env.SHELLKEEP_SCREENS}/${name}-${size}.png` });
  }
}

await page.getByRole('button', { name: 'Sign out' }).click();
await page.waitForSelector('.welcome');
await page.setViewportSize({ width: 1360, height: 820 });
await inspect('welcome');
await tab.close();
assert.deepEqual(wrong, []);
