import { now } from '../data/live';
import { duration, exact, ticking } from '../logic/times';

/** How long ago an instant was; the instant itself is shown on hover. */
export function Ago({ at, suffix = '' }: { at: string; suffix?: string }) {
  return (
    <time dateTime={at} title={exact(at)}>
      {ticking(Math.max(0, now.value - Date.parse(at)))}
      {suffix}
    </time>
  );
}

/** How long it is until an instant. */
export function Until({ at }: { at: string }) {
  const left = Date.parse(at) - now.value;
  return (
    <time dateTime={at} title={exact(at)} class={left < 0 ? 'over' : undefined}>
      {left < 0 ? 'over' : ticking(left)}
    </time>
  );
}

/** From when to when, as a length. */
export function Between({ from, to }: { from: string; to: string }) {
  return <span title={`${exact(from)} to ${exact(to)}`}>{duration(Date.parse(to) - Date.parse(from))}</span>;
}

/** A countdown with the part of the time that is left as a bar. */
export function Countdown({ from, to }: { from: string; to: string }) {
  const whole = Math.max(1, Date.parse(to) - Date.parse(from));
  const left = Math.min(1, Math.max(0, (Date.parse(to) - now.value) / whole));
  return (
    <span class={left < 0.2 ? 'countdown soon' : 'countdown'}>
      <span class="countdown-bar" aria-hidden="true">
        <span style={{ width: `${100 * left}%` }} />
      </span>
      <Until at={to} />
    </span>
  );
}
