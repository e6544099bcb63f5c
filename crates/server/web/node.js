// The node: how busy it is, its limits and why they changed, what runs, tokens, other nodes.

import { get, query } from './api.js';
import { fill, h, link, problem } from './dom.js';
import { clock, count, counted, moment, plain, share, size, span } from './format.js';
import { bind } from './keys.js';
import { follow } from './live.js';
import { address } from './state.js';

/** Sessions that are listed with their sandbox. */
const MOST = 100;

export function open(main) {
  const body = h('div.scroll', { tabindex: '0', role: 'region', 'aria-label': 'Node' });
  fill(main, h('section.page', null, h('div.bar', null, h('h1', null, 'Node')), body));
  let node = null;
  let tokens = [];
  let nodes = [];
  let services = [];
  let sessions = [];

  async function load() {
    try {
      [node, { tokens }, { nodes }, { services }, { sessions }] = await Promise.all([
        get('/v1/node'), get('/v1/tokens'), get('/v1/nodes'), get('/v1/services'), get('/v1/sessions' + query({ live: true, order: 'active', limit: MOST }))]);
      draw();
    } catch (error) {
      fill(body, problem(error));
    }
  }

  function card(name, value, note) {
    return h('div.card', null, h('b', null, value), name, note ? h('div.quiet', null, note) : null);
  }

  function table(caption, heads, rows, empty) {
    if (!rows.length) return empty ? [h('h2', null, caption), h('p.quiet', null, empty)] : null;
    return h('table', null, h('caption', null, caption), h('thead', null, h('tr', null, heads.map((head) => h('th', { scope: 'col' }, head)))), h('tbody', null, rows.map((cells) => h('tr', null, cells.map((cell) => h('td', null, cell))))));
  }

  function amount(name, value) {
    if (value === null || value === undefined) return '–';
    return name.includes('bytes') ? size(value) : count(value);
  }

  function draw() {
    const session = (id) => link(address({ page: 'session', id }), id);
    fill(body,
      node.problems.length ? h('div.problem', { role: 'alert' }, node.problems.map((one) => h('p', null, one))) : null,
      h('div.cards', null,
        card('sessions', count(node.sessions), `${count(node.live_shells)} with a shell`), card('running', count(node.running), `at most ${count(node.running_limit)} at once`),
        card('waiting', count(node.waiting), node.waiting ? `of ${counted(node.agents_waiting, 'agent')}` : null), card('services', count(node.services)),
        card('processor pressure', share(node.cpu_pressure)), card('memory pressure', share(node.memory_pressure), `${share(node.memory_free)} free`),
        card('processes', count(node.processes)), card('memory of the daemon', size(node.memory)), card('commands so far', count(node.commands_total)), card('up', span(node.uptime))),
      table('Running now', ['session', 'agent', 'command', 'for'], node.commands.map((one) => [session(one.session_id), one.agent ?? '–', h('code', null, plain(one.command)), clock(one.seconds)]), 'Nothing runs.'),
      table(`Sessions with a shell${node.live_shells > MOST ? `, the last ${MOST} that were active` : ''}`, ['session', 'agent', 'sandbox', 'held by'], sessions.map((one) => [session(one.session_id), one.agent ?? '–', one.sandbox ?? '–', one.held ? plain(one.held.holder) : '–'])),
      table('Services', ['session', 'name', 'status', 'ports', 'log'], services.map((one) => [session(one.session_id), link(address({ page: 'services', id: one.session_id, params: { service: one.service_id } }), plain(one.name)), one.status, one.ports.join(', ') || '–', size(one.log_bytes)])),
      table('Quotas', ['name', 'limit', 'used', 'configured'], Object.entries(node.quotas).map(([name, one]) => [h('code', null, name), ...[one.limit, one.used, one.configured].map((value) => amount(name, value))])),
      table('Changed limits', ['when', 'limit', 'from', 'to', 'why'], node.changes.map((one) => [moment(one.at), one.limit, count(one.from), count(one.to), one.reason])),
      table('Tokens', ['id', 'role', 'agent', 'name', 'created', 'valid until'], tokens.map((one) => [h('code', null, one.id), one.role, one.agent ?? '–', one.name ?? '–', moment(one.created_at), one.revoked_at ? `revoked ${moment(one.revoked_at)}` : one.expires_at ? moment(one.expires_at) : '–'])),
      table('Nodes', ['name', 'status', 'sessions', 'since', 'version'], nodes.map((one) => [one.name, one.status, count(one.sessions), moment(one.since), one.version])));
  }

  const unfollow = follow('node', { snapshot: (now) => { node = now; if (tokens.length) draw(); } });
  load();
  bind({ r: ['read again', load], Escape: ['all sessions', () => (location.hash = '#/')], q: ['all sessions', () => (location.hash = '#/')] });
  return { close: unfollow };
}
