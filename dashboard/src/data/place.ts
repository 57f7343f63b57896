// Where the user is: the address of the page, which is all that a link to it needs.

import { computed, signal } from '@preact/signals';
import { changed, type Params, type Place, readPlace, writePlace } from '../logic/url';

/** The present place. */
export const place = signal<Place>(readPlace(location.pathname, location.search));

/** The present bucket. */
export const bucket = computed(() => place.value.bucket);

/** How many places of this visit are behind the present one. */
let depth = 0;

/** The address of a page in the present bucket. */
export function linkTo(page: string, params: Params = {}): string {
  return writePlace({ page, bucket: place.value.bucket, params });
}

/** The address of the page of a name. */
export const linkToName = (name: string): string => linkTo('name', { name });

/** Goes to an address of the dashboard. */
export function go(address: string, how: 'push' | 'replace' = 'push'): void {
  if (how === 'push') {
    depth += 1;
    history.pushState({ depth }, '', address);
    scrollTo(0, 0);
  } else {
    history.replaceState({ depth }, '', address);
  }
  place.value = readPlace(location.pathname, location.search);
}

/** Stays on the page with other parameters. */
export function change(changes: Readonly<Record<string, string | undefined>>, how: 'push' | 'replace' = 'push'): void {
  const { page, bucket, params } = place.value;
  go(writePlace({ page, bucket, params: changed(params, changes) }), how);
}

/** Goes back within this visit, or to that address if there is nothing behind. */
export function back(otherwise: string): void {
  if (depth > 0) history.back();
  else go(otherwise);
}

addEventListener('popstate', (event) => {
  depth = event.state?.depth ?? 0;
  place.value = readPlace(location.pathname, location.search);
});

/** Follows links within the dashboard without loading it anew. */
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const isOurs = link?.origin === location.origin && /^\/dashboard(\/|$)/.test(link.pathname);
  if (!link || !isOurs || link.target !== '') return;
  event.preventDefault();
  go(link.pathname + link.search);
});
