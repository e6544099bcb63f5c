// Plays a session: its events one after the other, at 0.5 to 32 times their speed. Idle time is skipped.

import { get, path, query } from './api.js';
import { button, fill, h, link, problem } from './dom.js';
import { count, moment, plain } from './format.js';
import { bind } from './keys.js';
import { output } from './output.js';
import { MARKS, tabs } from './session.js';
import { address } from './state.js';

export const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32];
/** The longest pause between two events, in seconds: more is idle time. */
const LONGEST = 2;
const SHORTEST = 0.05;
/** Events that stay on the page, and those before the one that is jumped to. */
const KEPT = 60;
const BEFORE = 20;

/** Milliseconds between two events. Pure. */
export function pause(before, after, speed) {
  const seconds = Math.min(LONGEST, Math.max(SHORTEST, (Date.parse(after) - Date.parse(before)) / 1000));
  return (seconds / speed) * 1000;
}

export function open(main, state) {
  const id = state.id;
  let at = Number(state.params.at ?? 0);
  let speed = SPEEDS.includes(Number(state.params.speed)) ? Number(state.params.speed) : 4;
  let last = 0;
  let ahead = [];
  let before = null;
  let timer = null;
  let playing = false;
  let turn = 0;
  const screen = h('div.scroll', { tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': 'Replay' });
  const where = h('span.quiet', { role: 'status' });
  const slider = h('input', { type: 'range', min: '0', value: String(at), 'aria-label': 'Record', oninput: () => jump(Number(slider.value)) });
  const play = button('Play', () => toggle(), { class: 'primary' });
  const rate = h('select', { 'aria-label': 'Speed', onchange: () => { speed = Number(rate.value); remember(); } }, SPEEDS.map((one) => h('option', { value: String(one) }, `${one}×`)));
  rate.value = String(speed);
  fill(main, h('section.page', null,
    h('div.session-head', null, h('h1', null, link('#/', 'Sessions'), ' / ', link(address({ page: 'session', id }), id), ' / replay'), h('span.grow'), tabs(id, 'replay')),
    h('div.bar', null, play, button('Back', () => jump(at - 1)), button('Step', () => { stop(); step(); }), rate, slider, where), screen));

  function remember() {
    history.replaceState(null, '', address({ page: 'replay', id, params: { at: at || '', speed } }));
  }

  async function start() {
    try {
      last = (await get(path`/v1/sessions/${id}`)).seq;
      slider.max = String(last);
      await jump(at || 1);
    } catch (error) {
      fill(screen, problem(error));
    }
  }

  async function more() {
    if (ahead.length) return;
    const from = at;
    const { events } = await get(path`/v1/sessions/${id}/events` + query({ after: at, limit: 20, redact: true }));
    // A jump meanwhile reads its own.
    if (at === from && !ahead.length) ahead = events;
  }

  async function step() {
    try {
      await more();
    } catch (error) {
      stop();
      screen.append(problem(error));
      return false;
    }
    const event = ahead.shift();
    if (!event) {
      stop();
      return false;
    }
    at = event.seq;
    before = event;
    const end = screen.scrollHeight - screen.scrollTop - screen.clientHeight < 60;
    screen.append(show(event));
    while (screen.childNodes.length > KEPT) screen.firstChild.remove();
    if (end || playing) screen.scrollTop = screen.scrollHeight;
    slider.value = String(at);
    fill(where, `#${count(at)} of ${count(last)} · ${moment(event.timestamp)}`);
    remember();
    return true;
  }

  async function run() {
    if (!playing || !(await step())) return;
    await more().catch(() => {});
    if (!ahead.length) return stop();
    timer = setTimeout(run, pause(before.timestamp, ahead[0].timestamp, speed));
  }

  function toggle() {
    if (playing) return stop();
    playing = true;
    fill(play, 'Pause');
    return run();
  }

  function stop() {
    playing = false;
    clearTimeout(timer);
    fill(play, 'Play');
  }

  async function jump(seq) {
    stop();
    const target = Math.max(1, Math.min(last, seq));
    const mine = ++turn;
    at = Math.max(0, target - BEFORE);
    ahead = [];
    fill(screen);
    while (mine === turn && at < target && (await step()));
  }

  function show({ seq, event_type: type, timestamp, data }) {
    const command = data.parameters?.command ?? data.command;
    const texts = [data.output ?? data.message ?? data.response ?? data.content, data.stderr];
    const failed = data.exit_code ? data.exit_code !== 0 : Boolean(data.error);
    const head = typeof command === 'string' ? `$ ${plain(command)}` : `${MARKS.other} ${type}`;
    return h('article', null, h('h2', null, link(address({ page: 'session', id, seq }), `#${seq}`), ' ', h('span.quiet', null, moment(timestamp)), ' ', head, ' ',
      failed ? h('span.bad', null, `! ${plain(data.error ?? `exit ${data.exit_code}`)}`) : null),
    texts.filter((text) => typeof text === 'string' && text).map((text) => output(text)));
  }

  start();
  const back = () => (location.hash = address({ page: 'session', id, seq: at || null }));
  bind({
    ' ': ['play or pause', toggle], j: ['step', () => { stop(); step(); }], k: ['back', () => jump(at - 1)],
    g: ['first', () => jump(1)], G: ['last', () => jump(last)],
    '+': ['faster', () => change(1)], '-': ['slower', () => change(-1)], Escape: ['timeline', back], q: ['timeline', back],
  });
  function change(by) {
    speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed) + by))];
    rate.value = String(speed);
    remember();
  }
  return { close: stop };
}
