import { randomId } from './random.js';

interface Frame {
  readonly location?: { readonly origin: string; readonly ancestorOrigins?: ArrayLike<string> };
  readonly origin?: string;
  readonly parent?: unknown;
  readonly document?: { readonly referrer: string };
  readonly credentialless?: boolean;
  readonly localStorage?: Storage;
}

/** The start of a partition that lists origins, for which the server puts that of their sites. */
export const ORIGINS = 'origins:';
/** Where the frames of one credentialless storage find their partition. */
const STORED = 'lockhouse.partition';

/**
 * The partition of this context, to be shared only with frames in the same place, as its storage is: empty in
 * a page of its own and in a frame whose ancestors are all of its origin. In other frames it lists their
 * origin and those of their ancestors. Which of them are of one site only the server knows, which makes it
 * the empty one or that of the top page. A credentialless frame has that of its storage.
 *
 * A worker cannot know where its page is embedded, and gets the empty one: pages hand their partition to
 * their workers.
 */
export function currentPartition(): string {
  const frame = globalThis as unknown as Frame;
  if (!frame.document || frame.parent === globalThis) return '';
  if (frame.credentialless) return storedPartition(frame);
  return partitionFor(frame.origin ?? 'null', ancestorsOf(frame));
}

/** The partition of a frame with this origin below these ancestors, the nearest first. */
export function partitionFor(origin: string, ancestors: readonly string[]): string {
  const top = ancestors.at(-1);
  if (top === undefined || ancestors.every((ancestor) => ancestor !== 'null' && ancestor === origin)) return '';
  // Those between count once.
  return [ORIGINS, origin, ...new Set(ancestors.slice(0, -1)), top].join(' ');
}

/** The storage of such a frame is shared only with those of its origin in the same page, and ends with it. */
function storedPartition({ localStorage }: Frame): string {
  const stored = localStorage?.getItem(STORED);
  if (stored) return stored;
  const partition = `credentialless ${randomId()}`;
  localStorage?.setItem(STORED, partition);
  return partition;
}

function ancestorsOf(frame: Frame): string[] {
  if (frame.location?.ancestorOrigins) return Array.from(frame.location.ancestorOrigins);
  // Without ancestorOrigins a frame sees as far up as its own origin reaches; beyond that only the referrer
  // says something.
  const ancestors: string[] = [];
  let below: Frame = frame;
  while (below.parent !== below) {
    const above = below.parent as Frame;
    try {
      ancestors.push(above.origin ?? 'null');
    } catch {
      const { referrer } = frame.document ?? { referrer: '' };
      return [...ancestors, URL.canParse(referrer) ? new URL(referrer).origin : 'null'];
    }
    below = above;
  }
  return ancestors;
}
