// The daemon's API. The token is in this tab's memory only: another tab, and another port of this machine, do not see it.

const KEY = 'shellkeep-token';
const ROLE = 'shellkeep-role';

/** A refused request: `code` is stable, `message` says what happened. What to do next is worded for HTTP clients, so it is left out
 * where the daemon sends both apart. */
export class Problem extends Error {
  constructor(status, body) {
    super(body?.fact ?? body?.detail ?? `the daemon answered ${status}`);
    this.status = status;
    this.code = body?.code ?? 'unreachable';
    this.title = body?.title;
    this.data = body ?? {};
  }
}

export const token = () => sessionStorage.getItem(KEY);
export const mayAct = () => sessionStorage.getItem(ROLE) === 'act';

/** Exchanges the code in the address for a token. Returns whether the tab has one. */
export async function enter() {
  const [, code] = /^#c=(.*)$/.exec(location.hash) ?? [];
  if (code === undefined) return token() !== null;
  // The code is used up now; it must not stay in the history.
  history.replaceState(null, '', location.pathname + '#/');
  const issued = await post('/v1/console/login', { code });
  sessionStorage.setItem(KEY, issued.token);
  sessionStorage.setItem(ROLE, issued.role);
  return true;
}

/** Gives the token back. */
export async function leave() {
  await post('/v1/console/logout', {}).catch(() => {});
  forget();
}

export function forget() {
  sessionStorage.removeItem(KEY);
  sessionStorage.removeItem(ROLE);
}

let refused = () => {};
/** Called when the token is no longer valid. */
export function onRefused(call) {
  refused = call;
}

async function ask(method, path, { body, signal, accept = 'application/json' } = {}) {
  const headers = { accept };
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', redirect: 'error', credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(0, { detail: 'the daemon cannot be reached; the page tries again when it is back' });
  }
  if (response.ok) return response;
  const refusal = new Problem(response.status, await response.json().catch(() => null));
  if (refusal.code === 'unauthorized') {
    forget();
    refused();
  }
  throw refusal;
}

/** A path with values that are escaped: `` path`/v1/sessions/${id}` ``. */
export function path(strings, ...values) {
  return strings.reduce((all, text, index) => all + encodeURIComponent(values[index - 1]) + text);
}

/** A query; values that are empty are left out. */
export function query(params) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return given.length ? `?${new URLSearchParams(given)}` : '';
}

export async function get(url, options) {
  return (await ask('GET', url, options)).json();
}

/** Something that is not JSON, whole. */
export async function blob(url) {
  return (await ask('GET', url, { accept: '*/*' })).blob();
}

export async function post(url, body, options) {
  const response = await ask('POST', url, { body, ...options });
  return response.status === 204 ? null : response.json();
}

/** Deletes something; what the daemon says about it. */
export async function remove(url) {
  const response = await ask('DELETE', url);
  return response.status === 204 ? null : response.json();
}
