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

/** How long it is until an instant; `suffix` comes behind what is left. */
export function Until({ at, suffix = '' }: { at: string; suffix?: string }) {
  const left = Date.parse(at) - now.value;
  return (
    <time dateTime={at} title={exact(at)} class={left < 0 ? 'over' : undefined}>
      {left < 0 ? 'over' : `${ticking(left)}${suffix}`}
    </time>
  );
}

/** From when to when, as a length. */
export function Between({ from, to }: { from: string; to: string }) {
  return <span title={`${exact(from)} to ${exact(to)}`}>{duration(Date.parse(to) - Date.parse(from))}</span>;
}
