import { useState } from 'preact/hooks';
import { now as clock } from '../data/live';
import { isForced } from '../logic/causes';
import { type Bar, describe, extent, lanes } from '../logic/timeline';
import { duration } from '../logic/times';
import { Text } from './name';

const WINDOWS: readonly (readonly [string, number])[] = [
  ['1 min', 60_000],
  ['10 min', 600_000],
  ['1 h', 3_600_000],
  ['1 day', 86_400_000],
  ['all', 0],
];

const LANES = 24;
const TICKS = 5;

/** Bars over time, a line for each party; the lists of the page say the same in words. */
export function Timeline({ bars }: { bars: readonly Bar[] }) {
  const now = clock.value;
  const [chosen, setChosen] = useState<number | undefined>();
  const first = Math.min(now - 10_000, ...bars.map((bar) => bar.from));
  const fitting = WINDOWS.find(([, ms]) => ms > 0 && now - first <= ms)?.[1] ?? 0;
  const length = chosen ?? fitting;
  const from = length === 0 ? first - (now - first) * 0.02 : now - length;
  const shown = bars.filter((bar) => extent(bar, from, now) !== undefined);
  const rows = lanes(shown, LANES);
  return (
    <div class="timeline">
      <div class="timeline-windows">
        <fieldset>
          <legend class="hidden">Time shown</legend>
          {WINDOWS.map(([title, ms]) => (
            <button key={title} type="button" class="chip" aria-pressed={length === ms} onClick={() => setChosen(ms)}>
              {title}
            </button>
          ))}
        </fieldset>
        <ul class="legend">
          <li>
            <span class="swatch bar-held" /> held
          </li>
          <li>
            <span class="swatch bar-waits" /> waits
          </li>
          <li>
            <span class="swatch bar-forced" /> ended by others
          </li>
        </ul>
      </div>
      {rows.length === 0 ? <p class="soft">Nothing in this time.</p> : null}
      <div class="lanes" role="img" aria-label={`${shown.length} holds and waits in ${duration(now - from)}`}>
        {rows.map((lane) => (
          <div class="lane" key={lane.bars[0]?.key}>
            <div class="lane-who">
              <Text text={lane.who} />
            </div>
            <div class="lane-track">
              {lane.bars.map((bar) => {
                const part = extent(bar, from, now);
                return part ? (
                  <div
                    key={bar.key}
                    class={classOf(bar)}
                    title={describe(bar, now)}
                    style={{ left: `${part.left}%`, width: `${part.width}%` }}
                  />
                ) : null;
              })}
            </div>
          </div>
        ))}
        {rows.length > 0 ? <Axis from={from} to={now} /> : null}
      </div>
    </div>
  );
}

function Axis({ from, to }: { from: number; to: number }) {
  const ticks = Array.from({ length: TICKS }, (_, index) => from + ((to - from) * index) / (TICKS - 1));
  const isLong = to - from > 86_400_000;
  return (
    <div class="axis">
      {ticks.map((at, index) => {
        const time = new Date(at);
        const text = isLong
          ? time.toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' })
          : time.toLocaleTimeString('en-GB');
        return <span key={at}>{index === TICKS - 1 ? 'now' : text}</span>;
      })}
    </div>
  );
}

function classOf({ what, end, to }: Bar): string {
  return `bar bar-${what}${end !== null && isForced(end) ? ' bar-forced' : ''}${to === null ? ' bar-open' : ''}`;
}
