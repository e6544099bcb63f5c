// An output as lines with colours. Hostile text stays text: classes and text nodes, nothing else.

import { lines } from './ansi.js';
import { h } from './dom.js';

/** Characters that are shown; more is for the download. */
const MOST = 200_000;
const MOST_LINES = 4000;

export function output(text) {
  const cut = text.length > MOST;
  const shown = lines(cut ? text.slice(-MOST) : text);
  const kept = shown.slice(-MOST_LINES);
  return h('pre.output', { tabindex: '0', 'aria-label': 'Output' },
    cut || shown.length > kept.length ? h('div.note', null, '… the beginning is not shown; download the output for all of it') : null,
    kept.map((spans) => h('div', null, spans.length ? spans.map((part) => h('span', { class: part.style || null }, part.text)) : '\u200b')));
}
