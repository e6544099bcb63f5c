// Two sessions side by side, forks above all: the files that differ, their commands, the first one that differs, results,
// times.

import { get, path, query } from './api.js';
import { button, fill, h, link, problem } from './dom.js';
import { counted, plain, span } from './format.js';
import { failed, outcome } from './fleet.js';
import { fileEntry } from './inspector.js';
import { bind } from './keys.js';
import { address } from './state.js';

const MOST = 500;
/** Files that are listed. */
const MOST_FILES = 500;

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
  let params = state.params;
  let found = null;
  const name = (label, value, set) => h('label', null, label, ' ', h('input', { type: 'text', value, onchange: (event) => (location.hash = set(event.target.value)) }));
  const files = h('section', { 'aria-label': 'Files' });
  const commands = h('section', { 'aria-label': 'Commands' });
  fill(main, h('section.page', null, h('div.bar', null, h('h1', null, 'Compare'),
    name('Session', id, (value) => address({ page: 'compare', id: value, other })), name('with', other, (value) => address({ page: 'compare', id, other: value }))),
  h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Comparison' }, files, commands)));
  const home = () => (location.hash = '#/');
  bind({ s: ['side by side or unified', turn], Escape: ['all sessions', home], q: ['all sessions', home] });

  async function runs(session) {
    const page = await get(path`/v1/sessions/${session}/runs` + query({ limit: MOST }));
    return page.runs.reverse();
  }

  async function load() {
    if (!id || !other) return fill(commands, h('p.quiet', null, 'Name two sessions.'));
    return Promise.all([readFiles(), readCommands()]);
  }

  /** From the first session to the second. */
  const diff = (more) => path`/v1/sessions/${other}/diff` + query({ from_session: id, redact: true, ...more });

  async function readFiles() {
    fill(files, h('h2', null, 'Files'), h('p.quiet', null, 'Comparing…'));
    try {
      found = (await get(diff({ patch: false }))).files;
      showFiles();
    } catch (error) {
      fill(files, h('h2', null, 'Files'), problem(error));
    }
  }

  function showFiles() {
    if (!found.length) return fill(files, h('h2', null, 'Files'), h('p', null, 'All files are the same.'));
    const split = params.view === 'split';
    const entries = found.slice(0, MOST_FILES).map((file) => {
      const entry = fileEntry(file, diff({ path: file.path }), split);
      entry.addEventListener('toggle', () => {
        if (entry.open) remember({ path: file.path });
        else if (params.path === file.path) remember({ path: '' });
      });
      entry.open = file.path === params.path;
      return entry;
    });
    return fill(files, h('div.bar', null, h('h2', null, 'Files'), h('span', null, found.length === 1 ? '1 file differs.' : `${counted(found.length, 'file')} differ.`),
      h('span.quiet', null, `+ only in ${other} · − only in ${id}`), h('span.grow'), button(split ? 'Unified' : 'Side by side', turn)),
    entries, found.length > entries.length ? h('p.quiet', null, `The first ${counted(entries.length, 'file')} are listed.`) : null);
  }

  function turn() {
    remember({ view: params.view === 'split' ? '' : 'split' });
    if (found) showFiles();
  }

  /** Writes what is shown into the address. */
  function remember(next) {
    params = { ...params, ...next };
    history.replaceState(null, '', address({ page: 'compare', id, other, params }));
  }

  async function readCommands() {
    try {
      const [before, after, one, two] = await Promise.all([runs(id), runs(other), get(path`/v1/sessions/${id}`), get(path`/v1/sessions/${other}`)]);
      const [left, right] = [since(before, id, two.forked_from), since(after, other, one.forked_from)];
      const { rows, first } = aligned(left, right);
      const total = (list) => `${counted(list.length, 'command')}, ${counted(list.filter(failed).length, 'failure')}, ${span(list.reduce((sum, run) => sum + run.duration_ms / 1000, 0))}`;
      const sinceFork = left.length + right.length < before.length + after.length ? ' since the fork' : '';
      return fill(commands, h('h2', null, 'Commands'),
        h('p', { role: 'status' }, first < 0 ? 'All commands and their results are the same.' : `The first difference is command ${first + 1}${sinceFork}.`),
        h('table.even', null, h('thead', null, h('tr', null, h('th', { scope: 'col' }, '#'), h('th', { scope: 'col' }, `${id}: ${total(left)}`), h('th', { scope: 'col' }, `${other}: ${total(right)}`))),
          h('tbody', null, rows.map((row, index) => h('tr', { class: row.differs ? 'differs' : null }, h('th', { scope: 'row' }, `${index + 1}${row.differs ? ' ≠' : ''}`), cell(id, row.one), cell(other, row.other))))));
    } catch (error) {
      return fill(commands, problem(error));
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
