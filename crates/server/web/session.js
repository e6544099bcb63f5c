// One session: its timeline, of any length, and what happened at one record of it.

import { get, mayAct, path, query } from './api.js';
import { button, fill, h, link, problem, put, say } from './dom.js';
import { count, moment, plain, span } from './format.js';
import { inspector } from './inspector.js';
import { bind } from './keys.js';
import { Lineage, branches, lineage } from './lineage.js';
import { follow } from './live.js';
import { Rows } from './rows.js';
import { address } from './state.js';

const PAGE = 100;
/** Pages that are kept; a page is about 20 KiB. */
const MOST_PAGES = 80;
/** A pause that is shown as one, in seconds. */
const IDLE = 60;
const BUCKETS = 300;
/** How long a jump waits for its rows before it shows where they will be, in milliseconds. */
const PATIENCE = 100;
/** Records that one request reads, and those that are searched for an earlier failure. */
const LONGEST = 1000;
const FARTHEST = 100_000;
/** The minimap is read again when the timeline has become longer by this part of it. */
const GROWTH = 0.02;

export const MARKS = { input: '›', model: '✦', tool: '$', output: '‹', agent: '◇', session: '○', service: '⚙', record: '!', other: '·' };

/** Rows by their place. A record's number is its place, so any of a million is one request away. */
class Timeline {
  constructor(id, changed) {
    this.id = id;
    this.changed = changed;
    this.pages = new Map();
    /** Pages that are being read. */
    this.asked = new Map();
    this.total = 0;
  }

  at(index) {
    const page = this.pages.get(Math.floor(index / PAGE));
    return page?.get(index % PAGE) ?? null;
  }

  /** Reads the pages of these rows that are not there. Returns those that are being read. */
  want(start, amount) {
    const missing = [];
    for (let page = Math.floor(start / PAGE); page <= Math.floor((start + amount) / PAGE); page += 1) {
      if (page * PAGE >= this.total || this.pages.has(page)) continue;
      if (!this.asked.has(page)) this.asked.set(page, this.read(page));
      missing.push(this.asked.get(page));
    }
    return missing;
  }

  async read(page) {
    try {
      const { events } = await get(path`/v1/sessions/${this.id}/events` + query({ view: 'summary', redact: true, after: page * PAGE, limit: PAGE }));
      if (this.pages.size >= MOST_PAGES) this.pages.delete(this.pages.keys().next().value);
      const rows = new Map();
      for (const event of events) if (event.seq <= (page + 1) * PAGE) rows.set((event.seq - 1) % PAGE, event);
      this.pages.set(page, rows);
      this.changed();
    } catch (error) {
      if (error.status) say(error.message);
    } finally {
      this.asked.delete(page);
    }
  }

  add(events) {
    for (const event of events) {
      const page = Math.floor((event.seq - 1) / PAGE);
      if (!this.pages.has(page) && (event.seq - 1) % PAGE === 0) this.pages.set(page, new Map());
      this.pages.get(page)?.set((event.seq - 1) % PAGE, event);
    }
  }

  before(index) {
    return index > 0 ? this.at(index - 1) : null;
  }
}

/** Rows that a filter keeps, in the order in which they are found. */
class Found {
  constructor(id, wanted, changed) {
    Object.assign(this, { id, wanted, changed, rows: [], next: 0, busy: false });
    this.more();
  }

  get total() {
    return this.rows.length;
  }

  at(index) {
    return this.rows[index] ?? null;
  }

  before() {
    return null;
  }

  want(start, amount) {
    if (start + amount >= this.rows.length - PAGE / 2) this.more();
    return [];
  }

  async more() {
    if (this.busy || this.next === null) return;
    this.busy = true;
    try {
      const page = await get(path`/v1/sessions/${this.id}/events` + query({ view: 'summary', redact: true, after: this.next, limit: PAGE, ...this.wanted }));
      this.rows.push(...page.events);
      this.next = page.next;
      this.changed();
    } catch (error) {
      this.next = null;
      say(error.message);
    } finally {
      this.busy = false;
    }
    if (this.rows.length < PAGE && this.next !== null) this.more();
  }
}

