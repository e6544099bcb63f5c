// Figures and times as a person reads them. Pure.

const two = (number) => String(number).padStart(2, '0');

/** `4 ms`, `0.3 s`, `41 s`, `12 min`, `3 h`, `5 d`. */
export function span(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return '–';
  if (seconds < 0.0005) return '< 1 ms';
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${(Math.round(seconds * 100) / 100).toString()} s`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 100 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

/** `00:41`, `1:02:03`: how long something has been running. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${two(minutes)}:${two(whole % 60)}`;
}

/** `3 min ago`. */
export function ago(time, now = Date.now()) {
  const seconds = (now - Date.parse(time)) / 1000;
  if (!Number.isFinite(seconds)) return '–';
  return seconds < 5 ? 'now' : `${span(Math.floor(seconds))} ago`;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `16:02:07` of today, `12 May 16:02` of another day. Every row has one, and the browser's own formats take a millisecond. */
export function moment(time, now = new Date()) {
  const at = new Date(time);
  if (Number.isNaN(at.getTime())) return '–';
  const minutes = `${two(at.getHours())}:${two(at.getMinutes())}`;
  const isToday = at.getDate() === now.getDate() && at.getMonth() === now.getMonth() && at.getFullYear() === now.getFullYear();
  return isToday ? `${minutes}:${two(at.getSeconds())}` : `${at.getDate()} ${MONTHS[at.getMonth()]} ${minutes}`;
}

/** `14 KiB`: the units of the command line. */
export function size(bytes) {
  if (!Number.isFinite(bytes)) return '–';
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let value = bytes;
  let unit = -1;
  do {
    value /= 1024;
    unit += 1;
  } while (value >= 1023.5 && unit < units.length - 1);
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const NUMBER = new Intl.NumberFormat('en-US');

/** `1,204`. */
export function count(number) {
  return NUMBER.format(Number(number));
}

/** `1 file`, `3 files`. */
export function counted(number, word) {
  return `${count(number)} ${word}${number === 1 ? '' : 's'}`;
}

/** `42 %`. */
export function share(part) {
  return Number.isFinite(part) ? `${Math.round(part * 100)} %` : '–';
}

/** A text on one line, with characters that reorder or hide text made visible. */
export function plain(text) {
  return visible(String(text).replace(/[\r\n\t]+/g, ' '));
}

/** A text whose invisible and reordering characters are visible. Lines and tabs stay. */
export function visible(text) {
  return text.replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, '\ufffd').replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, '\ufffd');
}
