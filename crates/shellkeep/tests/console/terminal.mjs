// The terminal of a session in the browser: a person takes over, types commands and into programs, loses the daemon and
// gets it back; two people take over at once, and one of them drives.

import assert from 'node:assert/strict';
import { Tab, api, ask, figure, link, run } from './console.mjs';

await api('POST', '/v1/sessions', { session_id: 'hands' });
const { json: { cwd } } = await api('GET', '/v1/sessions/hands');
const tab = await Tab.open();
const { page } = tab;

const button = (where, name) => where.getByRole('button', { name, exact: true });
const status = (where, text) => where.locator('.session-head [role=status]').filter({ hasText: text }).waitFor();
/** Waits until the screen, or the output of a command that has ended, has a row like this. */
const row = (where, pattern) => where.waitForFunction((source) => [...document.querySelectorAll('.screen > div, .past pre.output > div')].some((one) => new RegExp(source).test(one.textContent)), pattern.source);
const ready = (where) => where.waitForSelector('.prompt input:enabled');

async function takeOver(where, name) {
  await button(where, 'Take over…').click();
  await where.getByLabel('Your name').fill(name);
  await where.locator('dialog').getByRole('button', { name: 'Take over', exact: true }).click();
}

async function enter(where, command) {
  await ready(where);
  await where.locator('.prompt input').fill(command);
  await where.keyboard.press('Enter');
}

// A command and its answer.
await tab.show('#/s/hands/terminal', '.terminal .tools button');
await takeOver(page, 'ann');
await status(page, 'You have taken over');
await enter(page, 'echo hello $((6 * 7)); cd /usr');
await row(page, /^hello 42/);
await ready(page);
const [first] = (await api('GET', '/v1/sessions/hands/runs')).json.runs;
assert.deepEqual([first.command, first.by, first.cwd], ['echo hello $((6 * 7)); cd /usr', 'person', '/usr']);

// A key is on the screen soon after it was pressed.
await enter(page, 'stty size; cat >/dev/null');
await row(page, /^\d+ \d+/);
const delays = [];
const keys = 'abcdefghijklmnopqrst';
for (const key of keys) {
  const shown = page.evaluate((wanted) => new Promise((resolve) => {
    const start = performance.now();
    const look = () => [...document.querySelectorAll('.screen > div')].some((one) => one.textContent.includes(wanted)) && (watcher.disconnect(), resolve(performance.now() - start));
    const watcher = new MutationObserver(look);
    watcher.observe(document.querySelector('.screen'), { subtree: true, childList: true, characterData: true });
    look();
  }), keys.slice(0, keys.indexOf(key) + 1));
  await page.keyboard.press(key);
  delays.push(await shown);
}
delays.sort((a, b) => a - b);
figure('key to echo, ms', `middle ${Math.round(delays[10])}, most ${Math.round(delays[19])}`);
await page.keyboard.press('Control+c');

// An editor: modes, arrows, a file.
await enter(page, `vi -u NONE -N ${cwd}/note.txt`);
await row(page, /note\.txt/);
await page.keyboard.type('itwo');
await page.keyboard.press('Enter');
await page.keyboard.type('one');
await row(page, /^one/);
await page.keyboard.press('Escape');
await page.keyboard.press('ArrowUp');
await page.keyboard.type('x:wq');
await page.keyboard.press('Enter');
await ready(page);
assert.equal((await api('GET', '/v1/sessions/hands/runs?limit=1')).json.runs[0].exit_code, 0);

// What is typed where the echo is off is not shown.
await enter(page, 'stty -echo; printf "word: "; read -r word; stty echo; echo; echo ${#word} letters');
await row(page, /^word:/);
await page.keyboard.type('hunter2');
await page.keyboard.press('Enter');
await row(page, /^7 letters/);
assert.ok(!(await page.locator('.screen').innerText()).includes('hunter2'));

// The daemon is killed under a program. The page comes back by itself, and still drives.
await enter(page, 'echo waits; sleep 1000');
await row(page, /^waits/);
await ask('kill');
await page.waitForSelector('html[data-live=off]');
await ask('start');
await page.waitForSelector('html[data-live=on]');
await ready(page);
await status(page, 'You have taken over');
await enter(page, 'pwd');
await row(page, /^\/usr/);
await ready(page);

// Hand back: the page says what the agent will read, and its next result says it.
await button(page, 'Hand back').click();
await page.getByText('The agent will read: ann took over').waitFor();
const next = await run('hands', `cat ${cwd}/note.txt`);
assert.deepEqual([next.stdout, next.notices[0].code], ['tw\none\n', 'held']);

// Two people at once: one is in control, the other one is told who.
const other = await tab.context.newPage();
await other.goto(await link());
await other.waitForSelector('html[data-live=on]');
await other.evaluate(() => { location.hash = '#/s/hands/terminal'; });
await other.waitForSelector('.terminal .tools button');
for (const [where, name] of [[page, 'ann'], [other, 'bob']]) {
  await button(where, 'Take over…').click();
  await where.getByLabel('Your name').fill(name);
}
const confirm = (where) => where.locator('dialog').getByRole('button', { name: 'Take over', exact: true }).click();
await Promise.all([confirm(page), confirm(other)]);
const drives = (where) => where.getByText('You have taken over; the agent waits.').waitFor();
const refused = (where) => where.locator('dialog .problem').waitFor();
const outcome = (where) => Promise.race([drives(where).then(() => 'drives'), refused(where).then(() => 'refused')]);
const outcomes = await Promise.all([outcome(page), outcome(other)]);
assert.deepEqual([...outcomes].sort(), ['drives', 'refused']);
const [driver, watcher] = outcomes[0] === 'drives' ? [page, other] : [other, page];
await watcher.keyboard.press('Escape');
await watcher.getByText(/(ann|bob) has taken over; you are watching\./).waitFor();
await enter(driver, 'read -rp "name? " name; echo hi $name');
await row(watcher, /^name\?/);
await watcher.locator('.screen').press('x');
await driver.keyboard.type('eve');
await driver.keyboard.press('Enter');
await row(driver, /^hi eve/);
await row(watcher, /^hi eve/);
// The browser logs that it could not connect, and the refusal of the second one; nothing else may have gone wrong.
tab.faults = tab.faults.filter((fault) => !/WebSocket connection|ERR_CONNECTION|Failed to load resource/.test(fault));
tab.check('terminal');
await tab.close();
