// Rewind, fork and merge back. What would happen is shown first; Cancel is the default; how to undo it stays in sight.

import { path, post } from './api.js';
import { button, fill, h, problem, say } from './dom.js';
import { counted, plain } from './format.js';
import { changeMark, counts } from './inspector.js';
import { open } from './keys.js';
import { address } from './state.js';

/** A dialog whose focus is on Cancel. */
function frame(title) {
  const body = h('div', { 'aria-busy': 'true' }, h('p.quiet', null, 'Looking at what would change…'));
  const actions = h('div.actions');
  const dialog = h('dialog', { 'aria-label': title }, h('h2', null, title), body, actions);
  const cancel = button('Cancel', () => dialog.close(), { autofocus: true });
  fill(actions, cancel);
  open(dialog);
  cancel.focus();
  return { dialog, body, actions, cancel };
}

function files(list, total) {
  if (!list.length) return h('p.quiet', null, 'No files change.');
  return [h('p', null, counted(total ?? list.length, 'file'), ':'), h('div.changes', { tabindex: '0', role: 'group', 'aria-label': 'Files' }, list.map((file) => h('div.mono', null, changeMark(file), ' ', plain(file.path), ' ', counts(file))))];
}

function reasons(list, words) {
  if (!list?.length) return null;
  return h('div.notice', null, words, h('ul', null, list.map((file) => h('li', null, `${plain(file.path)}: ${file.reason}`))));
}

function shell(changes) {
  const names = Object.entries(changes ?? {}).filter(([, value]) => value && (typeof value !== 'object' || Object.keys(value).length));
  return h('p', null, names.length ? `The shell changes: ${names.map(([name]) => name).join(', ')}.` : 'The shell does not change.');
}

/** Rewinds a session to a record. */
export async function rewind(id, { seq }) {
  const { dialog, body, actions, cancel } = frame(`Rewind ${id} to #${seq}?`);
  const stop = h('input', { type: 'checkbox' });
  const url = path`/v1/sessions/${id}/rewind`;
  try {
    const plan = await post(url, { to: seq, dry_run: true });
    body.removeAttribute('aria-busy');
    const others = plan.of_others ?? [];
    const force = h('input', { type: 'checkbox', onchange: () => { go.disabled = others.length > 0 && !force.checked; } });
    const go = button('Rewind', run, { class: 'danger', disabled: others.length > 0 });
    fill(body, files(plan.files, plan.files_total),
      reasons(plan.kept_back, 'These are not restored:'), reasons(plan.uncertain, 'These may differ:'),
      others.length ? [reasons(others, 'Other sessions changed these:'), h('label', null, force, 'Undo the changes of other sessions too')] : null,
      shell(plan.shell),
      plan.agent_state_version ? h('p', null, `The agent's state returns to version ${plan.agent_state_version}.`) : null,
      h('label', null, stop, 'Stop services that were started since'),
      h('p.quiet', null, 'What a model remembers of its conversation is not rewound. A rewind is a record like any other and can be undone.'));
    fill(actions, cancel, button('Fork instead…', () => { dialog.close(); fork(id, { seq }); }), go);
    cancel.focus();
    async function run() {
      go.disabled = true;
      try {
        const done = await post(url, { to: seq, services: stop.checked ? 'stop' : 'leave', force: force.checked });
        result(id, dialog, body, actions, done);
      } catch (error) {
        fill(body, problem(error));
        fill(actions, cancel);
      }
    }
  } catch (error) {
    body.removeAttribute('aria-busy');
    fill(body, problem(error));
    fill(actions, cancel, button('Fork instead…', () => { dialog.close(); fork(id, { seq }); }));
  }
}

function result(id, dialog, body, actions, done) {
  fill(body, h('p.good', { role: 'status' }, `Rewound to #${done.to}. It is record #${done.seq}.`), (done.notices ?? []).map((notice) => h('p.notice', null, notice.message)));
  const close = button('Close', () => { dialog.close(); location.hash = address({ page: 'session', id, seq: done.seq }); }, { autofocus: true });
  fill(actions, done.undo ? button('Undo', () => { dialog.close(); rewind(id, { seq: done.undo }); }) : null, close);
  close.focus();
}

/** Forks a session at a record. */
export async function fork(id, { seq }) {
  const { dialog, body, actions, cancel } = frame(`Fork ${id} at #${seq}`);
  body.removeAttribute('aria-busy');
  const name = h('input', { type: 'text', placeholder: 'chosen by the daemon', maxlength: '128', pattern: '[A-Za-z0-9_:\\-][A-Za-z0-9._:\\-]*' });
  fill(body, h('p', null, `The fork is a new session with the files and the shell as they were after #${seq}. ${id} is not changed.`), h('label', null, 'Name', name));
  const go = button('Fork', async () => {
    go.disabled = true;
    try {
      const made = await post(path`/v1/sessions/${id}/fork`, { at: seq, ...(name.value ? { session_id: name.value } : {}) });
      dialog.close();
      say(`Forked to ${made.session_id}.`);
      location.hash = address({ page: 'session', id: made.session_id });
    } catch (error) {
      fill(body, problem(error), h('label', null, 'Name', name));
      go.disabled = false;
    }
  }, { class: 'primary' });
  fill(actions, cancel, go);
  name.focus();
}

/** Merges a fork's file changes into the session that it was forked from. */
export async function merge(id, { origin }) {
  const { dialog, body, actions, cancel } = frame(`Merge ${id} back into ${origin.session_id}?`);
  const url = path`/v1/sessions/${id}/merge_back`;
  let prefer = null;
  await look();
  async function look() {
    try {
      const plan = await post(url, { dry_run: true, ...(prefer ? { prefer } : {}) });
      show(plan.files, plan.files_total, plan.conflicts ?? []);
    } catch (error) {
      if (error.code === 'merge_conflict') show([], 0, error.data.conflicts ?? []);
      else fill(body, problem(error));
    }
    body.removeAttribute('aria-busy');
    cancel.focus();
  }
  function show(list, total, conflicts) {
    const choose = h('select', { onchange: () => { prefer = choose.value || null; look(); } },
      h('option', { value: '' }, 'do not merge'), h('option', { value: 'fork' }, 'take the fork\'s'), h('option', { value: 'origin' }, `keep ${origin.session_id}'s`));
    choose.value = prefer ?? '';
    fill(body, files(list, total), conflicts.length ? [reasons(conflicts, 'Both sides changed these:'), h('label', null, 'Where both changed', choose)] : null,
      h('p.quiet', null, 'Only files are merged. The merge is a record of the origin and can be undone there.'));
    const go = button('Merge back', run, { class: 'primary', disabled: conflicts.length > 0 && !prefer });
    fill(actions, cancel, go);
  }
  async function run() {
    try {
      const done = await post(url, prefer ? { prefer } : {});
      fill(body, h('p.good', { role: 'status' }, `Merged into ${done.into}: ${counted(done.files_total, 'file')}.`));
      const close = button('Close', () => dialog.close());
      fill(actions, done.undo ? button('Undo', () => { dialog.close(); rewind(done.into, { seq: done.undo }); }) : null,
        button(`Open ${done.into}`, () => { dialog.close(); location.hash = address({ page: 'session', id: done.into }); }), close);
      close.focus();
    } catch (error) {
      fill(body, problem(error));
      fill(actions, cancel);
    }
  }
}

