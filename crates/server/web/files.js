// A session's files: what changed between two moments, a patch per file on demand, the history of one file, a file as it was.

import { blob, get, path, query } from './api.js';
import { render } from './diff.js';
import { button, fill, h, link, problem } from './dom.js';
import { count, counted, moment, plain, size } from './format.js';
import { changeMark, counts } from './inspector.js';
import { bind } from './keys.js';
import { output } from './output.js';
import { tabs } from './session.js';
import { address } from './state.js';

/** Bytes of a file that are shown. */
const LONGEST = 200_000;
/** The session as it was created: its first record. */
const BEGINNING = '1';

export function open(main, state) {
  const id = state.id;
  let params = state.params;
  let moments = [];
  let diff = null;
  const from = h('select', { 'aria-label': 'From', onchange: () => go({ from: from.value }) });
  const to = h('select', { 'aria-label': 'To', onchange: () => go({ to: to.value }) });
  const sides = button('Side by side', () => go({ view: params.view === 'split' ? '' : 'split' }));
  const side = h('nav.side', { 'aria-label': 'Changed files' });
  const body = h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Patch' });
  fill(main, h('section.page', null,
    h('div.session-head', null, h('h1', null, link('#/', 'Sessions'), ' / ', link(address({ page: 'session', id }), id), ' / files'), h('span.grow'), tabs(id, 'files')),
    h('div.bar', null, h('label', null, 'From ', from), h('label', null, 'to ', to), h('span.grow'),
      sides),
    h('div.split-view', null, side, body)));

  function go(next) {
    location.hash = address({ page: 'files', id, params: { ...params, ...next } });
  }

  async function load() {
    fill(body, h('p.quiet', null, 'Loading…'));
    try {
      const page = await get(path`/v1/sessions/${id}/checkpoints` + query({ limit: 1000 }));
      moments = page.checkpoints;
      choices();
      if (!moments.length) {
        fill(side, h('p.quiet.pad', null, 'No checkpoints yet.'));
        return fill(body, h('p.quiet', null, 'Files are saved after a command that changes them.'));
      }
      diff = await get(path`/v1/sessions/${id}/diff` + query({ from: from.value, to: to.value, patch: false, redact: true }));
      list();
      return show();
    } catch (error) {
      return fill(body, problem(error));
    }
  }

  function choices() {
    const options = (chosen, extra) => [
      extra ? null : h('option', { value: BEGINNING }, 'the beginning'),
      ...moments.map((one) => h('option', { value: one.checkpoint_id }, `#${one.covers ?? one.seq} ${moment(one.created_at)} ${plain(one.command ?? one.cause).slice(0, 60)}`)),
      extra ? h('option', { value: extra }, 'now') : null,
      chosen && ![extra, BEGINNING].includes(chosen) && !moments.some((one) => one.checkpoint_id === chosen) ? h('option', { value: chosen }, chosen) : null,
    ];
    fill(from, options(params.from, null));
    fill(to, options(params.to, 'now'));
    from.value = params.from ?? BEGINNING;
    to.value = params.to ?? 'now';
  }

  function list() {
    const items = diff.files.map((file) => h('li', null, link(address({ page: 'files', id, params: { ...params, path: file.path, history: '', at: '' } }), [changeMark(file), ' ', plain(file.path), ' ', counts(file)],
      file.path === (params.path ?? diff.files[0].path) ? { 'aria-current': 'true' } : {})));
    fill(side, h('p.quiet', null, counted(diff.files.length, 'changed file')), h('ul', null, items));
  }

  async function show() {
    fill(sides, params.view === 'split' ? 'Unified' : 'Side by side');
    list();
    const chosen = params.path ?? diff.files[0]?.path;
    if (!chosen) return fill(body, h('p.quiet', null, 'No file differs between these moments.'));
    const title = h('div.bar', null, h('h2.mono', null, plain(chosen)), params.at ? h('span.quiet', null, `as it was at ${plain(params.at)}`) : null, h('span.grow'),
      params.at ? button('Download', () => save(params.at, chosen)) : null,
      params.history || params.at ? button('Patch', () => go({ path: chosen, history: '', at: '' })) : null,
      params.history ? null : button('History', () => go({ path: chosen, history: '1', at: '' })));
    try {
      if (params.at) return fill(body, title, await content(params.at, chosen));
      if (params.history) {
        const { changes } = await get(path`/v1/sessions/${id}/files/history` + query({ path: chosen }));
        return fill(body, title, past(changes, chosen));
      }
      const { patch, truncated } = await get(path`/v1/sessions/${id}/diff` + query({ from: from.value, to: to.value, path: chosen, redact: true }));
      return fill(body, title, patch ? render(patch, params.view === 'split') : h('p.quiet', null, 'No text to compare.'), truncated ? h('p.notice', null, 'The patch is long; its end is not shown.') : null);
    } catch (error) {
      return fill(body, title, problem(error));
    }
  }

  const asItWas = (at, file) => path`/v1/sessions/${id}/checkpoints/${at}/file` + query({ path: file });

  async function save(at, file) {
    const { download } = await import('./download.js');
    await download(asItWas(at, file), file.split('/').pop());
  }

  /** A file at a moment, as text. */
  async function content(at, file) {
    const bytes = await blob(asItWas(at, file));
    if (!bytes.size) return h('p.quiet', null, 'The file is empty.');
    const text = await bytes.slice(0, LONGEST).text();
    if (text.includes('\0')) return h('p.quiet', null, `${size(bytes.size)} that are not text.`);
    return [output(text), bytes.size > LONGEST ? h('p.notice', null, 'The file is long; download it for all of it.') : null];
  }

  function past(changes, file) {
    if (!changes.length) return h('p.quiet', null, 'This file never changed.');
    return h('table', null, h('caption', null, 'History of this file'), h('thead', null, h('tr', null, ['record', 'when', 'change', 'size', 'file'].map((name) => h('th', { scope: 'col' }, name)))),
      h('tbody', null, changes.map((one) => h('tr', null,
        h('td', null, link(address({ page: 'session', id, seq: one.seq }), `#${count(one.seq)}`)), h('td', null, moment(one.timestamp)), h('td', null, changeMark(one), ' ', one.kind.replace('_', ' ')),
        h('td', null, size(one.size ?? 0)),
        h('td', null, one.kind === 'deleted' ? null : [link(address({ page: 'files', id, params: { ...params, path: file, history: '', at: one.checkpoint_id } }), 'as it was'), ' ',
          button('Download', () => save(one.checkpoint_id, file), { class: 'small' })])))));
  }

  function step(by) {
    const at = diff?.files.findIndex((file) => file.path === (params.path ?? diff.files[0]?.path)) ?? -1;
    const next = diff?.files[at + by];
    if (next) go({ path: next.path, at: '' });
  }

  load();
  bind({
    j: ['next file', () => step(1)], k: ['previous file', () => step(-1)],
    s: ['side by side or unified', () => go({ view: params.view === 'split' ? '' : 'split' })],
    Escape: ['timeline', () => (location.hash = address({ page: 'session', id }))],
    q: ['timeline', () => (location.hash = address({ page: 'session', id }))],
  });
  return {
    update: (next) => {
      const same = (next.params.from ?? '') === (params.from ?? '') && (next.params.to ?? '') === (params.to ?? '');
      params = next.params;
      if (same && diff) show();
      else load();
    },
  };
}
