// What happened at one record: output, changes of the shell, files, the raw event, its proof.

import { get, mayAct, path, post, query } from './api.js';
import { render } from './diff.js';
import { button, fill, h, link, problem, say } from './dom.js';
import { counted, moment, plain, size, span, visible } from './format.js';
import { follow } from './live.js';
import { output } from './output.js';
import { address } from './state.js';

/** The most bytes of an output that one response has. */
const LONGEST = 16_777_216;
const TABS = [['output', 'Output'], ['changes', 'Changes'], ['diff', 'Files'], ['raw', 'Raw'], ['proof', 'Proof']];

export function inspector(id, { tab: tabChanged, forks }) {
  let row = null;
  let tab = '';
  let split = false;
  let turn = 0;
  let unfollow = () => {};
  const title = h('h2', { tabindex: '-1' }, 'Record');
  const facts = h('p.facts');
  const buttons = h('div.tablist', { role: 'tablist', 'aria-label': 'Record', onkeydown: arrows });
  const body = h('div.body', { role: 'tabpanel', id: 'record-panel', tabindex: '0', 'aria-label': 'Record' });
  const tools = h('div.actions');
  const element = h('aside.inspector', { 'aria-label': 'Record', tabindex: '-1' }, title, facts, buttons, body, tools);
  const self = { element, show, open, refresh: () => row && fill(tools, act()), close: () => unfollow(), get seq() { return row?.seq; }, get tab() { return tab; } };

  /** The tab that says most about a record, if none was chosen. */
  const fitting = () => tab || (row.run_id ? 'output' : 'raw');

  function show(next, chosen) {
    row = next;
    tab = chosen;
    fill(title, `#${row.seq} ${row.event_type}`);
    fill(facts, [row.outcome, row.seconds === undefined ? null : span(row.seconds), moment(row.timestamp), row.by ? `by ${row.by}` : row.source].filter(Boolean).join(' · '));
    facts.dataset.failed = Boolean(row.failed);
    draw();
  }

  function open(name) {
    if (!row) return;
    tab = name;
    tabChanged(name);
    draw();
  }

  function arrows(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = TABS.map(([name]) => name);
    open(names[(names.indexOf(fitting()) + step + names.length) % names.length]);
    buttons.querySelector('[aria-selected=true]').focus();
    event.preventDefault();
  }

  async function draw() {
    const mine = ++turn;
    unfollow();
    unfollow = () => {};
    const current = fitting();
    fill(buttons, TABS.map(([name, text]) => button(text, () => open(name), {
      role: 'tab', 'aria-selected': String(name === current), 'aria-controls': 'record-panel', tabindex: name === current ? '0' : '-1',
    })));
    fill(tools, act());
    try {
      const content = await { output: outputs, changes, diff: files, raw, proof }[current]();
      if (mine === turn) fill(body, content);
    } catch (error) {
      if (mine === turn) fill(body, problem(error));
    }
  }

  function act() {
    const list = [];
    if (mayAct()) {
      if (row.event_type === 'session_rewound') list.push(button('Undo this rewind…', () => dialog('rewind', row.seq - 1)));
      list.push(button('Rewind to here…', () => dialog('rewind')), button('Fork from here…', () => dialog('fork')));
    }
    if (row.run_id) {
      list.push(button('Copy command', async () => {
        const { command } = await get(path`/v1/sessions/${id}/runs/${row.run_id}`);
        await navigator.clipboard.writeText(command);
        say('Copied.');
      }));
    }
    for (const fork of forks(row.seq)) list.push(link(address({ page: 'session', id: fork }), `Fork ${fork}`), link(address({ page: 'compare', id, other: fork }), 'Compare', { 'aria-label': `Compare with ${fork}` }));
    return list;
  }

  async function dialog(what, seq = row.seq) {
    (await import('./dialogs.js'))[what](id, { seq });
  }

  async function outputs() {
    if (!row.run_id) return posted(await event());
    const run = await get(path`/v1/sessions/${id}/runs/${row.run_id}` + query({ max_output: 400_000 }));
    const parts = [h('pre.command', { tabindex: '0', 'aria-label': 'Command' }, `$ ${visible(run.command)}`)];
    for (const name of ['stdout', 'stderr']) {
      const bytes = run[`${name}_bytes`];
      if (!bytes && !(name === 'stdout' && run.status === 'running')) continue;
      parts.push(stream(name, bytes, run[name]));
    }
    if (parts.length === 1) parts.push(h('p.quiet', null, run.status === 'running' ? 'No output yet.' : 'No output.'));
    for (const notice of run.notices) parts.push(h('p.notice', null, `${notice.code}: ${notice.message}`));
    if (run.status === 'running') parts.push(watch());
    return parts;
  }

  /** One output of a command, with a search through all of it, also what is not shown. */
  function stream(name, bytes, shown) {
    const url = (params) => path`/v1/sessions/${id}/runs/${row.run_id}/output` + query({ stream: name, limit: LONGEST, ...params });
    const file = `${id}-${row.run_id}-${name}.txt`;
    const place = h('div', null, output(shown));
    const input = h('input.small', { type: 'search', placeholder: 'lines that match', 'aria-label': `Search ${name}`, onchange: () => find().catch((error) => fill(place, problem(error))) });
    async function find() {
      if (!input.value) return fill(place, output(shown));
      const page = await get(url({ grep: input.value }));
      return fill(place, page.text ? output(page.text) : h('p.quiet', { role: 'status' }, 'No line matches.'));
    }
    return [h('h3', null, `${name} `, h('span.quiet', null, size(bytes)), ' ', input, ' ', button('Download', () => text(url({}), file), { class: 'small' })), place];
  }

  /** Output of a command that runs, as it is written. */
  function watch() {
    const place = h('div', { 'aria-live': 'off' });
    let seen = '';
    unfollow = follow(`run/${id}/${row.run_id}`, {
      snapshot: (now) => { seen = now.text; fill(place, output(seen)); },
      update: (more) => { if (more.text) { seen = (seen + more.text).slice(-200_000); fill(place, output(seen)); } if (more.ended) draw(); },
    });
    return [h('h3', null, 'as it is written'), place];
  }

  async function text(url, name) {
    const page = await get(url);
    const address_ = URL.createObjectURL(new Blob([page.text]));
    h('a', { href: address_, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address_), 60_000);
  }

  async function event() {
    const { events } = await get(path`/v1/sessions/${id}/events` + query({ after: row.seq - 1, limit: 1, redact: true }));
    if (!events[0] || events[0].seq !== row.seq) throw new Error('this record is missing from the recording');
    return events[0];
  }

  function posted({ data }) {
    const shown = ['message', 'prompt', 'response', 'output', 'content', 'reason'].filter((name) => typeof data[name] === 'string' && data[name]);
    if (!shown.length) return json(data);
    return shown.map((name) => [h('h3', null, name), output(data[name])]);
  }

  async function changes() {
    if (!row.run_id) return h('p.quiet', null, 'Only commands change the shell.');
    const { changes: found, cwd } = await get(path`/v1/sessions/${id}/runs/${row.run_id}` + query({ max_output: 1 }));
    const list = Object.entries(found).filter(([, value]) => value !== null);
    if (!list.length) return h('p.quiet', null, `The shell did not change. It is in ${cwd}.`);
    return h('dl.facts-list', null, list.map(([name, value]) => [h('dt', null, name), h('dd', null, changeText(value))]));
  }

  function changeText(value) {
    if (typeof value !== 'object') return visible(String(value));
    if (value.set || value.unset) return [...(value.set ?? []).map((name) => h('div', null, `+ ${plain(name)}`)), ...(value.unset ?? []).map((name) => h('div', null, `− ${plain(name)}`))];
    return Object.entries(value).map(([name, to]) => h('div', null, to === null || to === false ? `− ${plain(name)}` : `+ ${plain(name)}${to === true ? '' : ` = ${plain(to)}`}`));
  }

  async function files() {
    let diff;
    try {
      diff = await get(path`/v1/sessions/${id}/checkpoints/${row.run_id ?? row.seq}/diff` + query({ patch: false, redact: true }));
    } catch (error) {
      if (error.status === 404 || error.status === 400) return h('p.quiet', null, 'No files were saved here.');
      throw error;
    }
    if (!diff.files.length) return h('p.quiet', null, 'No files changed.');
    const toggle = button(split ? 'Unified' : 'Side by side', () => { split = !split; draw(); }, { class: 'small' });
    return [
      h('p', null, counted(diff.files.length, 'file'), ' ', toggle, ' ', link(address({ page: 'files', id, params: { to: String(row.run_id ?? row.seq) } }), 'All files at this moment')),
      diff.files.map((file) => fileEntry(file, path`/v1/sessions/${id}/diff` + query({ from: diff.from?.checkpoint_id, to: diff.to?.checkpoint_id, path: file.path, redact: true }), split)),
    ];
  }

  async function raw() {
    return json(await event());
  }

  async function proof() {
    const { hash } = await event();
    const place = h('div');
    const check = button('Verify the recording', async () => {
      fill(place, h('p.quiet', null, 'Checking…'));
      try {
        fill(place, verdict(await post(path`/v1/sessions/${id}/verify`, {})));
      } catch (error) {
        fill(place, problem(error));
      }
    });
    return [h('p', null, 'The hash of this record covers all records before it.'), h('code.hash', null, hash), h('div.actions', null, check), place];
  }

  return self;
}

