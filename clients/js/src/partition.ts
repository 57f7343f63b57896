interface Frame {
  readonly location?: { readonly origin: string; readonly ancestorOrigins?: ArrayLike<string> };
  readonly origin?: string;
  readonly parent?: unknown;
  readonly document?: { readonly referrer: string };
}

/**
 * The partition of this context, to be shared only with frames in the same place, as its storage is:
 * empty in a page of its own and in a frame whose ancestors are all of the same site, else the site of the
 * top page and whether an ancestor is cross-site.
 *
 * A worker cannot know where its page is embedded, and gets the empty one: pages hand their partition to
 * their workers.
 */
export function currentPartition(): string {
  const frame = globalThis as unknown as Frame;
  if (!frame.document || frame.parent === globalThis) return '';
  return partitionFor(frame.origin ?? 'null', ancestorsOf(frame));
}

/** The partition of a frame with this origin below these ancestors, the nearest first. */
export function partitionFor(origin: string, ancestors: readonly string[]): string {
  const top = ancestors.at(-1);
  if (top === undefined) return '';
  const own = siteOf(origin);
  if (ancestors.every((ancestor) => ancestor !== 'null' && siteOf(ancestor) === own)) return '';
  return `${siteOf(top)} cross-site`;
}

/**
 * The site of an origin: its scheme and the last two labels of its host; the ports of one host are one site;
 * addresses count whole.
 */
export function siteOf(origin: string): string {
  if (!URL.canParse(origin)) return origin;
  const { protocol, hostname } = new URL(origin);
  const isAddress = hostname.startsWith('[') || /^[\d.]+$/.test(hostname);
  const host = isAddress ? hostname : hostname.replace(/\.$/, '').split('.').slice(-2).join('.');
  return `${protocol}//${host}`;
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
