// A unified patch as files, hunks and lines, and two ways to show it. `parse` and `pairs` are pure.

import { h } from './dom.js';
import { visible } from './format.js';

/** `[{path, hunks: [{head, lines: [{kind, text, before, after}]}], note}]` */
export function parse(patch) {
  const files = [];
  let file = null;
  let hunk = null;
  for (const line of patch.split('\n')) {
    if (line.startsWith('diff --git ')) {
      file = { path: line.slice(11), hunks: [], note: [] };
      files.push(file);
      hunk = null;
    } else if (file && !hunk && line.startsWith('+++ ')) {
      const path = line.slice(4);
      if (path !== '/dev/null') file.path = path.replace(/^b\//, '');
    } else if (file && !hunk && line.startsWith('--- ')) {
      const path = line.slice(4);
      if (path !== '/dev/null') file.path = path.replace(/^a\//, '');
    } else if (line.startsWith('@@') && file) {
      const [, before, after] = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line) ?? [null, 1, 1];
      hunk = { head: line, lines: [], before: Number(before), after: Number(after) };
      file.hunks.push(hunk);
    } else if (hunk) {
      add(hunk, line);
    } else if (file && line && !line.startsWith('index ')) {
      file.note.push(line);
    }
  }
  return files;
}

function add(hunk, line) {
  const text = line.slice(1);
  if (line.startsWith('+')) hunk.lines.push({ kind: 'add', text, after: hunk.after++ });
  else if (line.startsWith('-')) hunk.lines.push({ kind: 'del', text, before: hunk.before++ });
  else if (line.startsWith(' ')) hunk.lines.push({ kind: 'same', text, before: hunk.before++, after: hunk.after++ });
  else if (line.startsWith('\\')) hunk.lines.push({ kind: 'note', text: line.slice(2) });
}

/** Lines side by side: `[[left, right]]`, with removed and added ones paired. */
export function pairs(lines) {
  const rows = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let at = 0; at < Math.max(removed.length, added.length); at += 1) rows.push([removed[at] ?? null, added[at] ?? null]);
    removed = [];
    added = [];
  };
  for (const line of lines) {
    if (line.kind === 'del') removed.push(line);
    else if (line.kind === 'add') added.push(line);
    else {
      flush();
      rows.push([line, line]);
    }
  }
  flush();
  return rows;
}

/** The parts of two lines that differ: `[start, end of the first, end of the second]`. */
export function changed(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let tail = 0;
  while (tail < before.length - start && tail < after.length - start && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  return [start, before.length - tail, after.length - tail];
}

const MOST_LINES = 5000;

/** A patch as elements. `split` shows both sides. */
export function render(patch, split) {
  const files = parse(patch);
  let left = MOST_LINES;
  return files.map((file) => h('div.patch', null,
    file.note.map((note) => h('div.note', null, visible(note))),
    file.hunks.map((hunk) => {
      const lines = hunk.lines.slice(0, Math.max(0, left));
      left -= hunk.lines.length;
      return [h('div.hunk', null, visible(hunk.head)), split ? sides(lines) : unified(lines)];
    }),
    left < 0 ? h('div.note', null, 'The rest is not shown; download the patch.') : null));
}

function unified(lines) {
  const marks = marked(lines);
  return lines.map((line) => h('div.line', { class: line.kind }, number(line.before), number(line.after), h('span.sign', null, sign(line)), code(line, marks.get(line))));
}

function sides(lines) {
  const marks = marked(lines);
  return pairs(lines).map(([left, right]) => h('div.line.split', null, half(left, left?.before, marks), half(right, right?.after, marks)));
}

function half(line, at, marks) {
  if (!line) return h('span.half.none');
  return h('span.half', { class: line.kind }, number(at), h('span.sign', null, sign(line)), code(line, marks.get(line)));
}

/** Which part of a line changed, where a removed line has an added one beside it. */
function marked(lines) {
  const marks = new Map();
  for (const [left, right] of pairs(lines)) {
    if (!left || !right || left === right) continue;
    const [start, before, after] = changed(left.text, right.text);
    marks.set(left, [start, before]);
    marks.set(right, [start, after]);
  }
  return marks;
}

const sign = (line) => ({ add: '+', del: '−' })[line.kind] ?? ' ';
const number = (value) => h('span.number', { 'aria-hidden': 'true' }, value ?? '');

function code(line, mark) {
  const text = line.text;
  if (!mark || mark[0] >= mark[1]) return h('span.code', null, visible(text));
  return h('span.code', null, visible(text.slice(0, mark[0])), h('mark', null, visible(text.slice(mark[0], mark[1]))), visible(text.slice(mark[1])));
}
