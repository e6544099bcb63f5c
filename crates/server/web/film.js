// The screens that a command with a terminal had, drawn again one after the other.

import { get, path, query } from './api.js';
import { fill, h } from './dom.js';
import { plain } from './format.js';
import { Screen } from './screen.js';

const PAGE = 200;

/** All rows of a screen: those of the one before it, with the changed ones put in. Pure. */
export function rowsOf(before, { rows, changed }) {
  const all = Array.from({ length: rows }, (_, place) => before[place] ?? []);
  for (const { row, cells } of changed) all[row] = cells;
  return all;
}

export class Film {
  /** The film of a run that began at `began`, in milliseconds; null if its screens are not kept. */
  static async open(id, runId, began, command) {
    const film = new Film(id, runId, began, command);
    await film.more().catch(() => {});
    return film.ahead.length ? film : null;
  }

  constructor(id, runId, began, command) {
    Object.assign(this, { id, runId, began, ahead: [], next: 0, cells: [], full: null });
    const element = h('div.screen', { tabindex: '0', role: 'group', 'aria-label': `Screen of ${plain(command)}` });
    this.screen = new Screen(element);
    this.typed = h('p.quiet.mono');
    this.element = h('div.film', null, element, this.typed);
  }

  /** Reads more screens if all were drawn. */
  async more() {
    if (this.ahead.length || this.next === null) return;
    const page = await get(path`/v1/sessions/${this.id}/runs/${this.runId}/screens` + query({ from_ms: this.next, limit: PAGE, redact: true }));
    [this.ahead, this.next] = [page.screens, page.next];
  }

  /** When the next screen was drawn, in milliseconds; Infinity after the last. */
  async due() {
    await this.more();
    return this.ahead.length ? this.began + this.ahead[0].at_ms : Infinity;
  }

  /** Draws the next screen. */
  draw() {
    const next = this.ahead.shift();
    this.cells = rowsOf(this.cells, next);
    const shown = { cells: this.cells, cursor: next.cursor };
    if (next.alternate) this.full = shown;
    this.screen.element.style.minWidth = `min(100%, ${next.cols}ch)`;
    this.screen.draw(shown);
  }

  /** Draws the screens up to a time. */
  async until(time) {
    while ((await this.due()) <= time) this.draw();
  }

  /** Draws the rest. A program that used the whole screen has left it by then; what it showed last stays. */
  async end() {
    await this.until(Number.MAX_SAFE_INTEGER);
    if (this.full) this.screen.draw(this.full);
    fill(this.typed);
  }

  /** What was typed last; null if the terminal did not echo. */
  type(text) {
    fill(this.typed, `typed ${text === null ? '***' : plain(JSON.stringify(text))}`);
  }
}
