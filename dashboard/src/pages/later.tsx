import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';

/** A page whose code is loaded once it is opened. */
export function later(load: () => Promise<() => ComponentChildren>): () => ComponentChildren {
  let loaded: (() => ComponentChildren) | undefined;
  return function Later() {
    const [, setView] = useState<unknown>();
    const [failure, setFailure] = useState<string>();
    useEffect(() => {
      if (loaded) return;
      load().then(
        (view) => {
          loaded = view;
          setView({});
        },
        (error) => setFailure(String(error)),
      );
    }, []);
    if (failure) {
      return (
        <p class="notice" role="alert">
          This page could not be loaded; after an update of the server, load the dashboard again.{' '}
          <small>{failure}</small>
        </p>
      );
    }
    const View = loaded;
    return View ? <View /> : <p class="loading">Loading…</p>;
  };
}
