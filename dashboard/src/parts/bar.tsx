import { useEffect, useState } from 'preact/hooks';
import { access, call, mayOperate, useKey } from '../data/api';
import { live, now, refresh, usePolled } from '../data/live';
import { overview, overviewProblem } from '../data/overview';
import { bucket, go, linkToName, place } from '../data/place';
import { plain } from '../logic/names';
import { ticking } from '../logic/times';
import { DEFAULT_BUCKET, writePlace } from '../logic/url';
import { Dialog } from './dialog';
import { isHelpOpen } from './help';
import { theme, turn } from './theme';

/** What stands above every page: search, live or paused, key, theme, help. */
export function Bar() {
  return (
    <header class="bar">
      <Search />
      <div class="bar-end">
        {mayOperate(bucket.value) === false ? (
          <span class="read-only" title="The server has said that this caller may not operate in this bucket.">
            read-only
          </span>
        ) : null}
        <Live />
        <KeyButton />
        <button
          type="button"
          class="quiet icon"
          aria-label={theme.value === 'dark' ? 'Light colours' : 'Dark colours'}
          onClick={turn}
        >
          {theme.value === 'dark' ? '☀' : '☾'}
        </button>
        <button type="button" class="quiet icon" aria-label="Help" onClick={() => (isHelpOpen.value = true)}>
          ?
        </button>
      </div>
    </header>
  );
}

function Search() {
  const [text, setText] = useState('');
  return (
    <search class="search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          go(linkToName(text));
          setText('');
          (document.activeElement as HTMLElement | null)?.blur();
        }}
      >
        <input
          id="search"
          type="search"
          aria-label="Exact name of a resource"
          placeholder="Exact name"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <kbd>/</kbd>
      </form>
    </search>
  );
}

/** Figures that are older than this are not called live. */
const LATE_MS = 5000;

function Live() {
  const { state, text } = liveness();
  return (
    <button
      type="button"
      class={`live live-${state}`}
      aria-pressed={!live.value}
      title={live.value ? 'Pause (p)' : 'Go on (p)'}
      onClick={toggleLive}
    >
      <span class="dot" aria-hidden="true" />
      {text}
    </button>
  );
}

/** What is said of the overview, which is asked for on every page. */
function liveness(): { state: 'paused' | 'trouble' | 'live'; text: string } {
  if (!live.value) return { state: 'paused', text: `Paused at ${new Date(now.value).toLocaleTimeString('en-GB')}` };
  if (overviewProblem.value) {
    return { state: 'trouble', text: overviewProblem.value.status === 0 ? 'No answer' : 'No data' };
  }
  if (!overview.value) return { state: 'trouble', text: 'Loading…' };
  const age = now.value - Date.parse(overview.value.at);
  return age > LATE_MS ? { state: 'trouble', text: `${ticking(age)} old` } : { state: 'live', text: 'Live' };
}

/** Pauses, or goes on at once. */
export function toggleLive(): void {
  live.value = !live.value;
  if (live.value) refresh();
}

function KeyButton() {
  const { hasKey, wanted } = access;
  const forget = () => useKey(undefined);
  if (hasKey.value) {
    return (
      <button type="button" class="quiet" title="The key is in the memory of this page alone." onClick={forget}>
        Forget key
      </button>
    );
  }
  return (
    <button type="button" class="quiet" onClick={() => (wanted.value = '')}>
      Key
    </button>
  );
}

interface Buckets {
  buckets: { bucket: string }[];
}

/** The bucket that is shown; a server that lists its buckets offers them. */
export function BucketChoice() {
  const [isAsking, setIsAsking] = useState(false);
  const { value } = usePolled(
    'buckets',
    (signal) => call<Buckets>('GET', '/v1/buckets', {}, undefined, signal),
    15_000,
  );
  const known = new Set([DEFAULT_BUCKET, bucket.value, ...(value?.buckets ?? []).map((it) => it.bucket)]);
  const choose = (chosen: string) =>
    go(writePlace({ page: place.value.page === 'name' ? 'locks' : place.value.page, bucket: chosen, params: {} }));
  return (
    <>
      <label class="bucket">
        Bucket
        <select
          value={bucket.value}
          onChange={(event) => {
            const { value } = event.currentTarget;
            if (value === '\n') {
              event.currentTarget.value = bucket.value;
              setIsAsking(true);
            } else {
              choose(value);
            }
          }}
        >
          {[...known].sort().map((name) => (
            <option key={name} value={name}>
              {plain(name)}
            </option>
          ))}
          <option value={'\n'}>another…</option>
        </select>
      </label>
      {isAsking ? <OtherBucket onClose={() => setIsAsking(false)} onChoose={choose} /> : null}
    </>
  );
}

function OtherBucket({ onClose, onChoose }: { onClose: () => void; onChoose: (name: string) => void }) {
  const [name, setName] = useState('');
  useEffect(() => document.getElementById('other-bucket')?.focus(), []);
  return (
    <Dialog title="Another bucket" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onClose();
          if (name !== '') onChoose(name);
        }}
      >
        <label>
          Name of the bucket
          <input
            id="other-bucket"
            value={name}
            autocomplete="off"
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        <footer>
          <button type="submit">Show it</button>
        </footer>
      </form>
    </Dialog>
  );
}
