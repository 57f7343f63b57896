import { useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Client, ConnectionState, LockOptions } from '../../../clients/js/dist/types/index';
import { access, call, inBucket, presentKey } from '../data/api';
import { usePolled } from '../data/live';
import { bucket, linkToName } from '../data/place';
import type { Entry, Page } from '../data/types';
import { bucketOption } from '../logic/shell';
import { DEFAULT_BUCKET, writeSearch } from '../logic/url';
import { ModeMark } from '../parts/marks';
import { Name, Text } from '../parts/name';
import { Notice } from '../parts/notice';
import { Ago } from '../parts/time';

const HOWS = ['exclusive', 'shared', 'if available', 'steal'] as const;
type How = (typeof HOWS)[number];

/** A request of this tab, and what became of it. */
interface Story {
  id: number;
  name: string;
  how: How;
  note: string;
  state: 'waits' | 'held' | 'ended' | 'failed';
  press?: { label: string; action: () => void };
}

const OPTIONS: Readonly<Record<How, LockOptions>> = {
  exclusive: {},
  shared: { mode: 'shared' },
  'if available': { ifAvailable: true },
  steal: { steal: true },
};

/** So long a request that has ended stays to be read. */
const ENDED_MS = 5000;

const me = `tab ${Math.random().toString(36).slice(2, 6)}`;

/** Two tabs that take turns: what the server is for, in one minute. */
export function TryPage() {
  const { client, state } = useClient();
  const [name, setName] = useState('report');
  const happened = useSignal(0);
  const [stories, ask] = useStories(client, () => {
    happened.value += 1;
  });
  const query = { name, limit: 100 };
  const { value, problem } = usePolled(
    `try ${name}`,
    (signal) => call<Page<Entry>>('GET', inBucket(bucket.value, 'query'), query, undefined, signal),
    1000,
    happened,
  );
  const entries = value?.entries ?? [];
  const pending = entries.filter((it) => it.state === 'pending');
  return (
    <div class={state === 'open' ? 'try' : 'try lost'}>
      <h1>Try it</h1>
      <p class="lead">
        Open this page in a second tab. Press <b>exclusive</b> in both; release in one, and the other gets the lock.{' '}
        <span id="connection" role="status" data-state={state}>
          {state === 'lost' ? 'connection lost, trying again' : state}
        </span>
      </p>
      <div class="columns three">
        <section class="card" aria-labelledby="ask-title">
          <h2 id="ask-title">Ask for a lock</h2>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              const button = event.submitter as HTMLButtonElement | null;
              ask(name, (button?.value as How) || 'exclusive');
            }}
          >
            <label>
              Resource
              <input
                id="name"
                value={name}
                maxLength={200}
                autocomplete="off"
                spellcheck={false}
                onInput={(event) => setName(event.currentTarget.value)}
              />
            </label>
            <div class="buttons">
              {HOWS.map((how) => (
                <button
                  key={how}
                  type="submit"
                  value={how}
                  class={how === 'steal' ? 'danger' : undefined}
                  disabled={!client}
                >
                  {how}
                </button>
              ))}
            </div>
          </form>
          <h3>
            You are <output id="me">{me}</output>
          </h3>
          <ul id="mine" class="stories" aria-live="polite">
            {stories.map((story) => (
              <StoryCard key={story.id} story={story} />
            ))}
          </ul>
        </section>
        <Entries id="held" title="Held" entries={entries.filter((it) => it.state === 'held')} />
        <Entries id="pending" title="Pending" entries={pending} />
      </div>
      <Notice problem={problem} />
      <p class="soft">
        The buttons call <code>locks.request(name, options, callback)</code>, as in the Web Locks API. In a terminal,{' '}
        <code>
          lockhouse run{bucketOption(bucket.value)} {/^[\w./:-]+$/.test(name) ? name : "'…'"} -- sleep 10
        </code>{' '}
        waits in the same queue. <a href={linkToName(name)}>All of this name</a>
      </p>
    </div>
  );
}

function StoryCard({ story }: { story: Story }) {
  const { name, how, note, state, press } = story;
  return (
    <li class={state === 'failed' ? 'story failed' : `story story-${state}`}>
      <span class="story-name">
        <Name name={name} />
      </span>
      <ModeMark mode={how} />
      <span class="note">{note}</span>
      {press ? (
        <button type="button" class="small" onClick={press.action}>
          {press.label}
        </button>
      ) : null}
    </li>
  );
}