/** What a filter asks the daemon for: `type:tool_call failed: text`. Pure. */
export function wanted(text) {
  const found = {};
  const rest = [];
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    if (word.startsWith('type:')) found.type = word.slice(5);
    else if (word === 'failed:') found.failed = true;
    else rest.push(word);
  }
  if (rest.length) found.search = rest.join(' ');
  return found;
}

/** What is said beside a record: how long nothing happened before it, and whether a rewind took it back. Pure. */
export function aside(row, before, by) {
  const idle = row && before ? (Date.parse(row.timestamp) - Date.parse(before.timestamp)) / 1000 - (row.seconds ?? 0) : 0;
  return [idle > IDLE ? `${span(idle)} idle` : null, by ? 'undone' : null].filter(Boolean).join(', ');
}

export function open(main, state) {
  const id = state.id;
  let session = null;
  let isAway = false;
  let tab = state.params.tab ?? '';
  let text = state.params.q ?? '';
  let seq = state.seq;
  let written = location.hash;
  /** The row that a jump goes to, while its page is being read. */
  let ahead = null;
  const all = new Timeline(id, redraw);
  let source = all;
  let graph = new Lineage();
  const head = h('div.session-head');
  const trouble = h('div');
  const map = h('canvas');
  const view = h('div.view');
  const minimap = h('div.minimap', { 'aria-hidden': 'true', onpointerdown: drag, onpointermove: drag }, map, view);
  const input = h('input', { type: 'search', value: text, placeholder: 'failed: type:tool_call text', 'aria-label': 'Filter the timeline', onchange: () => search(input.value) });
  const rows = new Rows({ label: 'Timeline', make: makeRow, show: showRow, onselect: chosen, onopen: () => detail.element.focus() });
  rows.follows = true;
  rows.onmove = (start, amount) => source.want(start, amount);
  rows.onpaint = (start, amount) => { source.want(start, amount); drawView(); };
  const detail = inspector(id, { tab: changeTab, forks: (at) => graph.forksAt(at) });
  fill(main, h('section.page', null, head, trouble,
    h('div.two', null,
      h('div.left', null, h('div.bar', null, h('h2', null, 'Timeline'), h('span.grow'), input), minimap, rows.element),
      detail.element)));

  function redraw() {
    rows.resize(source.total);
    if (seq === null && source.total) choose(source === all ? all.total - 1 : 0);
    const row = source.at(rows.selected);
    if (row && (detail.seq !== row.seq || detail.tab !== tab)) detail.show(row, tab);
  }

  function place(number) {
    return source === all ? number - 1 : source.rows.findIndex((row) => row.seq >= number);
  }

  /** Goes to a row. Its page is read first, so that what is drawn is the page and not its empty rows and then the page. */
  function choose(index) {
    const goal = (ahead = { index });
    const missing = source.want(Math.floor(rows.centred(index)), Math.ceil(rows.fit()));
    const show = () => {
      if (ahead !== goal) return;
      rows.centre(index);
      rows.select(index, { quiet: true });
      rows.paint();
      chosen(rows.selected);
    };
    if (!missing.length) return show();
    // Nothing is there that could stay until then.
    if (!rows.pool.length) rows.centre(index);
    return Promise.race([Promise.all(missing), new Promise((after) => setTimeout(after, PATIENCE))]).then(show);
  }

  function chosen(index) {
    ahead = null;
    const row = source.at(index);
    seq = row?.seq ?? (source === all ? index + 1 : seq);
    remember();
    if (row) detail.show(row, tab);
  }

  /** Writes what is shown into the address, unless the address was changed and `update` is about to follow it. */
  function remember() {
    if (location.hash !== written) return;
    history.replaceState(null, '', address({ page: 'session', id, seq, params: { tab, q: text } }));
    written = location.hash;
  }

  function changeTab(name) {
    tab = name;
    remember();
  }

  function jump(index) {
    choose(Math.max(0, Math.min(all.total - 1, index)));
    rows.element.focus();
  }

  /** A press, and every move while it lasts. */
  function drag(event) {
    if (event.buttons & 1) jump(Math.floor(((event.clientX - minimap.getBoundingClientRect().left) / minimap.clientWidth) * all.total));
  }

  function search(next) {
    text = next;
    source = text.trim() ? new Found(id, wanted(text), redraw) : all;
    [seq, ahead] = [null, null];
    remember();
    redraw();
  }

  function showRow(parts, index) {
    const row = source.at(index);
    parts.element.dataset.failed = Boolean(row?.failed);
    parts.element.dataset.kind = row?.kind ?? '';
    const number = row?.seq ?? index + 1;
    const { lane, by, begins, ends } = graph.place(number);
    const forks = graph.forksAt(number);
    parts.element.dataset.lane = source === all ? lane : '';
    parts.element.dataset.edge = [begins && 'begins', ends && 'ends', forks.length && 'forks'].filter(Boolean).join(' ');
    parts.graph.title = by ? `taken back by the rewind #${by}` : '';
    parts.forks.title = forks.length ? 'a fork begins here' : '';
    put(parts.forks, forks.map((name) => `↳ ${name}`).join(' '));
    put(parts.seq, String(number));
    put(parts.mark, row ? MARKS[row.kind] ?? '·' : '');
    put(parts.text, row ? plain(row.text || row.event_type) : '…');
    parts.text.title = row?.event_type ?? '';
    put(parts.how, row ? `${row.failed ? '! ' : ''}${row.outcome ?? ''}` : '');
    put(parts.idle, aside(row, source.before(index), by));
    put(parts.when, row ? moment(row.timestamp) : '');
  }

  async function readGraph() {
    graph = await lineage(id, all.total).catch(() => graph);
    rows.draw();
    detail.refresh();
  }

  let overview = null;
  let mapped = 0;
  async function readMap() {
    mapped = all.total;
    try {
      overview = (await get(path`/v1/sessions/${id}/events/overview` + query({ buckets: BUCKETS }))).buckets;
      drawMap();
    } catch {
      overview = null;
    }
  }

  function drawMap() {
    if (!overview) return;
    const width = (map.width = map.clientWidth);
    const height = (map.height = map.clientHeight);
    if (!width || !overview.length || !all.total) return;
    const pen = map.getContext('2d');
    const style = getComputedStyle(map);
    const most = Math.max(...overview.map((bucket) => Math.log1p(bucket.seconds)), 0.1);
    for (const bucket of overview) {
      const left = ((bucket.seq - 1) / all.total) * width;
      const wide = Math.max(1, (bucket.events / all.total) * width - 0.5);
      const tall = 3 + (Math.log1p(bucket.seconds) / most) * (height - 5);
      pen.fillStyle = style.getPropertyValue(bucket.failed ? '--bad' : '--accent');
      pen.fillRect(left, height - tall, wide, tall);
    }
  }

  /** Which part of the timeline is visible. */
  function drawView() {
    view.hidden = source !== all || !all.total;
    if (view.hidden) return;
    view.style.left = `${(rows.first / all.total) * 100}%`;
    view.style.width = `${(Math.min(rows.fit(), all.total) / all.total) * 100}%`;
  }

  function showHead() {
    const origin = session.forked_from;
    fill(head,
      h('h1', null, link('#/', 'Sessions'), ' / ', id),
      h('span.badge', { 'data-mark': session.live ? 'live' : 'asleep' }, session.live ? '● has a shell' : '◌ asleep'),
      h('span.quiet', null, `shell ${session.generation}`), h('span.quiet', null, `#${count(session.seq)}`),
      session.agent ? h('span.tag', null, session.agent) : null,
      origin ? link(address({ page: 'session', id: origin.session_id, seq: origin.seq }), `fork of ${origin.session_id}@${origin.seq}`) : null,
      origin ? link(address({ page: 'compare', id: origin.session_id, other: id }), 'Compare') : null,
      h('code.cwd', { title: 'Working directory' }, session.cwd),
      h('span.grow'), tabs(id, 'session'), actions());
  }

  function actions() {
    const tools = [button('Export', () => export_().catch((error) => say(error.message)))];
    if (!mayAct()) return tools;
    tools.unshift(button('Fork…', () => act('fork')), button('Rewind…', () => act('rewind')));
    if (session.forked_from) tools.unshift(button('Merge back…', () => act('merge')));
    return tools;
  }

  async function export_() {
    const { download } = await import('./download.js');
    return download(path`/v1/sessions/${id}/export` + query({ format: 'html', redact: true }), `${id}.html`);
  }

  async function act(what) {
    const dialogs = await import('./dialogs.js');
    dialogs[what](id, { seq, origin: session.forked_from });
  }

  async function load() {
    try {
      session = await get(path`/v1/sessions/${id}`);
      isAway = false;
      showHead();
      all.total = session.seq;
      fill(trouble);
      if (text.trim() && source === all) search(text);
      redraw();
      if (seq !== null) choose(Math.max(0, place(seq)));
      // They read much of the session, so the rows come first.
      await Promise.all(all.asked.values());
      await readMap();
      readGraph();
    } catch (error) {
      isAway = error.status === 0;
      if (!session) fill(head, h('h1', null, link('#/', 'Sessions'), ' / ', id));
      fill(trouble, problem(error));
    }
  }

  function grown({ session: now, events = [], seq: last }) {
    if (now) {
      session = now;
      showHead();
    }
    all.add(events);
    const wasLast = !ahead && rows.selected >= all.total - 1;
    if (last > all.total) all.total = last;
    rows.resize(source.total);
    drawMap();
    if (source === all && wasLast && events.length && rows.selected < all.total - 1) rows.select(all.total - 1);
    redraw();
    if (mapped && all.total > mapped * (1 + GROWTH)) readMap();
    if (branches(events)) readGraph();
  }

  const unfollow = follow(`session/${id}`, { snapshot: (now) => { grown(now); if (isAway) load(); }, update: grown });
  load();
  bind({
    '/': ['filter', () => input.focus()],
    j: ['next', () => { rows.element.focus(); rows.select(rows.selected + 1); }],
    k: ['previous', () => { rows.element.focus(); rows.select(rows.selected - 1); }],
    n: ['next failure', () => failure(1)],
    N: ['previous failure', () => failure(-1)],
    o: ['output', () => detail.open('output')],
    d: ['diff', () => detail.open('diff')],
    t: ['raw event', () => detail.open('raw')],
    R: ['rewind to here', () => mayAct() && act('rewind')],
    F: ['fork from here', () => mayAct() && act('fork')],
    Escape: ['all sessions', () => (location.hash = '#/')],
    q: ['all sessions', () => (location.hash = '#/')],
  });

  async function failure(step) {
    const from = seq ?? 0;
    if (step > 0) {
      const { events } = await get(path`/v1/sessions/${id}/events` + query({ view: 'summary', failed: true, after: from, limit: 1 }));
      if (events[0]) choose(place(events[0].seq));
      else say('No later failure.');
      return;
    }
    const found = source === all ? await failureBefore(from) : source.rows.findLast((row) => row.seq < from && row.failed);
    if (found) choose(place(found.seq));
    else say(from > FARTHEST ? `No failure among the ${count(FARTHEST)} records before this one.` : 'No earlier failure.');
  }

  /** The last failure before a record. */
  async function failureBefore(from) {
    for (let until = from - 1; until > Math.max(0, from - FARTHEST); until -= LONGEST) {
      const after = Math.max(0, until - LONGEST);
      const { events } = await get(path`/v1/sessions/${id}/events` + query({ view: 'summary', after, limit: until - after }));
      const found = events.findLast((event) => event.seq <= until && event.failed);
      if (found) return found;
    }
    return null;
  }

  new ResizeObserver(drawMap).observe(minimap);
  addEventListener('theme', drawMap);
  rows.element.focus();
  return {
    close: () => { unfollow(); detail.close(); removeEventListener('theme', drawMap); },
    update: (next) => {
      written = location.hash;
      tab = next.params.tab ?? '';
      const asked = next.params.q ?? '';
      if (asked !== text) {
        input.value = asked;
        search(asked);
      }
      if (next.seq !== null) { seq = next.seq; choose(place(next.seq)); }
      redraw();
    },
  };
}

/** Links to the other pages of a session. */
export function tabs(id, current) {
  const pages = [['session', 'Timeline'], ['files', 'Files'], ['services', 'Services'], ['terminal', 'Terminal'], ['replay', 'Replay']];
  return h('nav.tabs', { 'aria-label': 'Session' }, pages.map(([page, name]) => link(address({ page, id }), name, page === current ? { 'aria-current': 'page' } : {})));
}

function makeRow() {
  const parts = {};
  for (const name of ['seq', 'graph', 'when', 'mark', 'text', 'forks', 'idle', 'how']) parts[name] = h('span', { class: name });
  parts.element = h('div.event', null, Object.values(parts));
  return parts;
}
