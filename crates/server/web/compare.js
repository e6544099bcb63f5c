// Two sessions side by side, such as two forks: the first command that differs, results, times.

import { get, path, query } from './api.js';
import { fill, h, link, problem } from './dom.js';
import { counted, plain, span } from './format.js';
import { failed, outcome } from './fleet.js';
import { bind } from './keys.js';
import { address } from './state.js';

const MOST = 500;

/** Runs of two sessions as rows, and the first row that differs. Pure. */
export function aligned(left, right) {
  const rows = [];
  let first = -1;
  for (let at = 0; at < Math.max(left.length, right.length); at += 1) {
    const [one, other] = [left[at] ?? null, right[at] ?? null];
    const differs = !one || !other || one.command !== other.command || one.exit_code !== other.exit_code || one.status !== other.status;
    if (differs && first < 0) first = at;
    rows.push({ one, other, differs });
  }
  return { rows, first };
}

/** The runs of a session after the moment at which another was forked from it; all of them if it was not. Pure. */
export function since(runs, session, forkedFrom) {
  return forkedFrom?.session_id === session ? runs.filter((run) => run.seq > forkedFrom.seq) : runs;
}

export function open(main, state) {
  const { id, other } = state;
  const name = (label, value, set) => h('label', null, label, ' ', h('input', { type: 'text', value, onchange: (event) => (location.hash = set(event.target.value)) }));
  const body = h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Comparison' });
  fill(main, h('section.page', null, h('div.bar', null, h('h1', null, 'Compare'),
    name('Session', id, (value) => address({ page: 'compare', id: value, other })), name('with', other, (value) => address({ page: 'compare', id, other: value }))), body));
  bind({ Escape: ['all sessions', () => (location.hash = '#/')], q: ['all sessions', () => (location.hash = '#/')] });

  async function runs(session) {
    const page = await get(path`/v1/sessions/${session}/runs` + query({ limit: MOST }));
    return page.runs.reverse();
  }

  async function load() {
    if (!id || !other) return fill(body, h('p.quiet', null, 'Name two sessions.'));
    try {
      const [before, after, one, two] = await Promise.all([runs(id), runs(other), get(path`/v1/sessions/${id}`), get(path`/v1/sessions/${other}`)]);
      const [left, right] = [since(before, id, two.forked_from), since(after, other, one.forked_from)];
      const { rows, first } = aligned(left, right);
      const total = (list) => `${counted(list.length, 'command')}, ${counted(list.filter(failed).length, 'failure')}, ${span(list.reduce((sum, run) => sum + run.duration_ms / 1000, 0))}`;
      return fill(body,
        h('p', { role: 'status' }, first < 0 ? 'All commands and their results are the same.' : `The first difference is command ${first + 1}${left.length + right.length < before.length + after.length ? ' since the fork' : ''}.`),
        h('table.even', null, h('caption', null, 'Commands'), h('thead', null, h('tr', null, h('th', { scope: 'col' }, '#'), h('th', { scope: 'col' }, `${id}: ${total(left)}`), h('th', { scope: 'col' }, `${other}: ${total(right)}`))),
          h('tbody', null, rows.map((row, index) => h('tr', { class: row.differs ? 'differs' : null }, h('th', { scope: 'row' }, `${index + 1}${row.differs ? ' ≠' : ''}`), cell(id, row.one), cell(other, row.other))))));
    } catch (error) {
      return fill(body, problem(error));
    }
  }

  function cell(session, run) {
    if (!run) return h('td.quiet', null, '–');
    return h('td.mono', null, link(address({ page: 'session', id: session, seq: run.seq }), `$ ${plain(run.command).slice(0, 120)}`), ' ',
      h('span', { class: failed(run) ? 'bad' : 'quiet' }, `${failed(run) ? '! ' : ''}${outcome(run)} · ${span(run.duration_ms / 1000)}`));
  }

  load();
  return {};
}
