// Abort algorithms (https://dom.spec.whatwg.org/#abortsignal-abort-algorithms) for scripts. Each request with a signal adds one, and
// removes it at its grant; a signal that lives long and serves many requests is listened to once.

interface Watch {
  readonly algorithms: Set<() => void>;
  /** What must live as long as the signal, so that it can call. */
  readonly hook: unknown;
}

interface Subscriber {
  addTeardown(teardown: () => void): void;
}

interface ObservableConstructor {
  new (
    start: (subscriber: Subscriber) => void,
  ): { subscribe(observer: object, options: { signal: AbortSignal }): void };
}

const watches = new WeakMap<AbortSignal, Watch>();

/** Runs the algorithm once the signal, which is not aborted yet, is aborted. Returns the function that removes it again. */
export function addAbortAlgorithm(signal: AbortSignal, algorithm: () => void): () => void {
  let watch = watches.get(signal);
  if (!watch) {
    const algorithms = new Set<() => void>();
    const onabort = (): void => {
      // Scripts can dispatch an abort event without aborting.
      if (!signal.aborted) return;
      for (const run of algorithms) run();
      algorithms.clear();
    };
    watch = { algorithms, hook: hook(signal, onabort) };
    watches.set(signal, watch);
  }
  const { algorithms } = watch;
  algorithms.add(algorithm);
  return () => algorithms.delete(algorithm);
}

/** Calls `onabort` before the listeners of the page, where the platform has a way to. */
function hook(signal: AbortSignal, onabort: () => void): unknown {
  const { Observable } = globalThis as { Observable?: ObservableConstructor };
  if (Observable) {
    // The teardown of a subscription is an abort algorithm of its signal: it runs before any listener, and none can stop it.
    return new Promise((keep) => {
      new Observable((subscriber) => {
        subscriber.addTeardown(onabort);
        keep(subscriber);
      }).subscribe({}, { signal });
    });
  }
  // Elsewhere a listener must do; a dependent signal still tells when another listener stops the event.
  signal.addEventListener('abort', onabort, { capture: true });
  const dependent = AbortSignal.any?.([signal]);
  dependent?.addEventListener('abort', onabort);
  return dependent;
}
