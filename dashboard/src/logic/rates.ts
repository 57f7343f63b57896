// Rates are differences of totals. Totals count since a server began with the bucket, so that another `since`
// begins anew.

/** What one look at the overview found. */
export interface Sample {
  /** The server's instant, in milliseconds. */
  at: number;
  /** From when the totals count. */
  since: string;
  held: number;
  waiting: number;
  /** `null`, as the two below, where the server counts nothing. */
  granted: number | null;
  refused: number | null;
  lost: number | null;
}

/** What a second of the time before `at` brought; `null` where that is not known. */
export interface Rate {
  at: number;
  granted: number | null;
  refused: number | null;
  lost: number | null;
}

/** Rates over a longer time than this are no rates of that moment. */
const LONGEST_GAP_MS = 15_000;

/** The rates between neighbours, one for each sample. */
export function rates(samples: readonly Sample[]): Rate[] {
  return samples.map((sample, index) => {
    const before = samples[index - 1];
    const ms = before ? sample.at - before.at : 0;
    if (!before || before.since !== sample.since || ms <= 0 || ms > LONGEST_GAP_MS) {
      return { at: sample.at, granted: null, refused: null, lost: null };
    }
    const per = (now: number | null, then: number | null) =>
      now === null || then === null || now < then ? null : ((now - then) * 1000) / ms;
    return {
      at: sample.at,
      granted: per(sample.granted, before.granted),
      refused: per(sample.refused, before.refused),
      lost: per(sample.lost, before.lost),
    };
  });
}

/** A sample that is older by more than this is of a clock that was set back. */
const SET_BACK_MS = 5000;

/**
 * The samples with one more, of which only the latest are left; one that is not newer changes nothing, and
 * one of a clock that was set back begins anew.
 */
export function withSample(samples: readonly Sample[], sample: Sample, most: number): readonly Sample[] {
  const last = samples.at(-1);
  if (last && last.at - sample.at > SET_BACK_MS) return [sample];
  return last && last.at >= sample.at ? samples : [...samples, sample].slice(-most);
}

/** The sum of counts by cause. */
export function sum(counts: Readonly<Record<string, number>> | undefined): number {
  return Object.values(counts ?? {}).reduce((total, count) => total + count, 0);
}
