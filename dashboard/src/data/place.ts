// Where the user is: the address of the page, which is all that a link to it needs.

import { computed, signal } from '@preact/signals';
import {
  changed,
  type Params,
  type Place,
  readPlace,
  type Trace,
  traceOf,
  withinDashboard,
  writePlace,
} from '../logic/url';

/** The present place. */
export const place = signal<Place>(readPlace(location.pathname, location.search));

/** The present bucket. */
export const bucket = computed(() => place.value.bucket);

/** The trace of the present place; a reload leaves it. */
const trace = (): Trace => history.state ?? { depth: 0 };

/** The address of a page in the present bucket. */
export function linkTo(page: string, params: Params = {}): string {
  return writePlace({ page, bucket: place.value.bucket, params });
}

/** The address of the page of a name. */
export const linkToName = (name: string): string => linkTo('name', { name });

/** Goes to an address of the dashboard. */
export function go(address: string, how: 'push' | 'replace' = 'push'): void {
  const { pathname, search } = new URL(address, location.href);
  const next = readPlace(pathname, search);
  if (how === 'push') {
    history.pushState(traceOf(trace(), place.peek(), next), '', address);
    scrollTo(0, 0);
  } else {
    history.replaceState(trace(), '', address);
  }
  place.value = next;
}

/** Stays on the page with other parameters. */
export function change(changes: Readonly<Record<string, string | undefined>>, how: 'push' | 'replace' = 'push'): void {
  const { page, bucket, params } = place.value;
  go(writePlace({ page, bucket, params: changed(params, changes) }), how);
}

/** Goes to the page of the list before this one, or to that address if the way has not led over it. */
export function toPrevious(otherwise: string): void {
  const { depth, previous } = trace();
  if (previous === undefined) go(otherwise);
  else history.go(previous - depth);
}

addEventListener('popstate', () => {
  place.value = readPlace(location.pathname, location.search);
});

/** Follows links within the dashboard without loading it anew, also those of pictures. */
addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  const href = link?.getAttribute('href');
  if (!link || typeof href !== 'string' || link.hasAttribute('target') || link.hasAttribute('download')) return;
  const to = withinDashboard(href, location.href);
  if (!to) return;
  event.preventDefault();
  if (to.part === '') go(to.address);
  else document.getElementById(to.part)?.focus();
});
