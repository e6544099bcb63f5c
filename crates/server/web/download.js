// Saves a response as a file. The token cannot be in a link, so the page fetches it.

import { blob } from './api.js';
import { h } from './dom.js';

export async function download(url, name) {
  const address = URL.createObjectURL(await blob(url));
  const anchor = h('a', { href: address, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
