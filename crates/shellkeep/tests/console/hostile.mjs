// What a command prints is an enemy's text: HTML, escape sequences, characters that reorder, links, the clipboard, a line
// of a megabyte, bytes that are no text. It stays text on every page.

import assert from 'node:assert/strict';
import { Tab, api, run } from './console.mjs';

const MARKUP = '<img src=x onerror="document.title=1"><script>document.title=2</script><a href="javascript:alert(3)">x</a>';
const ENEMIES = {
  markup: [`printf '%s\\n' '${MARKUP}'`, (text) => assert.ok(text.includes('<script>document.title=2</script>'), text)],
  links: [`printf '\\033]8;;https://evil.example/\\033\\\\click\\033]8;;\\033\\\\ \\033]0;title\\007 after\\n'`, (text) => assert.match(text, /click.*after/)],
  clipboard: [`printf '\\033]52;c;ZXZpbA==\\007pasted\\n'`, (text) => assert.match(text, /^pasted/)],
  escapes: [`printf 'a\\033[2J\\033[H\\033[?1049h\\033[31mred\\033[0m\\033Pq#0\\033\\\\ \\033[999;999Hb\\n'`, (text) => assert.match(text, /red/)],
  reordered: [`printf 'user\\342\\200\\256nimda\\342\\201\\246 end\\n'`, (text) => assert.match(text, /user\ufffdnimda\ufffd end/)],
  invalid: [`printf 'a\\377\\376\\300\\200b\\n'`, (text) => assert.match(text, /^a\ufffd+b/)],
  long: [`head -c 1048576 /dev/zero | tr '\\0' x; echo`, (text) => assert.match(text, /x{1000}/)],
};

const tab = await Tab.open();
const { page } = tab;
await api('POST', '/v1/sessions', { session_id: 'enemy', agent: 'bold' });
await page.evaluate(() => navigator.clipboard.writeText('mine').catch(() => {}));

/** What must hold on any page, whatever it shows. */
async function harmless(where) {
  const found = await page.evaluate(() => ({
    title: document.title,
    elements: document.querySelectorAll('main img, main script, main b:not(.card b), main iframe, main [style*=url]').length,
    links: [...document.querySelectorAll('a')].map((one) => one.href).filter((href) => !href.startsWith(`${location.origin}/#`)),
    hidden: /[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(document.body.innerText),
    nodes: document.querySelectorAll('*').length,
  }));
  assert.deepEqual([found.elements, found.links, found.hidden], [0, [], false], where);
  assert.match(found.title, /shellkeep$/, where);
  assert.ok(found.nodes < 6000, `${where}: ${found.nodes} elements`);
  tab.check(where);
}

for (const [name, [command, expected]] of Object.entries(ENEMIES)) {
  const result = await run('enemy', command);
  await tab.show(`#/s/enemy@${result.seq}?tab=output`, '.inspector .body pre.output');
  await page.waitForFunction((seq) => document.querySelector('.inspector h2').textContent.startsWith(`#${seq} `), result.seq);
  await page.waitForSelector('.inspector .body pre.output');
  await page.waitForFunction((head) => document.querySelector('.inspector pre.command')?.textContent.includes(head), command.slice(0, 20));
  expected(await page.locator('.inspector .body pre.output').first().innerText());
  await harmless(name);
}

// The same text as a command, an event, a message, a file and its name, a service and its log.
await run('enemy', `: '${MARKUP}' $'\\u202e'`);
await run('enemy', 'echo first >plain.txt');
await run('enemy', `mkdir -p d; printf '%s\\n' '${MARKUP}' > $'d/<img src=x>\\u202e.txt'`);
await api('POST', '/v1/sessions/enemy/events', { event_type: 'user_input', data: { message: MARKUP } });
const service = await api('POST', '/v1/sessions/enemy/services', { command: `printf '%s\\033]52;c;ZXZpbA==\\007\\n' '${MARKUP}'; exec sleep 1000`, name: 'log' });
assert.equal(service.status, 201, JSON.stringify(service.json));
for (const [hash, selector] of [
  ['#/', '.rows .row:not([hidden])'], ['#/s/enemy', '.inspector .body > *'], ['#/s/enemy?tab=raw', '.inspector .body pre.output'],
  ['#/s/enemy/files', '.patch .line'], ['#/s/enemy/services', '.log pre.output'], ['#/compare/enemy/demo', 'table'],
  ['#/node', '.cards'], ['#/s/enemy/replay', 'article'],
]) {
  await tab.show(hash, selector);
  await harmless(hash);
}
await page.keyboard.press('G');
await page.waitForFunction(() => document.querySelector('article:last-child h2'));
await harmless('replay, at the end');
await tab.close();
