// The overview is asked for on every page, so that its charts have no gaps.

import { signal } from '@preact/signals';
import { type Sample, sum, withSample } from '../logic/rates';
import { access, call, inBucket, type Problem } from './api';
import { noteServerTime, usePolled } from './live';
import { bucket } from './place';
import type { Overview } from './types';

/** Ten minutes of looks, one every two seconds. */
const SAMPLES = 300;

/** The latest overview of the present bucket. */
export const overview = signal<Overview | undefined>(undefined);

/** Why there is none. */
export const overviewProblem = signal<Problem | undefined>(undefined);

/** The looks at the present bucket with the present key. */
export const samples = signal<readonly Sample[]>([]);

let sampled = '';

/** Keeps the overview up to date. */
export function useOverview(): void {
  const of = bucket.value;
  const { value, problem } = usePolled(`overview ${of}`, async (signal) => {
    const began = performance.now();
    const value = await call<Overview>('GET', inBucket(of, 'overview'), {}, undefined, signal);
    noteServerTime(value.at, performance.now() - began);
    const series = `${access.turn.peek()} ${of}`;
    if (sampled !== series) samples.value = [];
    sampled = series;
    samples.value = withSample(samples.value, sampleOf(value), SAMPLES);
    return { of, value };
  });
  overview.value = value?.of === of ? value.value : undefined;
  overviewProblem.value = problem;
}

function sampleOf({ at, held, waiting, totals }: Overview): Sample {
  return {
    at: Date.parse(at),
    since: totals?.since ?? '',
    held: sum(held),
    waiting,
    granted: totals && sum(totals.granted),
    refused: totals && sum(totals.refused),
    lost: totals && sum(totals.lost),
  };
}
