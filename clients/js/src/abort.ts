// Abort algorithms (https://dom.spec.whatwg.org/#abortsignal-abort-algorithms) for scripts. Each request with
// a signal adds one, and removes it at its grant; a signal that lives long and serves many requests is
// listened to once.

interface Watch {
  readonly algorithms: Set<() => void>;
  readonly onabort: () => void;
  /** What must live as long as the signal, so that it can call. */
  hook: unknown;
}

interface Subscriber {
  addTeardown(teardown: () => void): void;
}

interface ObservableConstructor {
  new (
    start: (subscriber: Subscriber) => void,
  ): { subscribe(observer: object, options: { signal: AbortSignal }): void };
}

const { Observable } = globalThis as { Observable?: ObservableConstructor };
const watches = new WeakMap<AbortSignal, Watch>();
/**
 * The watches that have algorithms, where only a listener notices the abort, and may run after listeners of
 * the page.
 */
const lateWatches = new Set<Watch>();

/**
 * Runs the algorithm once the signal, which is not aborted yet, is aborted. Returns the function that removes
 * it again.
 */
export function addAbortAlgorithm(signal: AbortSignal, algorithm: () => void): () => void {
  const watch = watchOf(signal);
  watch.algorithms.add(algorithm);
  if (!Observable) lateWatches.add(watch);
  return () => {
    watch.algorithms.delete(algorithm);
    if (watch.algorithms.size === 0) lateWatches.delete(watch);
  };
}

/** Runs the algorithms of signals that are aborted and whose listeners are still being called. */
export function runDueAbortAlgorithms(): void {
  for (const watch of lateWatches) watch.onabort();
}

function watchOf(signal: AbortSignal): Watch {
  const existing = watches.get(signal);
  if (existing) return existing;
  const algorithms = new Set<() => void>();
  const watch: Watch = {
    algorithms,
    onabort: () => {
      // Scripts can dispatch an abort event without aborting.
      if (!signal.aborted) return;
      for (const run of algorithms) run();
    },
    hook: undefined,
  };
  watches.set(signal, watch);
  watch.hook = hook(signal, watch.onabort);
  return watch;
}

/**
 * Calls `onabort` before the listeners of the page, where the platform has a way to. Returns what must be
 * kept.
 */
function hook(signal: AbortSignal, onabort: () => void): unknown {
  if (Observable) {
    let kept: Subscriber | undefined;
    new Observable((subscriber) => {
      // The teardown of a subscription is an abort algorithm of its signal: it runs before any listener, and
      // none can stop it.
      subscriber.addTeardown(onabort);
      kept = subscriber;
    }).subscribe({}, { signal });
    return kept;
  }
  // Elsewhere a listener must do; a dependent signal still fires when another listener stops the event.
  signal.addEventListener('abort', onabort, { capture: true });
  const dependent = AbortSignal.any?.([signal]);
  dependent?.addEventListener('abort', onabort);
  return dependent;
}
