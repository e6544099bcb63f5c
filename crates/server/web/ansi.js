// What a terminal makes of an output: colours become classes, lines are overwritten where a progress bar does so, and
// everything else that could drive a terminal is left out. The same rules as the page of `shellkeep export`. Pure.

const MOST_COLUMNS = 4096;
const TAB = 8;
const PLAIN = '';

/** An output as lines of spans: `[[{text, style}]]`; a style is a list of classes. */
export function lines(text) {
  const paper = { done: [], cells: [], column: 0, style: { fg: '', bg: '', flags: new Set() } };
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === 0x1b || code === 0x9b) {
      at = escape(paper, text, at, code);
    } else if (code < 0x20 || (code >= 0x7f && code < 0xa0)) {
      control(paper, code);
      at += 1;
    } else {
      const character = String.fromCodePoint(text.codePointAt(at));
      put(paper, reorders(character) ? '\ufffd' : character);
      at += character.length;
    }
  }
  if (paper.cells.length) feed(paper);
  return paper.done;
}

const reorders = (character) => /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/.test(character);

function control(paper, code) {
  if (code === 10) feed(paper);
  else if (code === 13) paper.column = 0;
  else if (code === 9) paper.column = (Math.floor(paper.column / TAB) + 1) * TAB;
  else if (code === 8) paper.column = Math.max(0, paper.column - 1);
}

function put(paper, character) {
  if (paper.column >= MOST_COLUMNS) feed(paper);
  while (paper.cells.length < paper.column) paper.cells.push([' ', PLAIN]);
  paper.cells[paper.column] = [character, classes(paper.style)];
  paper.column += 1;
}

function feed(paper) {
  const spans = [];
  for (const [character, style] of paper.cells) {
    const last = spans[spans.length - 1];
    if (last && last.style === style) last.text += character;
    else spans.push({ text: character, style });
  }
  paper.done.push(spans);
  paper.cells = [];
  paper.column = 0;
}

/** Reads one sequence; returns where it ends. */
function escape(paper, text, at, code) {
  const kind = code === 0x9b ? '[' : text[at + 1];
  const start = at + (code === 0x9b ? 1 : 2);
  if (kind === '[') {
    const found = /^([\x30-\x3f]*)([\x20-\x2f]*)([\x40-\x7e])?/.exec(text.slice(start, start + 256));
    if (found[3] && !found[2] && !/[<=>?]/.test(found[1])) obey(paper, found[1], found[3]);
    return start + found[0].length;
  }
  // Titles, links, the clipboard: text up to a terminator, which is dropped.
  if (kind !== undefined && ']PX^_'.includes(kind)) {
    const end = text.slice(start).search(/\x07|\x1b\\|\x9c/);
    if (end < 0) return text.length;
    return start + end + (text[start + end] === '\x1b' ? 2 : 1);
  }
  if (kind !== undefined && kind >= ' ' && kind <= '/') return Math.min(text.length, start + 1);
  return Math.min(text.length, start);
}

function obey(paper, given, last) {
  const numbers = given.split(/[;:]/).map((part) => Number(part || 0));
  const steps = Math.max(1, Math.min(MOST_COLUMNS, numbers[0]));
  if (last === 'm') colour(paper.style, numbers);
  else if (last === 'C') paper.column = Math.min(MOST_COLUMNS, paper.column + steps);
  else if (last === 'D') paper.column = Math.max(0, paper.column - steps);
  else if (last === 'G' || last === '`') paper.column = steps - 1;
  else if (last === 'K') erase(paper, numbers[0]);
}

function erase(paper, how) {
  if (how === 0) paper.cells.length = Math.min(paper.cells.length, paper.column);
  else if (how === 2) paper.cells = [];
  else for (let at = 0; at < Math.min(paper.column + 1, paper.cells.length); at += 1) paper.cells[at] = [' ', PLAIN];
}

const FLAGS = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'under', 7: 'reverse', 9: 'struck' };
const OFF = { 22: ['bold', 'dim'], 23: ['italic'], 24: ['under'], 27: ['reverse'], 29: ['struck'] };

function colour(style, numbers) {
  for (let at = 0; at < numbers.length; at += 1) {
    const number = numbers[at];
    if (number === 0) Object.assign(style, { fg: '', bg: '', flags: new Set() });
    else if (FLAGS[number]) style.flags = new Set([...style.flags, FLAGS[number]]);
    else if (OFF[number]) style.flags = new Set([...style.flags].filter((flag) => !OFF[number].includes(flag)));
    else if (number >= 30 && number <= 37) style.fg = String(number - 30);
    else if (number >= 90 && number <= 97) style.fg = String(number - 82);
    else if (number >= 40 && number <= 47) style.bg = String(number - 40);
    else if (number >= 100 && number <= 107) style.bg = String(number - 92);
    else if (number === 39) style.fg = '';
    else if (number === 49) style.bg = '';
    else if (number === 38 || number === 48) at = extended(style, number === 38 ? 'fg' : 'bg', numbers, at);
  }
}

function extended(style, ground, numbers, at) {
  if (numbers[at + 1] === 5) {
    style[ground] = String(nearest(palette(numbers[at + 2] ?? 0)));
    return at + 2;
  }
  if (numbers[at + 1] === 2) {
    style[ground] = String(nearest(numbers.slice(at + 2, at + 5)));
    return at + 4;
  }
  return at;
}

/** Red, green and blue of one of the 256 colours; a number of the first 16. */
function palette(number) {
  if (number < 16) return number;
  if (number >= 232) return [8 + (number - 232) * 10, 8 + (number - 232) * 10, 8 + (number - 232) * 10];
  const step = (part) => (part ? 55 + part * 40 : 0);
  const rest = number - 16;
  return [step(Math.floor(rest / 36)), step(Math.floor(rest / 6) % 6), step(rest % 6)];
}

const SIXTEEN = [[0, 0, 0], [170, 0, 0], [0, 170, 0], [170, 85, 0], [0, 0, 170], [170, 0, 170], [0, 170, 170], [170, 170, 170],
  [85, 85, 85], [255, 85, 85], [85, 255, 85], [255, 255, 85], [85, 85, 255], [255, 85, 255], [85, 255, 255], [255, 255, 255]];

/** The nearest of the 16 colours, which are classes: a page must not set styles from an output. */
function nearest(colours) {
  if (typeof colours === 'number') return colours;
  const distance = (other) => other.reduce((sum, part, index) => sum + (part - (colours[index] ?? 0)) ** 2, 0);
  return SIXTEEN.map(distance).reduce((best, value, index, all) => (value < all[best] ? index : best), 0);
}

function classes({ fg, bg, flags }) {
  const list = [...flags];
  if (fg) list.push(`fg${fg}`);
  if (bg) list.push(`bg${bg}`);
  return list.join(' ');
}
