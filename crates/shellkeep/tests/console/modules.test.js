// The parts of the console that need no browser.

import assert from 'node:assert/strict';
import test from 'node:test';
import { lines } from './ansi.js';
import { Problem } from './api.js';
import { aligned, since } from './compare.js';
import { changed, pairs, parse as parsePatch } from './diff.js';
import { rowsOf } from './film.js';
import { caughtUp, merged } from './fleet.js';
import * as format from './format.js';
import { Lineage, undone } from './lineage.js';
import { pause } from './replay.js';
import { TALLEST, firstRow, scrollFor } from './rows.js';
import { found } from './services.js';
import { aside, wanted } from './session.js';
import { address, filter, parse } from './state.js';

const plain = (text) => lines(text).map((spans) => spans.map((part) => part.text).join(''));
const styles = (text) => lines(text)[0].map((part) => [part.text, part.style]);

test('an output becomes lines', () => {
  assert.deepEqual(plain('a\nb\n'), ['a', 'b']);
  assert.deepEqual(plain('a\r\nb'), ['a', 'b']);
  assert.deepEqual(plain('10 %\r100 %\n'), ['100 %']);
  assert.deepEqual(plain('abc\b\bX\n'), ['aXc']);
  assert.deepEqual(plain('a\tb'), ['a       b']);
  assert.deepEqual(plain('abc\r\x1b[Kx'), ['x']);
  assert.deepEqual(plain('\n\nx'), ['', '', 'x']);
});

test('colours become classes', () => {
  assert.deepEqual(styles('\x1b[1;31mred\x1b[0m no'), [['red', 'bold fg1'], [' no', '']]);
  assert.deepEqual(styles('\x1b[38;5;196mx\x1b[38;5;9my'), [['x', 'fg1'], ['y', 'fg9']]);
  assert.deepEqual(styles('\x1b[48;2;0;170;0mx'), [['x', 'bg2']]);
  assert.deepEqual(styles('\x1b[91;44mx\x1b[39my'), [['x', 'fg9 bg4'], ['y', 'bg4']]);
});

test('what could drive a terminal is left out', () => {
  assert.deepEqual(plain('\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\c\x1b]52;c;ZQ==\x07d'), ['abcd']);
  assert.deepEqual(plain('a\x1bPq#0\x1b\\b\x1b[?1049hc\x1b(0d\x1b=e'), ['abcde']);
  assert.deepEqual(plain('a\x1b]0;never ends'), ['a']);
  assert.deepEqual(plain('a\x1b['), ['a']);
  assert.deepEqual(plain('user\u202enimda'), ['user\ufffdnimda']);
  assert.ok(plain('x'.repeat(1 << 20)).every((line) => line.length <= 4096));
});

test('a patch is files, hunks and lines', () => {
  const [file, gone] = parsePatch('diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ f()\n same\n-old\n+new\n\\ No newline at end of file\n'
    + 'diff --git a/y b/y\ndeleted file mode 100644\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n---- a line that looks like a head\n');
  assert.equal(file.path, 'x');
  assert.deepEqual(file.hunks[0].lines.map((line) => [line.kind, line.text, line.before, line.after]), [
    ['same', 'same', 1, 1], ['del', 'old', 2, undefined], ['add', 'new', undefined, 2], ['note', 'No newline at end of file', undefined, undefined]]);
  assert.equal(gone.path, 'y');
  assert.deepEqual(gone.hunks[0].lines.map((line) => line.text), ['--- a line that looks like a head']);
});

test('removed and added lines are beside each other', () => {
  const line = (kind, text) => ({ kind, text });
  const rows = pairs([line('same', 'a'), line('del', 'b'), line('del', 'c'), line('add', 'd'), line('same', 'e')]);
  assert.deepEqual(rows.map(([left, right]) => [left?.text, right?.text]), [['a', 'a'], ['b', 'd'], ['c', undefined], ['e', 'e']]);
  assert.deepEqual(changed('let x = 1;', 'let y = 1;'), [4, 5, 5]);
  assert.deepEqual(changed('same', 'same'), [4, 4, 4]);
  assert.deepEqual(changed('', 'new'), [0, 0, 3]);
});

