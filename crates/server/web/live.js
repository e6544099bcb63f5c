// What happens in the daemon, as it happens: one WebSocket per tab. A topic sends a snapshot first, then updates. A tab
// that is too slow gets a new snapshot, not a queue.

import { Problem, forget, token } from './api.js';

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 4000;

const topics = new Map();
let socket = null;
let next = 1;
let pause = FIRST_PAUSE;
let watcher = () => {};
let refused = () => {};

/** `state` is told `on`, `off` when the connection comes and goes; `refusal` when the token is no longer valid. */
export function start(state, refusal) {
  watcher = state;
  refused = refusal;
  connect();
}

/** Ends the connection. */
export function stop() {
  const old = socket;
  socket = null;
  old?.close();
}

/** Follows a topic until the returned function is called. */
export function follow(topic, { params = {}, snapshot = () => {}, update = () => {}, error = () => {} }) {
  const id = next;
  next += 1;
  topics.set(id, { topic, params, snapshot, update, error });
  open(id);
  return () => {
    topics.delete(id);
    send({ close: id });
  };
}

function send(message) {
  if (socket?.readyState === WebSocket.OPEN && socket.ready) socket.send(JSON.stringify(message));
}

function open(id) {
  const { topic, params } = topics.get(id);
  send({ open: id, topic, ...params });
}

function connect() {
  if (!token()) return;
  const made = new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}/v1/live`);
  socket = made;
  made.onopen = () => made.send(JSON.stringify({ auth: token() }));
  made.onmessage = ({ data }) => receive(made, data);
  made.onclose = (event) => closed(made, event);
}

function receive(made, data) {
  const message = JSON.parse(data);
  if (message.ready) {
    made.ready = true;
    pause = FIRST_PAUSE;
    watcher('on');
    for (const id of topics.keys()) open(id);
    return;
  }
  const found = topics.get(message.id);
  if (!found) return;
  if (message.snapshot) found.snapshot(message.snapshot);
  else if (message.update) found.update(message.update);
  else if (message.error) found.error(new Problem(message.error.status, message.error));
  // What was read makes room for more.
  send({ credit: message.id, bytes: data.length });
}

function closed(made, event) {
  if (made !== socket) return;
  watcher('off');
  if (event.code === 4401) {
    forget();
    refused();
    return;
  }
  setTimeout(() => made === socket && connect(), pause);
  pause = Math.min(LONGEST_PAUSE, pause * 2);
}
