// All sessions by activity: what runs, how the last command ended, whose it is. The daemon filters and orders; the page
// has the rows that were scrolled to.

import { get, path, query } from './api.js';
import { fill, h, problem } from './dom.js';
import { ago, clock, count, counted, plain } from './format.js';
import { bind } from './keys.js';
import { follow } from './live.js';
import { Rows } from './rows.js';
import { address, filter } from './state.js';

const PAGE = 200;
const ROW = 34;
/** How long a filtered list stays as it is while sessions change, in milliseconds. */
const STEADY = 500;

export const failed = (run) => run.status !== 'running' && !(run.status === 'exited' && run.exit_code === 0);

/** Sessions with changes put in: the most recently active first, none that is gone. Pure. */
export function merged(list, changed, gone) {
  const out = new Set([...gone, ...changed.map((session) => session.session_id)]);
  const all = [...list.filter((session) => !out.has(session.session_id)), ...changed];
  return all.sort((one, other) => (one.last_active_at < other.last_active_at ? 1 : one.last_active_at > other.last_active_at ? -1 : one.session_id < other.session_id ? -1 : 1));
}

/** Sessions with what came while they were read: nothing that is older than what was read. Pure. */
export function caughtUp(list, news) {
  const seqs = new Map(list.map((session) => [session.session_id, session.seq]));
  return news.reduce((all, { some, gone }) => merged(all, some.filter((session) => !(seqs.get(session.session_id) > session.seq)), gone), list);
}

