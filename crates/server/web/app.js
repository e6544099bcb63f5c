// The console: enters with the code of the link, shows the page that the address names.

import { enter, forget, leave, mayAct, onRefused, token } from './api.js';
import { button, fill, h, link, problem } from './dom.js';
import * as fleet from './fleet.js';
import { bind, closeDialogs, listen, theme } from './keys.js';
import * as live from './live.js';
import { parse } from './state.js';

const main = document.getElementById('main');
const top = document.getElementById('top');
const pages = {
  fleet: async () => fleet,
  session: () => import('./session.js'),
  files: () => import('./files.js'),
  services: () => import('./services.js'),
  terminal: () => import('./terminal.js'),
  replay: () => import('./replay.js'),
  compare: () => import('./compare.js'),
  node: () => import('./node.js'),
};

let shown = null;
let signal = null;

function header() {
  signal = h('span.signal', { title: 'Connection to the daemon' }, 'connecting');
  fill(top,
    h('a.brand', { href: '#/' }, 'shellkeep'),
    h('nav', { 'aria-label': 'Pages' }, link('#/', 'Sessions'), link('#/node', 'Node')),
    h('span.grow'),
    mayAct() ? null : h('span.tag', { title: 'This token changes nothing' }, 'watching'),
    signal,
    button('Theme', () => theme(true), { title: 'Dark or light (D)' }),
    button('Sign out', async () => { await leave(); live.stop(); welcome('You have signed out.'); }));
}

function connection(state) {
  if (!signal) return;
  fill(signal, state === 'on' ? 'live' : 'daemon away, trying again');
  signal.dataset.state = state;
  document.documentElement.dataset.live = state;
}

function welcome(reason) {
  shown?.close?.();
  shown = null;
  closeDialogs();
  bind({});
  fill(top, h('span.brand', null, 'shellkeep'));
  fill(main, h('section.welcome', null,
    h('h1', null, 'Open the console from a terminal'),
    h('p', null, reason),
    h('p', null, 'Run ', h('code', null, 'shellkeep console'), ' on the machine of the daemon. It opens this page with a link that works once.')));
}

async function show() {
  const state = parse(location.hash);
  const asked = location.hash;
  const same = shown && shown.page === state.page && shown.id === (state.id ?? null) && shown.other === (state.other ?? null);
  for (const item of top.querySelectorAll('nav a')) {
    const is = item.hash === '#/node' ? state.page === 'node' : state.page !== 'node';
    if (is) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  }
  if (same && shown.update) return shown.update(state);
  shown?.close?.();
  shown = null;
  bind({});
  try {
    const load = pages[state.page] ?? pages.fleet;
    const page = await load();
    if (location.hash !== asked) return null;
    document.title = state.id ? `${state.id} · shellkeep` : 'shellkeep';
    shown = { page: state.page, id: state.id ?? null, other: state.other ?? null, ...page.open(main, state) };
  } catch (error) {
    fill(main, problem(error));
  }
  return null;
}

async function begin() {
  theme(false);
  listen();
  onRefused(() => { live.stop(); welcome('Your token has expired or was revoked.'); });
  try {
    if (!(await enter())) return welcome('This tab has no token.');
  } catch (error) {
    forget();
    return welcome(error.message);
  }
  header();
  live.start(connection, () => welcome('Your token has expired or was revoked.'));
  addEventListener('hashchange', () => {
    if (/^#c=/.test(location.hash)) location.reload();
    else if (token()) {
      closeDialogs();
      show();
    }
  });
  return show();
}

begin();