test('any row of a million has a place of the scroll bar', () => {
  const total = 1_000_000;
  for (const height of [200, 777]) {
    assert.equal(firstRow(0, height, 28, total), 0);
    assert.ok(Math.abs(firstRow(TALLEST - height, height, 28, total) - (total - height / 28)) < 1e-6);
    for (const first of [0, 1, 500_000, 999_900]) assert.ok(Math.abs(firstRow(scrollFor(first, height, 28, total), height, 28, total) - first) < 1e-6);
  }
  assert.equal(firstRow(280, 200, 28, 100), 10);
});

test('an address is a state, and back', () => {
  for (const hash of ['#/', '#/?q=agent%3Aann+x', '#/node', '#/s/demo', '#/s/demo@128?tab=diff', '#/s/a.b%3Ac/files?from=c1&to=now', '#/compare/a/b']) {
    assert.equal(address(parse(hash)), hash);
  }
  assert.deepEqual(parse('#/s/%E0%A4%A/x').id, '%E0%A4%A');
  assert.equal(parse('').page, 'fleet');
  assert.equal(parse('#/s/demo@12').seq, 12);
});

test('filters', () => {
  assert.deepEqual(filter('agent:ann failed: Some text'), { words: ['some', 'text'], live: false, running: false, failed: true, agent: 'ann' });
  assert.deepEqual(wanted('type:tool_call failed: a  b'), { type: 'tool_call', failed: true, search: 'a b' });
  assert.deepEqual(wanted(' '), {});
  assert.equal(found('One\ntwo\nnone', 'ONE'), 'One\nnone');
});

test('a list with changes put in', () => {
  const session = (session_id, last_active_at) => ({ session_id, last_active_at });
  const list = [session('c', '3'), session('b', '2'), session('a', '1')];
  assert.deepEqual(merged(list, [session('a', '4'), session('d', '2')], ['c']).map((one) => one.session_id), ['a', 'b', 'd']);
  assert.deepEqual(merged([], [], ['x']), []);
});

test('what changed while the list was read is not lost', () => {
  const session = (id, at, seq) => ({ session_id: id, last_active_at: at, seq });
  const read = [session('a', '3', 7), session('b', '2', 2)];
  const news = [{ some: [session('c', '5', 4)], gone: [] }, { some: [session('b', '6', 3), session('a', '1', 6)], gone: [] }, { some: [], gone: ['x'] }];
  assert.deepEqual(caughtUp(read, news).map((one) => [one.session_id, one.seq]), [['b', 3], ['c', 4], ['a', 7]]);
  assert.deepEqual(caughtUp(read, [{ some: [], gone: ['a'] }]), [read[1]]);
  assert.equal(caughtUp(read, []), read);
});

test('what a rewind took back is beside the line', () => {
  assert.deepEqual(undone([]), []);
  assert.deepEqual(undone([{ seq: 20, to: 10 }]), [{ from: 11, to: 19, by: 20 }]);
  // A rewind to what an earlier one took back brings that back.
  assert.deepEqual(undone([{ seq: 20, to: 10 }, { seq: 25, to: 19 }]), [{ from: 20, to: 24, by: 25 }]);
  assert.deepEqual(undone([{ seq: 20, to: 10 }, { seq: 30, to: 5 }]), [{ from: 6, to: 29, by: 30 }]);
  assert.deepEqual(undone([{ seq: 20, to: 10 }, { seq: 30, to: 25 }]), [{ from: 11, to: 19, by: 20 }, { from: 26, to: 29, by: 30 }]);
  const graph = new Lineage([{ seq: 20, to: 10 }], [{ session_id: 'try-1', at: 8 }]);
  assert.deepEqual([graph.place(10), graph.place(11), graph.place(20)], [{ lane: 'main' }, { lane: 'side', by: 20, begins: true, ends: false }, { lane: 'main' }]);
  assert.deepEqual([15, 19].map((seq) => graph.place(seq).ends), [false, true]);
  assert.deepEqual(graph.forksAt(8), ['try-1']);
});

