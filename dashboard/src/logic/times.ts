// Lengths of time in words, and read from them.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A length in at most two units: `3 min 20 s`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return '–';
  if (ms < 0) return `−${duration(-ms)}`;
  if (ms < 1) return '< 1 ms';
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return two(ms, MINUTE, 'min', SECOND, 's');
  if (ms < DAY) return two(ms, HOUR, 'h', MINUTE, 'min');
  return two(ms, DAY, 'd', HOUR, 'h');
}

/** A length in whole seconds, for what is counted down or up. */
export function ticking(ms: number): string {
  return ms < MINUTE ? `${Math.max(0, Math.floor(ms / SECOND))} s` : duration(ms);
}

function two(ms: number, large: number, name: string, small: number, below: string): string {
  const rest = Math.floor((ms % large) / small);
  const whole = `${Math.floor(ms / large)} ${name}`;
  return rest === 0 ? whole : `${whole} ${rest} ${below}`;
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: SECOND, m: MINUTE, min: MINUTE, h: HOUR, d: DAY };

/** The milliseconds of a text such as `90s`, `5 min` or `2h`; `undefined` of any other. */
export function readDuration(text: string): number | undefined {
  const parts = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)\s*$/.exec(text);
  const unit = UNITS[parts?.[2] ?? ''];
  return parts && unit ? Math.round(Number(parts[1]) * unit) : undefined;
}

/** An instant as a field for local times has it, in whole seconds; what is no instant is left as it is. */
export function localTime(text: string): string {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  const pad = (value: number) => String(value).padStart(2, '0');
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** The instant of a field for local times, as an address has it: the same for readers in every zone. */
export function instantOf(local: string): string {
  const at = new Date(local);
  return Number.isNaN(at.getTime()) ? local : at.toISOString();
}

/** An instant as it is shown where exactness counts: local time with milliseconds, and its zone. */
export function exact(instant: string): string {
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return instant;
  const pad = (value: number, width = 2) => String(value).padStart(width, '0');
  const minutes = -at.getTimezoneOffset();
  const zone = `${minutes < 0 ? '−' : '+'}${pad(Math.floor(Math.abs(minutes) / 60))}:${pad(Math.abs(minutes) % 60)}`;
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
  return `${day} ${time} ${zone}`;
}

/** The answer of a call that took longer says too little of the present. */
const QUICK_MS = 1000;

/**
 * How far a clock is from ours whose instant came at our `now` with an answer that took so long. Where it is
 * known `before`, a slow answer changes nothing.
 */
export function offsetAfter(before: number | undefined, at: number, tookMs: number, now: number): number | undefined {
  if (!Number.isFinite(at) || (before !== undefined && tookMs > QUICK_MS)) return before;
  return at + tookMs / 2 - now;
}
