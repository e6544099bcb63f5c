// Which records of a session a rewind took back, and where its forks begin.

import { get, path, query } from './api.js';

/** Records that are searched for rewinds and forks, from the end. */
const MOST = 100_000;
const TYPES = ['session_rewound', 'session_forked'];

/** Ranges of records that are no longer part of the history: `[{from, to, by}]`. Pure. */
export function undone(rewinds) {
  const ranges = [];
  let end = Infinity;
  // From the end back: up to a rewind, then on from the record that it went to.
  for (const { seq, to } of [...rewinds].reverse()) {
    if (seq > end) continue;
    if (seq - to > 1) ranges.unshift({ from: to + 1, to: seq - 1, by: seq });
    end = to;
  }
  return ranges;
}

/** The graph of a session: one line, with what was taken back beside it. */
export class Lineage {
  constructor(rewinds = [], forks = []) {
    Object.assign(this, { rewinds, forks, ranges: undone(rewinds) });
  }

  /**
   * `{lane: 'main'}`, or `{lane: 'side', by, begins, ends}` for a record that the rewind `by` took back: whether it is the
   * first and the last of those.
   */
  place(seq) {
    const range = this.ranges.find(({ from, to }) => from <= seq && seq <= to);
    return range ? { lane: 'side', by: range.by, begins: seq === range.from, ends: seq === range.to } : { lane: 'main' };
  }

  /** The names of the forks that begin after a record. */
  forksAt(seq) {
    return this.forks.filter((fork) => fork.at === seq).map((fork) => fork.session_id);
  }
}

/** Whether these events change the graph. */
export const branches = (events) => events.some((event) => TYPES.includes(event.event_type));

/** Reads the graph of a session with this many records. */
export async function lineage(id, total) {
  const found = [];
  let after = Math.max(0, total - MOST);
  do {
    const page = await get(path`/v1/sessions/${id}/events` + query({ type: TYPES.join(','), after, limit: 1000 }));
    found.push(...page.events);
    after = page.next;
  } while (after);
  const [rewinds, forks] = TYPES.map((type) => found.filter((event) => event.event_type === type));
  return new Lineage(rewinds.map(({ seq, data }) => ({ seq, to: data.to })), forks.map(({ data }) => data));
}
