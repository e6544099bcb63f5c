// The terminal of a session: one person is in control, everybody watches. That person holds the session, so that the agent's
// commands wait; each line is a command of the session, recorded like every other.

import { get, mayAct, path, post, query, remove } from './api.js';
import { button, fill, h, link, problem, say } from './dom.js';
import { plain } from './format.js';
import { failed as hasFailed, outcome } from './fleet.js';
import { bind, open as openDialog } from './keys.js';
import { follow } from './live.js';
import { output } from './output.js';
import { Screen, keyName } from './screen.js';
import { tabs } from './session.js';
import { address } from './state.js';

/** Seconds until a hold ends after the page is gone, and how often it is extended. */
const TTL = 120;
const EXTEND = 50;
const A_DAY = 86_400;
/** Commands that ended while the page is open and stay on it, and how many are looked for at a time. */
const KEPT = 50;
const RECENT = 10;
/** Bytes of a command's output that are shown when it has ended. */
const SHOWN = 100_000;

const storage = (id) => `shellkeep-hold:${id}`;

export function open(main, state) {
  const id = state.id;
  const url = path`/v1/sessions/${id}`;
  let session = null;
  let hold = JSON.parse(sessionStorage.getItem(storage(id)) ?? 'null');
  let run = null;
  let closed = false;
  let unlook = () => {};
  let hasScreen = true;
  /** The record of the last end that is on the page. */
  let told = null;
  /** Runs that used the whole screen, whose output is no text to read. */
  const drawn = new Set();
  let waiting = [];
  let sending = false;
  const status = h('span.quiet', { role: 'status' });
  const tools = h('span.tools');
  const element = h('div.screen', { tabindex: '0', role: 'region', 'aria-label': 'Terminal', onkeydown: pressed, onpaste: pasted });
  const screen = new Screen(element);
  /** What went wrong, until something goes well; and what the last hand back said, until the next command. */
  const trouble = h('div');
  const note = h('div');
  const bare = h('p.quiet.pad.grow', null, 'The command that runs has no terminal. ', link(address({ page: 'session', id }), 'Its output is in the timeline.'));
  const past = h('div.past', { tabindex: '0', role: 'log', 'aria-label': 'Commands' });
  const idle = h('p.quiet.pad.grow', null, 'No command is running. The screen of the next one appears here.');
  const input = h('input.mono', { type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', 'aria-label': 'Command' });
  const prompt = h('form.prompt', { onsubmit: entered }, h('code', null, '$'), input, button('Run', entered, { type: 'submit' }));
  fill(main, h('section.page.terminal', null,
    h('div.session-head', null, h('h1', null, link('#/', 'Sessions'), ' / ', link(address({ page: 'session', id }), id), ' / terminal'), status, h('span.grow'), tools, tabs(id, 'terminal')),
    trouble, note, idle, bare, past, element, prompt));

  const drives = () => hold !== null;

  function keep(next) {
    hold = next;
    if (next) sessionStorage.setItem(storage(id), JSON.stringify(next));
    else sessionStorage.removeItem(storage(id));
  }

  function draw() {
    const held = session?.held;
    const who = drives() ? 'You have taken over; the agent waits.' : held ? `${plain(held.holder)} has taken over${held.reason ? ` (${plain(held.reason)})` : ''}; you are watching.` : 'Nobody has taken over; you are watching.';
    const what = run ? ` ${run.run_id} is running.` : '';
    if (status.textContent !== who + what) fill(status, who + what);
    // It stays while a command runs, so that the terminal keeps its size.
    prompt.hidden = !drives();
    input.disabled = run !== null;
    element.dataset.drives = drives() && run !== null;
    element.hidden = run === null || !hasScreen;
    bare.hidden = run === null || hasScreen;
    past.hidden = run !== null || !past.childElementCount;
    idle.hidden = run !== null || !past.hidden;
    const can = mayAct() && session;
    const key = `${can} ${drives()} ${held?.holder}`;
    if (tools.dataset.key === key) return;
    tools.dataset.key = key;
    fill(tools, !can ? null : drives() ? button('Hand back', handBack, { class: 'primary' }) : held ? button('Take over anyway…', () => takeOver(true)) : button('Take over…', () => takeOver(false), { class: 'primary' }));
  }

  function failed(error) {
    if (error.name === 'AbortError' || closed) return;
    if (error.code === 'hold_over' || error.code === 'session_held') keep(null);
    fill(trouble, problem(error));
    draw();
  }

  async function load() {
    try {
      session = await get(url);
      const { runs } = await get(`${url}/runs?limit=${RECENT}`);
      const now = runs[0]?.status === 'running' ? runs[0] : null;
      remember(runs.filter((one) => one.status !== 'running').reverse());
      if (now?.run_id !== run?.run_id) show(now);
      fill(trouble);
      draw();
    } catch (error) {
      failed(error);
    }
  }

  /** Adds the commands that have ended since the page was opened. */
  function remember(ended) {
    const last = ended[ended.length - 1]?.seq ?? 0;
    const fresh = told === null ? [] : ended.filter((one) => one.seq > told);
    told = Math.max(told ?? 0, last);
    for (const one of fresh) {
      const body = h('div');
      past.append(h('article', null, h('h2.mono', null, `$ ${plain(one.command)} `, hasFailed(one) ? h('span.bad', null, `! ${outcome(one)}`) : null), body));
      reread(one.run_id, body).catch((error) => fill(body, problem(error)));
    }
    while (past.childElementCount > KEPT) past.firstElementChild.remove();
  }

  async function reread(runId, body) {
    if (drawn.has(runId)) return fill(body, h('p.quiet', null, 'It used the whole screen.'));
    const { stdout, stderr } = await get(path`/v1/sessions/${id}/runs/${runId}` + query({ max_output: SHOWN }));
    fill(body, [stdout, stderr].filter(Boolean).map(output));
    past.scrollTop = past.scrollHeight;
    return null;
  }

  function show(next) {
    unlook();
    run = next;
    hasScreen = true;
    unlook = run ? look(run.run_id) : () => {};
    if (!run && drives()) setTimeout(() => input.focus());
    draw();
  }

  /** Follows the screen of a run until it ends. */
  function look(runId) {
    let isFirst = true;
    screen.clear();
    return follow(`screen/${id}/${runId}`, {
      snapshot: (now) => {
        if (now.alternate) drawn.add(runId);
        screen.draw(now);
        if (isFirst && drives()) {
          element.focus();
          const size = screen.fits();
          if (size.rows !== now.rows || size.cols !== now.cols) resize();
        }
        isFirst = false;
        if (!now.running) load();
      },
      error: (refusal) => {
        if (refusal.code === 'run_ended') return load();
        if (refusal.code !== 'no_terminal') return failed(refusal);
        hasScreen = false;
        return draw();
      },
    });
  }

  async function resize() {
    if (!run || !drives()) return;
    try {
      await post(path`/v1/sessions/${id}/runs/${run.run_id}/resize`, { ...screen.fits(), hold: hold.hold_id });
    } catch (error) {
      if (error.code !== 'run_ended') failed(error);
    }
  }

  function pressed(event) {
    if (!drives() || run === null || event.metaKey) return;
    // The one key that leaves, so that nobody is caught in the terminal.
    if (event.ctrlKey && event.key === ']') {
      element.blur();
      tools.querySelector('button')?.focus();
      event.preventDefault();
      return;
    }
    if (event.ctrlKey && event.shiftKey) return;
    const name = keyName(event);
    if (name === null) return;
    event.preventDefault();
    type({ keys: [name] });
  }

  function pasted(event) {
    if (!drives() || run === null) return;
    event.preventDefault();
    const text = event.clipboardData.getData('text');
    const lines = text.split('\n').length;
    if (lines > 1 && !confirm(`Paste ${lines} lines?`)) return;
    type({ text: text.replace(/\r?\n/g, '\r') });
  }

  /** Sends input in order. Keys that are typed while others are on their way go together. */
  async function type(next) {
    const last = waiting[waiting.length - 1];
    if (next.keys && last?.keys) last.keys.push(...next.keys);
    else waiting.push(next);
    if (sending) return;
    sending = true;
    try {
      while (waiting.length && run && hold) {
        await post(path`/v1/sessions/${id}/runs/${run.run_id}/input`, { ...waiting.shift(), hold: hold.hold_id });
      }
    } catch (error) {
      if (error.code !== 'run_ended') failed(error);
    } finally {
      waiting = [];
      sending = false;
    }
  }

  async function entered(event) {
    event.preventDefault();
    const command = input.value;
    if (!command.trim() || !drives() || run) return;
    input.value = '';
    fill(note);
    // The terminal has the size of the place where it will be.
    [element.hidden, past.hidden, idle.hidden] = [false, true, true];
    try {
      const body = { command, tty: true, tty_size: screen.fits(), blocking: false, timeout: A_DAY, hold: hold.hold_id, by: 'person' };
      show(await post(`${url}/run`, body));
    } catch (error) {
      failed(error);
    }
  }

  function takeOver(force) {
    const name = h('input', { type: 'text', maxlength: '200', value: localStorage.getItem('shellkeep-name') ?? '', placeholder: 'a person' });
    const reason = h('input', { type: 'text', maxlength: '200', placeholder: 'shown to callers who wait' });
    const refusal = h('div');
    const words = force ? `${plain(session.held.holder)} holds this session. Taking over ends that hold.` : 'The agent\'s commands wait until you hand back. A command that runs now continues.';
    const go = button('Take over', take, { class: 'primary' });
    const dialog = h('dialog', { 'aria-label': 'Take over' }, h('h2', null, `Take over ${id}`), h('p', null, words),
      h('label', null, 'Your name', name), h('label', null, 'Reason', reason), refusal,
      h('div.actions', null, button('Cancel', () => dialog.close()), go));
    openDialog(dialog);
    name.focus();
    async function take() {
      go.disabled = true;
      try {
        if (force) await remove(`${url}/hold`);
        const asked = { holder: name.value.trim() || 'a person', ttl: TTL, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) };
        const held = await post(`${url}/hold`, asked);
        localStorage.setItem('shellkeep-name', name.value.trim());
        keep({ ...asked, hold_id: held.hold_id });
        dialog.close();
        say('You have taken over. Ctrl-] leaves the terminal.');
        await load();
        if (run) element.focus();
        else input.focus();
      } catch (error) {
        go.disabled = false;
        fill(refusal, problem(error));
        load();
      }
    }
  }

  async function handBack() {
    try {
      const done = await remove(`${url}/hold` + query({ hold_id: hold.hold_id }));
      keep(null);
      await load();
      fill(note, h('p.notice', { role: 'status' }, done.notice ? `Handed back. The agent will read: ${plain(done.notice)}` : 'Handed back.'));
    } catch (error) {
      failed(error);
    }
  }

  async function extend() {
    if (!drives()) return;
    try {
      await post(`${url}/hold`, hold);
    } catch (error) {
      // A daemon that is away comes back with the hold.
      if (error.status) failed(error);
    }
  }

  const timer = setInterval(extend, EXTEND * 1000);
  addEventListener('resize', resize);
  const unfollow = follow(`session/${id}`, { snapshot: () => extend().then(load), update: load });
  const back = () => (location.hash = address({ page: 'session', id }));
  bind({ q: ['timeline', back], Escape: ['timeline', back] });
  return {
    close: () => {
      closed = true;
      unlook();
      clearInterval(timer);
      removeEventListener('resize', resize);
      unfollow();
    },
    update: () => {},
  };
}
