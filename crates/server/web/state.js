// The state of the page is its address: `#/s/demo@128?tab=diff`. Pure.

/** What an address shows. */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const params = Object.fromEntries(new URLSearchParams(query));
  const parts = path.split('/').filter(Boolean).map(decode);
  if (parts[0] === 's' && parts[1]) {
    const [, name, seq] = /^(.*?)(?:@(\d+))?$/.exec(parts[1]);
    return { page: parts[2] ?? 'session', id: name, seq: seq ? Number(seq) : null, params };
  }
  if (parts[0] === 'compare') return { page: 'compare', id: parts[1] ?? '', other: parts[2] ?? '', params };
  if (parts[0] === 'node') return { page: 'node', params };
  return { page: 'fleet', params };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The address of a state. */
export function address({ page, id, seq, other, params = {} }) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== '' && value !== null && value !== undefined)).toString();
  const tail = query ? `?${query}` : '';
  const name = id ? encodeURIComponent(id) + (seq ? `@${seq}` : '') : '';
  if (page === 'fleet') return `#/${tail}`;
  if (page === 'node') return `#/node${tail}`;
  if (page === 'compare') return `#/compare/${encodeURIComponent(id ?? '')}/${encodeURIComponent(other ?? '')}${tail}`;
  if (page === 'session') return `#/s/${name}${tail}`;
  return `#/s/${name}/${page}${tail}`;
}

/** Words of a filter: `agent:ann failed: live: text` as an object. */
export function filter(text) {
  const found = { words: [], live: false, running: false, failed: false, agent: null };
  for (const word of text.trim().split(/\s+/).filter(Boolean)) {
    const [, name, value] = /^(\w+):(.*)$/.exec(word) ?? [];
    if (name === 'agent' && value) found.agent = value;
    else if (['live', 'running', 'failed'].includes(name)) found[name] = true;
    else found.words.push(word.toLowerCase());
  }
  return found;
}
