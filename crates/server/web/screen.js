// A terminal's screen: rows of styled text and a cursor, as the daemon keeps it. Text nodes and colours, nothing else.

import { fill, h } from './dom.js';

const FLAGS = ['bold', 'faint', 'italic', 'underline', 'strikethrough', 'blink'];
const NAMES = { ArrowUp: 'Up', ArrowDown: 'Down', ArrowLeft: 'Left', ArrowRight: 'Right', Escape: 'Esc', ' ': ' ' };
const NAMED = /^(Enter|Tab|Backspace|Delete|Insert|Home|End|PageUp|PageDown|F([1-9]|1[0-2]))$/;

/** A colour of the daemon as CSS: an index of the palette of 256, or `#rrggbb`. The first 16 are others for text (`c`) than
 * behind it (`b`), so that any of them can be read on any other. Pure. */
export function colour(given, side) {
  if (/^#[0-9a-f]{6}$/.test(given)) return given;
  const index = Number(given);
  if (!Number.isInteger(index) || index < 0 || index > 255) return '';
  if (index < 16) return `var(--${side}${index})`;
  if (index >= 232) return grey(8 + (index - 232) * 10);
  const level = (part) => (part ? 55 + part * 40 : 0);
  const cube = index - 16;
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`;
}

const grey = (value) => `rgb(${value} ${value} ${value})`;

/** The name of a key as `POST …/input` takes it in `keys`; null for a key that means nothing alone. Pure. */
export function keyName({ key, ctrlKey = false, altKey = false, shiftKey = false }) {
  const single = [...key].length === 1;
  const name = NAMES[key] ?? (single || NAMED.test(key) ? key : null);
  if (name === null) return null;
  if (single) return ctrlKey || altKey ? `${ctrlKey ? 'C-' : ''}${altKey ? 'M-' : ''}${key === ' ' ? 'Space' : key}` : key;
  return `${ctrlKey ? 'C-' : ''}${altKey ? 'M-' : ''}${shiftKey ? 'S-' : ''}${name}`;
}

/** Pieces of a row with the cursor as a piece of its own, if it is in this row. Pure. */
export function withCursor(spans, column) {
  if (column === null) return spans.map((span) => ({ ...span, cursor: false }));
  const pieces = [];
  let at = 0;
  for (const span of spans) {
    const letters = [...span.text];
    const place = column - at;
    at += letters.length;
    if (place < 0 || place >= letters.length) {
      pieces.push({ ...span, cursor: false });
      continue;
    }
    const part = (text, cursor) => ({ ...span, text, cursor });
    pieces.push(part(letters.slice(0, place).join(''), false), part(letters[place], true), part(letters.slice(place + 1).join(''), false));
  }
  if (column >= at) pieces.push({ text: ' '.repeat(column - at), cursor: false }, { text: ' ', cursor: true });
  return pieces.filter((piece) => piece.text !== '');
}

/** Draws a screen into an element. Only rows that changed are touched. */
export class Screen {
  constructor(element) {
    this.element = element;
    this.drawn = [];
  }

  draw({ cells, cursor }) {
    while (this.element.childElementCount > cells.length) this.element.lastElementChild.remove();
    while (this.element.childElementCount < cells.length) this.element.append(h('div'));
    this.drawn.length = cells.length;
    cells.forEach((spans, index) => {
      const pieces = withCursor(spans, cursor.visible && cursor.row === index ? cursor.col : null);
      const key = JSON.stringify(pieces);
      if (this.drawn[index] === key) return;
      this.drawn[index] = key;
      fill(this.element.children[index], pieces.length ? pieces.map(piece) : '\u200b');
    });
  }

  clear() {
    this.drawn = [];
    fill(this.element);
  }

  /** How many rows and columns fit. */
  fits() {
    const probe = h('div', null, h('span', null, 'M'.repeat(100)));
    this.element.append(probe);
    const { width, height } = probe.firstElementChild.getBoundingClientRect();
    probe.remove();
    const style = getComputedStyle(this.element);
    const inner = (all, before, after) => all - parseFloat(before) - parseFloat(after);
    const side = (space, cell, most) => Math.max(2, Math.min(most, Math.floor(space / (cell || 1))));
    return {
      rows: side(inner(this.element.clientHeight, style.paddingTop, style.paddingBottom), height, 100),
      cols: side(inner(this.element.clientWidth, style.paddingLeft, style.paddingRight), width / 100, 300),
    };
  }
}

function piece(span) {
  const flags = FLAGS.filter((flag) => span[flag]).map((flag) => `t-${flag}`);
  const element = h('span', { class: [...flags, span.cursor ? 'cursor' : ''].join(' ').trim() || null }, span.text);
  if (span.inverse && span.foreground === undefined && span.background === undefined) element.classList.add('t-inverse');
  else {
    const [front, back] = span.inverse ? [span.background, span.foreground ?? '7'] : [span.foreground, span.background];
    if (front !== undefined) element.style.color = colour(front, 'c');
    if (back !== undefined) element.style.backgroundColor = colour(back, 'b');
  }
  return element;
}
