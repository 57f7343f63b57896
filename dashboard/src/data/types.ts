// The bodies of the HTTP API, as docs/http.md has them. Instants are RFC 3339.

export type Kind = 'web' | 'offline' | 'claim' | 'assignment';

/** An entry of `query`. */
export interface Entry {
  name: string;
  mode: 'exclusive' | 'shared';
  kind: Kind;
  state: 'held' | 'pending' | 'assigned';
  clientId: string;
  owner: string | null;
  since: string;
  expiresAt: string | null;
  place: number | null;
  fencingToken: number | null;
  metadata: string | null;
}

export interface Page<T> {
  entries: T[];
  next: string | null;
  /** Of a query: for how long the server still waits for holders from before its restart, at most. */
  recoveringMs?: number;
}

/** An entry of `history`. */
export interface Ended {
  kind: string;
  name: string | null;
  label: string;
  owner: string | null;
  mode: 'exclusive' | 'shared' | null;
  fencingToken: number | null;
  /** Since when a Web Lock was waited for, if it had to wait. */
  waitingSince: string | null;
  since: string;
  endedAt: string;
  end: string;
  operator: string | null;
  reason: string | null;
  /** How often it was refused in that time; 1 of all else. */
  count: number;
}

/** How long something took, by how often. */
export interface Durations {
  count: number;
  p50Ms: number | null;
  p90Ms: number | null;
  p99Ms: number | null;
  buckets: { leMs: number | null; count: number }[];
}

export type Disciplines<T> = Record<'web' | 'offline' | 'claim', T>;

/** `overview`. */
export interface Overview {
  at: string;
  held: Disciplines<number>;
  waiting: number;
  assigned: number;
  owners: number;
  agents: number;
  longestWait: Entry | null;
  oldest: Entry | null;
  contended: { name: string; waiting: number; held: number; longestWaitMs: number }[];
  /** For how long the server still waits for holders from before its restart, at most. */
  recoveringMs?: number;
  /** `null`, as the two below, where the server counts nothing. */
  totals: {
    since: string;
    granted: Disciplines<number>;
    refused: Record<string, number>;
    lost: Record<string, number>;
  } | null;
  waits: Durations | null;
  holds: Disciplines<Durations> | null;
}

/** An entry of `owners`. */
export interface Owner {
  owner: string;
  label: string;
  since: string;
  expiresAt: string;
  endsAt: string | null;
  metadata: string | null;
  locks: number;
}

export interface WaitNode {
  id: string;
  kind: string;
  clientId: string;
}

export interface WaitEdge {
  from: string;
  to: string;
  name: string;
  mode: string;
  sinceMs: number;
}

/** `waits`. */
export interface Waits {
  nodes: WaitNode[];
  edges: WaitEdge[];
  cycles: string[][];
  truncated: boolean;
}

/** An entry of `sessions`. */
export interface Session {
  /** Those of its first agents. */
  clientIds: string[];
  /** How many agents it has. */
  agents: number;
  since: string;
  address: string | null;
  userAgent: string | null;
  origin: string | null;
  credential: string | null;
  held: number;
  waiting: number;
  queuedBytes: number;
  connected: boolean;
}

/** `/v1/cluster`. */
export interface Cluster {
  node: string;
  moving: number;
  nodes: {
    node: string;
    address: string;
    owns: number;
    version?: string;
    phase?: string;
    notReady?: string;
    unconfirmedMs?: number;
    unreachable?: string;
  }[];
  slots: { slot: number; node: string | null; epoch: number; state: string }[];
}

/** The data of an event of `events`, with its kind. */
export interface LockEvent {
  type: string;
  at: string;
  since: string;
  name?: string;
  kind?: string;
  mode?: string;
  clientId?: string;
  owner?: string;
  fencingToken?: number;
  end?: string;
  by?: string;
  reason?: string;
}

/** The answer of `locks/break`. */
export interface Broken {
  broken: { name: string; fencingToken: number; holder: { label: string } }[];
  gone: { name: string; fencingToken: number }[];
}