function verdict(found) {
  const facts = [
    ['events', found.events], ['head', found.head ? `#${found.head.seq} ${found.head.hash}` : '–'],
    ['signed', found.signed ? `#${found.signed.seq} ${found.signed.key}` : 'not yet'], ['masked fields', found.masked_fields],
  ];
  return [
    h('p', { class: found.intact ? 'good' : 'bad' }, found.intact ? 'Intact: nothing was changed, dropped or reordered.' : `Damaged: ${found.bad?.reason ?? 'see the holes'}`),
    h('dl.facts-list', null, facts.map(([name, value]) => [h('dt', null, name), h('dd', null, String(value))])),
    (found.holes ?? []).map((hole) => h('p.notice', null, `#${hole.from} to #${hole.through} are missing: ${hole.reason}`)),
    (found.remarks ?? []).map((remark) => h('p.quiet', null, remark)),
  ];
}

function json(value) {
  return h('pre.output', { tabindex: '0', 'aria-label': 'JSON' }, visible(JSON.stringify(value, null, 2)));
}

/** A file that differs. Its patch is read when it is opened. */
export function fileEntry(file, url, split) {
  const place = h('div');
  const entry = h('details.file', { ontoggle: async () => {
    if (!entry.open || place.childNodes.length) return;
    try {
      const { patch, truncated } = await get(url);
      fill(place, patch ? render(patch, split) : h('p.quiet.pad', null, 'No text to compare.'), truncated ? h('p.notice', null, 'The patch is long; its end is not shown.') : null);
    } catch (error) {
      fill(place, problem(error));
    }
  } }, h('summary', null, changeMark(file), ' ', plain(file.path), ' ', counts(file)), place);
  return entry;
}

/** `+`, `~`, `−`, `→` with its meaning for those who do not see the colour. */
export function changeMark(file) {
  const [mark, name] = { added: ['+', 'added'], modified: ['~', 'changed'], deleted: ['−', 'deleted'], renamed: ['→', 'renamed'], type_changed: ['~', 'type changed'] }[file.kind] ?? ['~', file.kind];
  return h('span.change', { class: file.kind, title: name }, mark);
}

export function counts(file) {
  if (file.binary) return h('span.quiet', null, 'binary');
  // A plan does not count lines.
  return file.insertions || file.deletions ? h('span.quiet', null, `+${file.insertions ?? 0} −${file.deletions ?? 0}`) : null;
}
