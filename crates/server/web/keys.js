// Keys of a page: those of `shellkeep top` and `shellkeep replay`. `?` lists them.

import { button, h } from './dom.js';

let current = {};
const everywhere = {
  '?': ['show these keys', () => help()],
  '1': ['all sessions', () => (location.hash = '#/')],
  '2': ['node', () => (location.hash = '#/node')],
  D: ['dark or light', () => theme(true)],
};

/** The keys of the page that is shown: `{key: [what, action]}`. */
export function bind(keys) {
  current = keys;
}

/** Listens to the keyboard, for as long as the page is open. */
export function listen() {
  document.addEventListener('keydown', pressed);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => dispatchEvent(new Event('theme')));
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  // A button of a dialog that was disabled has lost the focus to the page.
  if (document.querySelector('dialog[open]')) return;
  const typing = event.target.closest('input, textarea, select');
  if (typing) {
    if (event.key === 'Escape' && typing.tagName === 'INPUT') typing.blur();
    return;
  }
  const found = current[event.key] ?? everywhere[event.key];
  if (!found) return;
  event.preventDefault();
  found[1](event);
}

/** Dark or light; `system` until one chooses. */
export function theme(next) {
  const root = document.documentElement;
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  let chosen = localStorage.getItem('shellkeep-theme');
  if (next) {
    const now = chosen ?? (dark ? 'dark' : 'light');
    chosen = now === 'dark' ? 'light' : 'dark';
    localStorage.setItem('shellkeep-theme', chosen);
  }
  if (chosen) root.dataset.theme = chosen;
  // A canvas has to be drawn again.
  dispatchEvent(new Event('theme'));
}

function help() {
  // A list moves with keys of its own.
  const keys = new Map(document.querySelector('.rows') ? [['next, previous row', ['j', 'k']], ['first, last row', ['g', 'G']]] : []);
  const listed = [...keys.values()].flat();
  for (const [key, [what]] of Object.entries({ ...current, ...everywhere })) {
    if (!listed.includes(key)) keys.set(what, [...(keys.get(what) ?? []), key]);
  }
  const names = (some) => some.flatMap((key) => [h('kbd', null, key === ' ' ? 'Space' : key), ' ']);
  const dialog = h('dialog', { 'aria-label': 'Keys' }, h('h2', null, 'Keys'),
    h('dl.keys', null, [...keys].map(([what, some]) => [h('dt', null, names(some)), h('dd', null, what)])),
    h('div.actions', null, button('Close', () => dialog.close(), { autofocus: true })));
  open(dialog);
}

/** Shows a dialog until it is closed. */
export function open(dialog) {
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Closes the dialogs of a page that is left. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
}