function Entries({ id, title, entries }: { id: string; title: string; entries: Entry[] }) {
  return (
    <section class="card" aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>
        {title}{' '}
        <span id={`${id}-count`} class="soft">
          {entries.length}
        </span>
      </h2>
      <ul id={id} class="stories entries" tabIndex={entries.length > 6 ? 0 : undefined}>
        {entries.map((it) => (
          <li key={`${it.fencingToken} ${it.place} ${it.clientId}`} class={it.clientId === me ? 'story mine' : 'story'}>
            <span class="story-name">
              <Text text={it.clientId} />
            </span>
            <ModeMark mode={it.mode} />
            <span class="note">
              {it.place === null ? `token ${it.fencingToken}` : `place ${it.place}`}, for <Ago at={it.since} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

declare global {
  var lockhouse: { connect: (url: string, options: object) => Client } | undefined;
}

/** The client of this tab, for as long as the page is shown; one of the present key. */
function useClient(): { client: Client | undefined; state: ConnectionState } {
  const state = useSignal<ConnectionState>('connecting');
  const [client, setClient] = useState<Client | undefined>();
  const turn = access.turn.value;
  const of = bucket.value;
  useEffect(() => {
    let made: Client | undefined;
    let isOver = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const begin = () => {
      if (isOver || !globalThis.lockhouse) return;
      const url = location.origin + writeSearch(of === DEFAULT_BUCKET ? {} : { bucket: of });
      const onstate = (next: ConnectionState) => {
        if (!isOver) state.value = next;
      };
      made = globalThis.lockhouse.connect(url, { clientId: me, key: presentKey(), onstate });
      state.value = made.state;
      setClient(made);
    };
    const load = () => {
      loadClient().then(begin, () => {
        if (isOver) return;
        state.value = 'lost';
        timer = setTimeout(load, LOAD_AGAIN_MS);
      });
    };
    load();
    return () => {
      isOver = true;
      clearTimeout(timer);
      made?.close();
    };
  }, [of, turn]);
  return { client, state: state.value };
}

/** After this time a script that could not be loaded is loaded again. */
const LOAD_AGAIN_MS = 3000;

let loading: Promise<void> | undefined;

/** The script that the server has for pages without a bundler. */
function loadClient(): Promise<void> {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = '/lockhouse.global.js';
    script.onload = () => resolve();
    script.onerror = () => {
      loading = undefined;
      script.remove();
      reject(new Error('no client'));
    };
    document.head.append(script);
  });
  return loading;
}

function useStories(
  client: Client | undefined,
  onChange: () => void,
): [readonly Story[], (name: string, how: How) => void] {
  const [stories, setStories] = useState<readonly Story[]>([]);
  const number = useRef(0);
  const set = (id: number, change: Partial<Story> | undefined) => {
    setStories((all) =>
      change ? all.map((it) => (it.id === id ? { ...it, ...change } : it)) : all.filter((it) => it.id !== id),
    );
    onChange();
  };
  const ask = (name: string, how: How) => {
    if (!client) return;
    const id = ++number.current;
    setStories((all) => [
      { id, name, how, note: 'waits', state: 'waits' },
      ...all.filter((it) => it.state !== 'failed'),
    ]);
    void request(client, name, how, (change) => set(id, change));
  };
  return [stories, ask];
}

/** One request, told as it goes. */
async function request(
  client: Client,
  name: string,
  how: How,
  set: (change: Partial<Story> | undefined) => void,
): Promise<void> {
  const aborter = new AbortController();
  const canWait = how === 'exclusive' || how === 'shared';
  const options: LockOptions = canWait ? { ...OPTIONS[how], signal: aborter.signal } : OPTIONS[how];
  if (canWait) set({ press: { label: 'abort', action: () => aborter.abort() } });
  let note = 'released';
  try {
    await client.locks.request(name, options, (lock) => {
      if (lock === null) {
        note = 'not available';
        return undefined;
      }
      return new Promise<void>((release) => {
        set({
          note: `held, fencing token ${lock.fencingToken}`,
          state: 'held',
          press: { label: 'release', action: () => release() },
        });
      });
    });
  } catch (error) {
    if (!aborter.signal.aborted) {
      // It stays to be read: until it is dismissed, or the next request.
      set({ note: String(error), state: 'failed', press: { label: 'dismiss', action: () => set(undefined) } });
      return;
    }
    note = 'aborted';
  }
  set({ note, state: 'ended', press: { label: 'dismiss', action: () => set(undefined) } });
  setTimeout(() => set(undefined), ENDED_MS);
}
