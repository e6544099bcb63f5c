// All sessions by activity: what runs, how the last command ended, whose it is.

import { get, path } from './api.js';
import { fill, h, problem } from './dom.js';
import { ago, clock, count, counted, plain } from './format.js';
import { bind } from './keys.js';
import { follow } from './live.js';
import { Rows } from './rows.js';
import { address, filter } from './state.js';

const PAGE = 1000;
const ROW = 34;

/** The sessions that a filter keeps. Pure. */
export function matching(sessions, wanted, running, last) {
  const fits = (session) => {
    if (wanted.agent && session.agent !== wanted.agent) return false;
    if (wanted.live && !session.live) return false;
    if (wanted.running && !running.has(session.session_id)) return false;
    const run = last.get(session.session_id)?.run;
    if (wanted.failed && !(run && failed(run))) return false;
    if (!wanted.words.length) return true;
    const text = `${session.session_id} ${session.agent ?? ''} ${session.cwd} ${running.get(session.session_id)?.command ?? run?.command ?? ''}`.toLowerCase();
    return wanted.words.every((word) => text.includes(word));
  };
  return sessions.filter(fits);
}

export const failed = (run) => run.status !== 'running' && !(run.status === 'exited' && run.exit_code === 0);

export function open(main, state) {
  const sessions = new Map();
  const running = new Map();
  const last = new Map();
  const asked = new Set();
  let order = [];
  let list = [];
  let text = state.params.q ?? '';
  let stamp = Date.now();
  const summary = h('p.summary', { role: 'status' });
  const trouble = h('div');
  const input = h('input', { type: 'search', value: text, placeholder: 'agent:builder running: failed: live: text', 'aria-label': 'Filter sessions', oninput: () => filtered() });
  const rows = new Rows({ label: 'Sessions', rowHeight: ROW, make: makeRow, show: showRow, onopen: go, onselect: () => {} });
  rows.element.classList.add('fleet');
  rows.onpaint = (start, amount) => details(list.slice(start, start + amount));
  const empty = h('p.pad.quiet', { hidden: true });
  fill(main, h('section.page', null,
    h('div.bar', null, h('h1', null, 'Sessions'), summary, h('span.grow'), input),
    trouble, heads(), rows.element, empty));

  function go(index) {
    location.hash = address({ page: 'session', id: list[index].session_id });
  }

  function sort() {
    order = [...sessions.values()].sort((a, b) => (a.last_active_at < b.last_active_at ? 1 : a.last_active_at > b.last_active_at ? -1 : 0));
    refresh();
  }

  function refresh() {
    const chosen = list[rows.selected]?.session_id;
    list = matching(order, filter(text), running, last);
    rows.resize(list.length);
    const place = chosen ? list.findIndex((session) => session.session_id === chosen) : 0;
    if (list.length) rows.select(Math.max(0, place), { quiet: true });
    const alive = order.filter((session) => session.live).length;
    fill(summary, `${counted(order.length, 'session')} · ${count(alive)} with a shell · ${count(running.size)} running`);
    empty.hidden = list.length > 0;
    fill(empty, order.length ? 'No session matches the filter.' : 'No sessions yet. `shellkeep run -s demo -- date` creates one.');
    rows.draw();
  }

  function filtered() {
    text = input.value;
    history.replaceState(null, '', address({ page: 'fleet', params: { q: text } }));
    refresh();
  }

  function showRow(parts, index) {
    const session = list[index];
    const run = running.get(session.session_id);
    const done = last.get(session.session_id)?.run;
    const mark = run ? 'running' : session.live ? 'live' : 'asleep';
    parts.element.dataset.mark = mark;
    parts.mark.textContent = { running: '▶', live: '●', asleep: '◌' }[mark];
    parts.mark.title = { running: 'running', live: 'has a shell', asleep: 'asleep' }[mark];
    parts.name.textContent = session.session_id;
    parts.agent.textContent = session.agent ?? '';
    parts.what.textContent = run ? `$ ${plain(run.command)}` : done ? `$ ${plain(done.command)}` : plain(session.cwd);
    parts.how.textContent = run ? clock(run.seconds + (Date.now() - stamp) / 1000) : done ? outcome(done) : '';
    parts.how.dataset.failed = Boolean(!run && done && failed(done));
    parts.seq.textContent = `#${count(session.seq)}`;
    parts.fork.textContent = session.forked_from ? `${session.forked_from.session_id}@${session.forked_from.seq}` : '';
    parts.when.textContent = ago(session.last_active_at);
  }

  /** Reads how the last command of the visible sessions ended. */
  function details(visible) {
    for (const session of visible) {
      const key = `${session.session_id} ${session.seq}`;
      if (asked.has(key)) continue;
      asked.add(key);
      get(`${path`/v1/sessions/${session.session_id}/runs`}?limit=1`).then(({ runs }) => {
        last.set(session.session_id, { run: runs[0] });
        rows.draw();
      }, () => {});
    }
  }

  async function load() {
    try {
      let after = '';
      do {
        const page = await get(`/v1/sessions?limit=${PAGE}${after && `&after=${encodeURIComponent(after)}`}`);
        for (const session of page.sessions) sessions.set(session.session_id, session);
        sort();
        after = page.next;
      } while (after);
      fill(trouble);
    } catch (error) {
      fill(trouble, problem(error));
    }
  }

  function changed({ sessions: some = [], gone = [], running: commands }) {
    if (commands) {
      running.clear();
      for (const command of commands) running.set(command.session_id, command);
      stamp = Date.now();
    }
    for (const session of some) sessions.set(session.session_id, session);
    for (const id of gone) sessions.delete(id);
    if (some.length || gone.length) sort();
    else refresh();
  }

  const unfollow = follow('sessions', { snapshot: (all) => { changed(all); load(); }, update: changed });
  load();
  const tick = setInterval(() => rows.draw(), 1000);
  bind({
    '/': ['filter', () => input.focus()],
    Enter: ['open the session', () => rows.selected >= 0 && go(rows.selected)],
    j: ['next', () => { rows.element.focus(); rows.select(rows.selected + 1); }],
    k: ['previous', () => { rows.element.focus(); rows.select(rows.selected - 1); }],
    r: ['read again', load],
  });
  rows.element.focus();
  return { close: () => { unfollow(); clearInterval(tick); } };
}

/** `exit 2`, `timed out`. */
export function outcome(run) {
  if (run.status === 'exited') return `exit ${run.exit_code}`;
  return run.status.replace('_', ' ');
}

function heads() {
  return h('div.row.heads.fleet', { 'aria-hidden': 'true' }, ['', 'session', 'agent', 'command', 'result', 'records', 'forked from', 'active'].map((word, place) => h('span', { class: ['mark', 'name', 'agent', 'what', 'how', 'seq', 'fork', 'when'][place] }, word)));
}

function makeRow() {
  const parts = {};
  for (const name of ['mark', 'name', 'agent', 'what', 'how', 'seq', 'fork', 'when']) parts[name] = h('span', { class: name });
  parts.element = h('div.fleet', null, Object.values(parts));
  return parts;
}