export function open(main, state) {
  const running = new Map();
  const last = new Map();
  /** The record up to which a session's details were read. */
  const asked = new Map();
  const services = new Map();
  let list = [];
  let next = null;
  let node = null;
  let text = state.params.q ?? '';
  let stamp = Date.now();
  let reading = null;
  /** Changes that came while the list was read, which may lack them. */
  let news = [];
  let later = null;
  let chosen = null;
  const summary = h('p.summary', { role: 'status' });
  const trouble = h('div');
  const input = h('input', { type: 'search', value: text, placeholder: 'agent:builder running: failed: live: text', 'aria-label': 'Filter sessions', oninput: () => filtered() });
  const rows = new Rows({ label: 'Sessions', rowHeight: ROW, make: makeRow, show: showRow, onopen: go, onselect: (index) => { chosen = list[index]?.session_id ?? null; } });
  rows.element.classList.add('fleet');
  rows.onpaint = (start, amount) => {
    details(list.slice(start, start + amount));
    if (next && !reading && start + amount > list.length - PAGE / 4) load({ more: true });
  };
  const empty = h('p.pad.quiet', { hidden: true });
  fill(main, h('section.page', null,
    h('div.bar', null, h('h1', null, 'Sessions'), summary, h('span.grow'), input),
    trouble, heads(), rows.element, empty));

  function go(index) {
    location.hash = address({ page: 'session', id: list[index].session_id });
  }

  function refresh() {
    rows.resize(list.length);
    const place = list.findIndex((session) => session.session_id === chosen);
    if (list.length) rows.select(Math.max(0, place), { quiet: true });
    chosen = list[rows.selected]?.session_id ?? null;
    const found = text.trim() ? `${count(list.length)}${next ? '+' : ''} found · ` : '';
    fill(summary, node ? `${found}${counted(node.sessions, 'session')} · ${count(node.live_shells)} with a shell · ${count(node.running)} running` : `${found}${count(list.length)}${next ? '+' : ''} shown`);
    empty.hidden = list.length > 0 || reading !== null;
    fill(empty, text.trim() ? 'No session matches the filter.' : 'No sessions yet. `shellkeep run -s demo -- date` creates one.');
    rows.draw();
  }

  function filtered() {
    text = input.value;
    history.replaceState(null, '', address({ page: 'fleet', params: { q: text } }));
    load();
  }

  function showRow(parts, index) {
    const session = list[index];
    const run = running.get(session.session_id);
    const done = last.get(session.session_id)?.run;
    const mark = session.held ? 'held' : run ? 'running' : session.live ? 'live' : 'asleep';
    parts.element.dataset.mark = mark;
    parts.mark.textContent = { held: '‖', running: '▶', live: '●', asleep: '◌' }[mark];
    parts.mark.title = { held: 'held', running: 'running', live: 'has a shell', asleep: 'asleep' }[mark];
    parts.name.textContent = session.session_id;
    parts.agent.textContent = session.agent ?? '';
    parts.name.title = session.sandbox ? `sandbox: ${session.sandbox}` : '';
    parts.what.textContent = run ? `$ ${plain(run.command)}` : done ? `$ ${plain(done.command)}` : plain(session.cwd);
    parts.how.textContent = run ? clock(run.seconds + (Date.now() - stamp) / 1000) : done ? outcome(done) : '';
    parts.how.dataset.failed = Boolean(!run && done && failed(done));
    parts.files.textContent = last.get(session.session_id)?.files ?? '';
    parts.notes.textContent = notes(session, done).join(', ');
    parts.seq.textContent = `#${count(session.seq)}`;
    parts.when.textContent = ago(session.last_active_at);
  }

  /** What else there is to say of a session: who holds it, its services, notices of its last command, its origin. */
  function notes(session, done) {
    const origin = session.forked_from;
    const running = services.get(session.session_id);
    return [
      session.held ? `held by ${plain(session.held.holder)}` : null,
      running ? counted(running, 'service') : null,
      done?.notices ? counted(done.notices, 'notice') : null,
      origin ? `fork of ${origin.session_id}@${origin.seq}` : null,
    ].filter(Boolean);
  }

  /** Reads how the last command of the visible sessions ended. */
  function details(visible) {
    for (const session of visible) {
      if (asked.get(session.session_id) === session.seq) continue;
      asked.set(session.session_id, session.seq);
      detail(session.session_id).catch(() => {});
    }
  }

  async function detail(id) {
    const { runs: [run] } = await get(`${path`/v1/sessions/${id}/runs`}?limit=1`);
    const before = last.get(id);
    last.set(id, { run, files: before?.run?.run_id === run?.run_id ? before?.files : '' });
    rows.draw();
    const isListed = list.some((session) => session.session_id === id);
    if (!run || run.status === 'running' || !isListed) return;
    const { checkpoints: [saved] } = await get(path`/v1/sessions/${id}/checkpoints` + query({ after: run.seq, limit: 1 }));
    if (saved?.run_id !== run.run_id || last.get(id).run !== run) return;
    last.set(id, { run, files: changes(saved) });
    rows.draw();
  }

  async function readServices() {
    const { services: all } = await get('/v1/services');
    services.clear();
    for (const one of all) if (['running', 'starting'].includes(one.status)) services.set(one.session_id, (services.get(one.session_id) ?? 0) + 1);
    rows.draw();
  }

  /** Reads the list from its beginning, or the next page of it. */
  async function load({ more = false } = {}) {
    reading?.abort();
    const mine = (reading = new AbortController());
    news = [];
    const { words, ...wanted } = filter(text);
    const switches = Object.fromEntries(['live', 'running', 'failed'].map((name) => [name, wanted[name] || null]));
    // As many rows as were there, so that the place does not jump.
    const limit = more ? PAGE : Math.max(PAGE, Math.min(list.length, 1000));
    try {
      let found = more ? list : [];
      let after = more ? next : null;
      const enough = found.length + limit;
      do {
        const page = await get('/v1/sessions' + query({ order: 'active', q: words.join(' '), agent: wanted.agent, ...switches, limit, after }), { signal: mine.signal });
        found = merged(found, page.sessions, []);
        after = page.next;
        if (mine !== reading) return;
      } while (after && found.length < enough);
      [list, next] = [caughtUp(found, news), after];
      fill(trouble);
    } catch (error) {
      if (error.name === 'AbortError') return;
      fill(trouble, problem(error));
    } finally {
      if (mine === reading) reading = null;
    }
    refresh();
  }

  function changed({ sessions: some = [], gone = [], node: now }) {
    if (now) {
      if (now.services !== node?.services) readServices().catch(() => {});
      running.clear();
      for (const command of now.commands) running.set(command.session_id, command);
      node = now;
      stamp = Date.now();
    }
    if (text.trim() && some.length) {
      // Whether a filter keeps them, the daemon knows.
      later ??= setTimeout(() => { later = null; load(); }, STEADY);
      const known = new Set(list.map((session) => session.session_id));
      some = some.filter((session) => known.has(session.session_id));
    }
    if (reading) news.push({ some, gone });
    list = merged(list, some, gone);
    refresh();
  }

  const unfollow = follow('sessions', { snapshot: (all) => { changed(all); load(); }, update: changed });
  load();
  const tick = setInterval(() => rows.draw(), 1000);
  bind({
    '/': ['filter', () => input.focus()],
    Enter: ['open the session', () => rows.selected >= 0 && go(rows.selected)],
    j: ['next', () => { rows.element.focus(); rows.select(rows.selected + 1); }],
    k: ['previous', () => { rows.element.focus(); rows.select(rows.selected - 1); }],
    r: ['read again', () => load()],
  });
  rows.element.focus();
  return { close: () => { unfollow(); clearInterval(tick); clearTimeout(later); reading?.abort(); } };
}

/** `exit 2`, `timed out`. */
export function outcome(run) {
  if (run.status === 'exited') return `exit ${run.exit_code}`;
  return run.status.replace('_', ' ');
}

/** `+2 ~1 −1`: files that a checkpoint added, changed and deleted. Pure. */
export function changes({ added, changed, deleted }) {
  return [['+', added], ['~', changed], ['−', deleted]].filter(([, number]) => number > 0).map(([sign, number]) => sign + number).join(' ');
}

const COLUMNS = [['mark', ''], ['name', 'session'], ['agent', 'agent'], ['what', 'command'], ['how', 'result'], ['files', 'files'], ['notes', 'notes'], ['seq', 'records'], ['when', 'active']];

function heads() {
  return h('div.row.heads.fleet', { 'aria-hidden': 'true' }, COLUMNS.map(([name, word]) => h('span', { class: name }, word)));
}

function makeRow() {
  const parts = {};
  for (const [name] of COLUMNS) parts[name] = h('span', { class: name });
  parts.element = h('div.fleet', null, Object.values(parts));
  return parts;
}
