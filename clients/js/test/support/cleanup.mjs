// What a test file started is ended in reverse order, whatever happened.

export function cleanups() {
  const stack = [];
  return {
    /** Keeps `end` for later and returns `value`. */
    keep(value, end) {
      stack.push(end);
      return value;
    },
    async end() {
      const errors = [];
      while (stack.length) await Promise.resolve(stack.pop()()).catch((error) => errors.push(error));
      if (errors.length) throw new AggregateError(errors, 'clean-up failed');
    },
  };
}

/** Resolves with the first truthy result of `condition`, or rejects after `ms` saying what was awaited. */
export async function until(condition, what, ms = 5000) {
  const end = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
