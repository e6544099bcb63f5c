// Plays a session: its events one after the other, and the screens of commands with a terminal, at 0.5 to 32 times their
// speed. Idle time is skipped.

import { get, path, query } from './api.js';
import { button, fill, h, link, problem } from './dom.js';
import { Film } from './film.js';
import { count, moment, plain } from './format.js';
import { bind } from './keys.js';
import { output } from './output.js';
import { MARKS, tabs } from './session.js';
import { address } from './state.js';

export const SPEEDS = [0.5, 1, 2, 4, 8, 16, 32];
/** The longest pause between two events, in seconds: more is idle time. */
const LONGEST = 2;
/** The shortest pauses before an event and before a screen. */
const SHORTEST = 0.05;
const SHORTEST_SCREEN = 0.01;
/** Events that stay on the page, and those before the one that is jumped to. */
const KEPT = 60;
const BEFORE = 20;

/** Milliseconds between two moments, which are in milliseconds too. Pure. */
export function pause(before, after, speed, shortest = SHORTEST) {
  const seconds = Math.min(LONGEST, Math.max(shortest, (after - before) / 1000));
  return (seconds / speed) * 1000;
}

export function open(main, state) {
  const id = state.id;
  let at = Number(state.params.at ?? 0);
  let speed = SPEEDS.includes(Number(state.params.speed)) ? Number(state.params.speed) : 4;
  let last = 0;
  let ahead = [];
  /** The moment that is shown, in milliseconds. */
  let now = 0;
  /** The command that runs: `{runId, article, title, film}`. */
  let begun = null;
  let timer = null;
  let playing = false;
  /** Grows when something else is to be shown; what was begun before then ends. */
  let turn = 0;
  /** One step after the other: keys are pressed faster than the daemon answers. */
  let steps = Promise.resolve();
  const inTurn = (act) => (steps = steps.then(act));
  const screen = h('div.scroll', { tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': 'Replay' });
  const where = h('span.quiet', { role: 'status' });
  const slider = h('input', { type: 'range', min: '0', value: String(at), 'aria-label': 'Record', oninput: () => jump(Number(slider.value)) });
  const play = button('Play', () => toggle(), { class: 'primary' });
  const rate = h('select', { 'aria-label': 'Speed', onchange: () => { speed = Number(rate.value); remember(); } }, SPEEDS.map((one) => h('option', { value: String(one) }, `${one}×`)));
  rate.value = String(speed);
  fill(main, h('section.page', null,
    h('div.session-head', null, h('h1', null, link('#/', 'Sessions'), ' / ', link(address({ page: 'session', id }), id), ' / replay'), h('span.grow'), tabs(id, 'replay')),
    h('div.bar', null, play, button('Back', () => jump(at - 1)), button('Step', forward), rate, slider, where), screen));

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
    if (!ahead.length) ahead = (await get(path`/v1/sessions/${id}/events` + query({ after: at, limit: 20, redact: true }))).events;
  }

  /** Shows the next event. Returns whether there was one. */
  async function step() {
    try {
      await more();
      if (!ahead.length) {
        stop();
        return false;
      }
      const end = screen.scrollHeight - screen.scrollTop - screen.clientHeight < 60;
      const article = await shown(ahead[0]);
      if (article) screen.append(article);
      while (screen.childNodes.length > KEPT) screen.firstChild.remove();
      if (end || playing) screen.scrollTop = screen.scrollHeight;
      const event = ahead.shift();
      at = event.seq;
      tell(Date.parse(event.timestamp));
      remember();
      return true;
    } catch (error) {
      stop();
      screen.append(problem(error));
      return false;
    }
  }

  function tell(time) {
    now = time;
    slider.value = String(at);
    fill(where, `#${count(at)} of ${count(last)} · ${moment(now)}`);
  }

  /** When the next screen and the next event come, in milliseconds; Infinity if none does. */
  async function next() {
    await more();
    return { screen: (await begun?.film?.due()) ?? Infinity, event: ahead.length ? Date.parse(ahead[0].timestamp) : Infinity };
  }

  /** Shows what comes next, an event or a screen, and waits for what follows. */
  async function run(mine) {
    if (mine !== turn) return;
    try {
      const due = await next();
      if (due.screen <= due.event && due.screen < Infinity) {
        begun.film.draw();
        screen.scrollTop = screen.scrollHeight;
        tell(due.screen);
      } else if (!(await step())) {
        return;
      }
      const then = await next();
      if (Math.min(then.screen, then.event) === Infinity) return stop();
      const wait = then.screen <= then.event ? pause(now, then.screen, speed, SHORTEST_SCREEN) : pause(now, then.event, speed);
      if (mine === turn) timer = setTimeout(() => inTurn(() => run(mine)), wait);
    } catch (error) {
      stop();
      screen.append(problem(error));
    }
  }

  function toggle() {
    if (playing) return stop();
    playing = true;
    fill(play, 'Pause');
    const mine = turn;
    return inTurn(() => run(mine));
  }

  function stop() {
    playing = false;
    turn += 1;
    clearTimeout(timer);
    fill(play, 'Play');
  }

  function forward() {
    stop();
    return inTurn(step);
  }

  function jump(seq) {
    stop();
    const mine = turn;
    return inTurn(async () => {
      if (mine !== turn) return;
      const target = Math.max(1, Math.min(last, seq));
      at = Math.max(0, target - BEFORE);
      [ahead, begun] = [[], null];
      fill(screen);
      while (mine === turn && at < target && (await step()));
    });
  }

  /** What an event adds to the page; null if it belongs to a command that is there. */
  async function shown({ seq, event_type: type, timestamp, data }) {
    const time = Date.parse(timestamp);
    const failed = data.exit_code ? data.exit_code !== 0 : Boolean(data.error);
    const outcome = failed ? h('span.bad', null, `! ${plain(data.error ?? `exit ${data.exit_code}`)}`) : null;
    const texts = [data.output ?? data.message ?? data.response ?? data.content ?? data.input, data.stderr].filter((text) => typeof text === 'string' && text);
    if (begun?.article.isConnected && begun.runId === data.run_id) {
      const { article, title, film } = begun;
      await film?.until(time);
      if (type === 'run_input' && film) {
        film.type(data.input ?? null);
        return null;
      }
      if (type === 'tool_call') {
        begun = null;
        await film?.end();
        if (outcome) title.append(outcome);
        if (!film) article.append(...texts.map(output));
        return null;
      }
    }
    const command = data.parameters?.command ?? data.command;
    const head = typeof command === 'string' ? `$ ${plain(command)}` : `${MARKS.other} ${type}`;
    const title = h('h2', null, link(address({ page: 'session', id, seq }), `#${seq}`), ' ', h('span.quiet', null, moment(timestamp)), ' ', head, ' ', outcome);
    const film = data.tty || data.terminal ? await Film.open(id, data.run_id, time - (data.duration ?? 0) * 1000, head) : null;
    const article = h('article', null, title, film ? film.element : texts.map(output));
    if (type === 'run_started') {
      begun = { runId: data.run_id, article, title, film };
      await film?.until(time);
    } else {
      await film?.end();
    }
    return article;
  }

  start();
  const back = () => (location.hash = address({ page: 'session', id, seq: at || null }));
  bind({
    ' ': ['play or pause', toggle], j: ['step', forward], k: ['back', () => jump(at - 1)],
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
