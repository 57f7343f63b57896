// Calls a server by the types that openapi-typescript makes of its document.

import createClient from 'openapi-fetch';

import type { components, paths } from './api.js';

declare const process: { readonly argv: readonly string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] ?? '' });
const path = { bucket: 'typescript' };

function value<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

function expect(actual: unknown, expected: unknown): void {
  if (actual !== expected) throw new Error(`${String(actual)} is not ${String(expected)}`);
}

// Members with a default may be left out.
const newOwner: components['schemas']['NewOwner'] = { label: 'Anna' };
const owner = value(await client.POST('/v1/buckets/{bucket}/owners', { params: { path }, body: newOwner }));
const headers = { Authorization: `Bearer ${owner.ownerSecret}` };
const targets: components['schemas']['LockTarget'][] = [
  { kind: 'customer', id: '42', intent: 'write' },
  { name: 'report', mode: 'shared' },
];
const body = { owner: owner.owner, locks: targets };
const locked = value(await client.POST('/v1/buckets/{bucket}/locks', { params: { path }, headers, body }));
expect(locked.locks.map(({ name, mode }) => `${name} ${String(mode)}`).join(), 'customer/42 exclusive,report shared');

const query = { kind: 'offline', state: 'held' } satisfies { kind: components['schemas']['EntryKind']; state: 'held' };
const page = value(await client.GET('/v1/buckets/{bucket}/query', { params: { path, query } }));
expect(page.entries.length, 2);
const entry: components['schemas']['Entry'] | undefined = page.entries[0];
expect(entry?.owner, owner.owner);

const released = value(
  await client.POST('/v1/buckets/{bucket}/locks/release', {
    params: { path },
    headers,
    body: { owner: owner.owner, all: true, sparing: [{ name: 'report' }] },
  }),
);
expect(released.released, 1);

const claim = { resource: 'report', claimant: 'Bob' };
const refused = await client.POST('/v1/buckets/{bucket}/claims', { params: { path }, body: claim });
const code: components['schemas']['Code'] | undefined = refused.error?.code;
expect(code, 'busy');