test('idle time is told, also before a record that was taken back', () => {
  const at = (clock, seconds) => ({ timestamp: `2026-01-01T${clock}Z`, seconds });
  assert.equal(aside(at('00:03:20'), at('00:00:00'), undefined), '3 min idle');
  assert.equal(aside(at('00:03:20'), at('00:00:00'), 20), '3 min idle, undone');
  // A long command is no pause.
  assert.equal(aside(at('00:03:20', 190), at('00:00:00'), 20), 'undone');
  assert.equal(aside(null, at('00:00:00'), undefined) + aside(at('00:03:20'), null, undefined), '');
});

test('figures and times', () => {
  assert.deepEqual([0, 0.004, 0.0996, 0.304, 41, 150, 7200, 200_000].map(format.span), ['< 1 ms', '4 ms', '0.1 s', '0.3 s', '41 s', '3 min', '2 h', '2 d']);
  assert.deepEqual([41, 3723].map(format.clock), ['00:41', '1:02:03']);
  assert.deepEqual([0, 1023, 1024, 14_336, 1_048_200].map(format.size), ['0 B', '1023 B', '1.0 KiB', '14 KiB', '1.0 MiB']);
  assert.equal(format.ago('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:03:20Z')), '3 min ago');
  assert.equal(format.counted(1, 'file') + format.counted(1204, 'file'), '1 file1,204 files');
  assert.equal(format.plain('a\nb\u202ec\x1b[0m'), 'a b\ufffdc\ufffd[0m');
  assert.equal(format.span(NaN) + format.size(undefined) + format.ago('x'), '–––');
});

test('a refusal is told without what to do next over HTTP', () => {
  const body = { code: 'run_not_found', detail: "no run 'r9'; list the runs with GET /v1/sessions/demo/runs" };
  assert.equal(new Problem(404, { ...body, fact: "no run 'r9'", hint: 'list_runs' }).message, "no run 'r9'");
  assert.equal(new Problem(404, body).message, body.detail);
  assert.equal(new Problem(502, null).message, 'the daemon answered 502');
});

test('a replay skips idle time', () => {
  assert.equal(pause(0, 1000, 1), 1000);
  assert.equal(pause(0, 1000, 4), 250);
  assert.equal(pause(0, 3_600_000, 1), 2000);
  assert.equal(pause(5000, 0, 1), 50);
  assert.equal(pause(0, 20, 1, 0.01), 20);
});

test('a screen is the one before it with the changed rows put in', () => {
  const row = (text) => [{ text }];
  const first = rowsOf([], { rows: 3, changed: [{ row: 0, cells: row('a') }, { row: 1, cells: [] }, { row: 2, cells: row('c') }] });
  assert.deepEqual(first, [row('a'), [], row('c')]);
  assert.deepEqual(rowsOf(first, { rows: 4, changed: [{ row: 1, cells: row('b') }] }), [row('a'), row('b'), row('c'), []]);
  assert.deepEqual(rowsOf(first, { rows: 1, changed: [] }), [row('a')]);
});

test('the first command that differs', () => {
  const run = (command, exit_code = 0) => ({ command, exit_code, status: 'exited' });
  assert.equal(aligned([run('a'), run('b')], [run('a'), run('b', 1)]).first, 1);
  assert.equal(aligned([run('a')], [run('a')]).first, -1);
  assert.deepEqual(since([{ seq: 3 }, { seq: 9 }], 'demo', { session_id: 'demo', seq: 3 }), [{ seq: 9 }]);
  assert.equal(since([{ seq: 3 }], 'demo', null).length, 1);
  assert.deepEqual(aligned([run('a')], [run('a'), run('c')]).rows.map((row) => row.differs), [false, true]);
});
