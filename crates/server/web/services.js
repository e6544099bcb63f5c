// A session's services, and the log of one of them as it is written.

import { get, mayAct, path, post, query } from './api.js';
import { button, fill, h, link, problem, say } from './dom.js';
import { ago, plain, size } from './format.js';
import { bind } from './keys.js';
import { follow } from './live.js';
import { output } from './output.js';
import { tabs } from './session.js';
import { address } from './state.js';

/** Characters of a log that are kept in the page. */
const MOST = 400_000;

/** Lines of a log in which a text is found. Pure. */
export function found(text, wanted) {
  if (!wanted) return text;
  return text.split('\n').filter((line) => line.toLowerCase().includes(wanted.toLowerCase())).join('\n');
}

export function open(main, state) {
  const id = state.id;
  let params = state.params;
  let list = [];
  let text = '';
  let paused = false;
  let unfollow = () => {};
  const table = h('div.side', { role: 'region', tabindex: '0', 'aria-label': 'Services' });
  const log = h('div.log', { tabindex: '0', role: 'region', 'aria-label': 'Log' });
  const pause = button('Pause', () => { paused = !paused; fill(pause, paused ? 'Follow' : 'Pause'); draw(); });
  const input = h('input', { type: 'search', placeholder: 'text in the log', 'aria-label': 'Search the log', oninput: () => draw(true) });
  const tools = h('div.bar');
  fill(main, h('section.page', null,
    h('div.session-head', null, h('h1', null, link('#/', 'Sessions'), ' / ', link(address({ page: 'session', id }), id), ' / services'), h('span.grow'), tabs(id, 'services')),
    h('div.split-view', null, table, h('div.page', null, tools, log))));

  const chosen = () => list.find((one) => one.service_id === params.service || one.name === params.service) ?? list[0];

  async function load() {
    try {
      list = (await get(path`/v1/sessions/${id}/services`)).services;
      draw(true);
      watch();
    } catch (error) {
      fill(table, problem(error));
    }
  }

  function watch() {
    unfollow();
    const service = chosen();
    if (!service) return;
    unfollow = follow(`service/${id}/${service.service_id}`, {
      snapshot: (now) => { text = now.text; replace(now.service); draw(); },
      update: (more) => { text = (text + (more.text ?? '')).slice(-MOST); if (more.service) replace(more.service); draw(); },
      error: (refusal) => fill(log, problem(refusal)),
    });
  }

  function replace(service) {
    list = list.map((one) => (one.service_id === service.service_id ? service : one));
  }

  function draw(now = false) {
    const service = chosen();
    if (!list.length) {
      fill(table, h('p.quiet.pad', null, 'No services. A command that keeps running, started with `shellkeep services start`, is one.'));
      fill(tools);
      return fill(log);
    }
    fill(table, h('ul', null, list.map((one) => h('li', null, link(address({ page: 'services', id, params: { service: one.service_id } }),
      [h('strong', null, plain(one.name)), ' ', h('span', { class: one.status === 'running' ? 'good' : one.status === 'failed' ? 'bad' : 'quiet' }, `${{ running: '●', starting: '◐', failed: '!' }[one.status] ?? '◌'} ${one.status}`),
        h('div.quiet', null, [one.ports.length ? `port ${one.ports.join(', ')}` : null, `active ${ago(one.last_active_at)}`, size(one.log_bytes)].filter(Boolean).join(' · '))],
      one === service ? { 'aria-current': 'true' } : {})))));
    if (!tools.childNodes.length || tools.dataset.service !== `${service.service_id} ${service.status}`) {
      tools.dataset.service = `${service.service_id} ${service.status}`;
      const live = ['running', 'starting'].includes(service.status);
      fill(tools, h('code', null, `$ ${plain(service.command)}`), service.detail ? h('span.quiet', null, service.detail) : null, h('span.grow'), input, pause,
        button('Download', () => save(service)), mayAct() && live ? button('Stop', () => stop(service), { class: 'danger' }) : null);
    }
    if (paused && !now) return null;
    const end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
    const shown = found(text, input.value);
    fill(log, shown ? output(shown) : h('p.quiet.pad', null, text ? 'No line matches.' : 'The log is empty.'));
    if (end) log.scrollTop = log.scrollHeight;
    return null;
  }

  async function save(service) {
    const page = await get(path`/v1/sessions/${id}/services/${service.service_id}/logs` + query({ tail: 16_777_216 }));
    const place = URL.createObjectURL(new Blob([page.text]));
    h('a', { href: place, download: `${id}-${service.name}.log` }).click();
    setTimeout(() => URL.revokeObjectURL(place), 60_000);
  }

  async function stop(service) {
    try {
      replace(await post(path`/v1/sessions/${id}/services/${service.service_id}/stop`, {}));
      say(`${service.name} is stopped.`);
      draw(true);
    } catch (error) {
      say(error.message);
    }
  }

  load();
  const unsession = follow(`session/${id}`, { update: ({ events }) => { if (events?.some((event) => event.kind === 'service')) load(); } });
  const back = () => (location.hash = address({ page: 'session', id }));
  function step(by) {
    const next = list[list.indexOf(chosen()) + by];
    if (next) location.hash = address({ page: 'services', id, params: { service: next.service_id } });
  }
  bind({
    j: ['next service', () => step(1)], k: ['previous service', () => step(-1)],
    '/': ['search the log', () => input.focus()], ' ': ['pause', () => pause.click()],
    x: ['stop, with Enter', () => tools.querySelector('button.danger')?.focus()],
    Escape: ['timeline', back], q: ['timeline', back],
  });
  return { close: () => { unfollow(); unsession(); }, update: (next) => { params = next.params; text = ''; draw(true); watch(); } };
}
