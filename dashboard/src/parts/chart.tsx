import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { theme } from './theme';

/** A line of a chart: a value for each instant, `null` where it is not known. */
export interface Series {
  label: string;
  /** A custom property with its colour. */
  colour: string;
  values: (number | null)[];
  /** The address of what it counts, or of what is nearest to that. */
  to?: string;
}

const HEIGHT = 180;

/** Distances of labels on an axis of counts. */
const WHOLE = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

/** Distances of labels on the axis of time, in seconds. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Lines over time. */
export function Chart({
  label,
  times,
  series,
  format,
  isCount = false,
}: {
  label: string;
  times: number[];
  series: Series[];
  format: (value: number) => string;
  /** Whether its values are whole. */
  isCount?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  const latest = useRef<uPlot.AlignedData>([[], []]);
  latest.current = [times, ...series.map((line) => line.values)] as uPlot.AlignedData;
  const look = theme.value;
  const shape = series.map((line) => line.label + line.colour).join();
  useEffect(() => {
    const place = box.current;
    if (!place) return;
    const made = new uPlot(optionsOf(place, series, format, isCount), latest.current, place);
    chart.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: place.clientWidth, height: HEIGHT }));
    observer.observe(place);
    return () => {
      observer.disconnect();
      made.destroy();
      chart.current = undefined;
    };
  }, [look, shape]);
  useEffect(() => chart.current?.setData(latest.current), [times.at(-1), times.length]);
  const last = (line: Series) => line.values.findLast((value) => value !== null) ?? null;
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{label}</span>
        <ul class="legend">
          {series.map((line) => (
            <li key={line.label}>
              <span class="swatch" style={{ background: `var(${line.colour})` }} />
              {line.to === undefined ? line.label : <a href={line.to}>{line.label}</a>}{' '}
              <b>{(({ value }) => (value === null ? '–' : format(value)))({ value: last(line) })}</b>
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
    </figure>
  );
}

function optionsOf(
  place: HTMLElement,
  series: Series[],
  format: (value: number) => string,
  isCount: boolean,
): uPlot.Options {
  const style = getComputedStyle(place);
  const colour = (name: string) => resolved(place, name);
  const axis = {
    stroke: colour('--soft'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: `11px ${style.fontFamily}`,
  };
  return {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    padding: [8, 26, 0, 0],
    scales: { x: { time: true }, y: { range: (_, __, most) => [0, Math.max(1, (most ?? 0) * 1.1)] } },
    axes: [
      {
        ...axis,
        space: 70,
        size: 26,
        incrs: SECONDS,
        values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toLocaleTimeString('en-GB')),
      },
      { ...axis, size: 48, ...(isCount ? { incrs: WHOLE } : {}), values: (_, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...series.map((line) => ({
        label: line.label,
        stroke: colour(line.colour),
        width: 2,
        points: { show: false },
      })),
    ],
  };
}

/** The colour of a custom property as canvases understand it. */
function resolved(place: HTMLElement, name: string): string {
  const probe = place.appendChild(document.createElement('span'));
  probe.style.color = `var(${name})`;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
