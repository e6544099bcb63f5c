// Elements from plain values. Text goes in as text nodes only, so nothing that a command printed becomes markup.

/** Makes an element: `h('div.row', {title: 'x', onclick: f}, 'text', child)`. */
export function h(name, props, ...children) {
  const [tag, ...classes] = name.split('.');
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(props ?? {})) set(element, key, value);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function set(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
  else if (key === 'class') element.className += ` ${value}`;
  else if (key in element && !key.startsWith('aria') && typeof value !== 'string') element[key] = value;
  else element.setAttribute(key, value === true ? '' : value);
}

/** Replaces what is in an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Sets the text of an element that is drawn often. */
export function put(element, text) {
  const node = element.firstChild;
  if (!node) element.append(text);
  else if (node.data !== text) node.data = text;
}

/** A button. */
export function button(text, onclick, props = {}) {
  return h('button', { type: 'button', onclick, ...props }, text);
}

/** A link to a state of the console. */
export function link(hash, text, props = {}) {
  return h('a', { href: hash, ...props }, text);
}

/** Says something to a person who does not see the page, and shows it for a moment. */
export function say(text) {
  const status = document.getElementById('status');
  fill(status, text);
  clearTimeout(say.timer);
  say.timer = setTimeout(() => fill(status), 6000);
}

/** What is shown where something failed. */
export function problem(error) {
  return h('div.problem', { role: 'alert' }, h('strong', null, error.title ?? 'This failed'), ' ', error.message ?? String(error));
}
