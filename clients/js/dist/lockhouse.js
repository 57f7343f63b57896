// src/node.ts
var { process } = globalThis;
function builtin(name) {
  return process?.getBuiltinModule?.(name);
}
var isNode = builtin("node:process") !== void 0;
var hooks = builtin("node:async_hooks");
var diagnostics = builtin("node:diagnostics_channel");
var threads = builtin("node:worker_threads");
function newCounter() {
  const isShared = threads !== void 0 && !threads.isMainThread;
  return new Float64Array(isShared ? new SharedArrayBuffer(8) : new ArrayBuffer(8));
}
function captureContext() {
  return hooks?.AsyncLocalStorage.snapshot?.() ?? ((run) => run());
}
var requestChannels = ["start", "grant", "miss", "end"].map(
  (event) => [event, diagnostics?.channel(`locks.request.${event}`)]
);
var channels = Object.fromEntries(requestChannels);
function publish(event, message) {
  const channel = channels[event];
  if (channel?.hasSubscribers) channel.publish(message());
}
function keepAlive() {
  if (!isNode) return () => {
  };
  const timer = setInterval(() => {
  }, 2 ** 31 - 1);
  return () => clearInterval(timer);
}
var leavers = /* @__PURE__ */ new Set();
var isWatching = false;
function onExit(leaver) {
  if (isNode && !isWatching) {
    isWatching = true;
    process?.on?.("beforeExit", () => {
      for (const each of leavers) each.linger();
    });
    process?.on?.("exit", () => {
      for (const each of leavers) each.leave();
    });
  }
  leavers.add(leaver);
  return () => leavers.delete(leaver);
}
var SUBPROTOCOL = "lockhouse.v1";
var isSubscribed = false;
function unreferenced(socket) {
  if (!isNode) return socket;
  const { _req: request } = socket;
  request?.once?.("socket", (connection) => connection.unref?.());
  if (!isSubscribed) {
    isSubscribed = true;
    diagnostics?.subscribe("undici:client:sendHeaders", (message) => {
      const { headers, socket: connection } = message;
      if (String(headers).includes(SUBPROTOCOL)) connection?.unref?.();
    });
  }
  return socket;
}

// src/adoption.ts
var CHANNEL = "lockhouse.threads";
var own = /* @__PURE__ */ new Map();
var present;
var isAdopted = false;
var lastClient = 0;
function openChannel(onmessage) {
  if (!threads) return void 0;
  const channel = new threads.BroadcastChannel(CHANNEL);
  channel.unref();
  channel.onmessage = ({ data }) => onmessage(data);
  return channel;
}
function announceSessions(url) {
  if (!threads || threads.isMainThread) return () => {
  };
  const thread = threads.threadId;
  lastClient += 1;
  const client = lastClient;
  const announce = (each) => {
    const located = own.get(each);
    present?.postMessage({ type: "session", thread, client: each, ...located && { located } });
  };
  if (!present) {
    present = openChannel((message) => {
      if (message.type !== "adopt" || message.thread !== thread) return;
      isAdopted = true;
      for (const each of own.keys()) announce(each);
    });
    present?.postMessage({ type: "present", thread });
  }
  return (identity) => {
    if (identity) own.set(client, { ...identity, url });
    else own.delete(client);
    if (isAdopted) announce(client);
  };
}
function watchSessions(worker, onleft) {
  const thread = worker.threadId;
  const sessions = /* @__PURE__ */ new Map();
  const channel = openChannel((message) => {
    if (message.thread !== thread) return;
    if (message.type === "present") channel?.postMessage({ type: "adopt", thread });
    if (message.type !== "session") return;
    if (message.located) sessions.set(message.client, message.located);
    else sessions.delete(message.client);
  });
  channel?.postMessage({ type: "adopt", thread });
  let isOver = false;
  const stop = () => {
    isOver = true;
    channel?.close();
  };
  worker.once("exit", () => {
    setTimeout(() => {
      if (isOver) return;
      stop();
      for (const { url, ...identity } of sessions.values()) onleft(url, identity);
    });
  });
  return stop;
}

// src/abort.ts
var { Observable } = globalThis;
var watches = /* @__PURE__ */ new WeakMap();
var lateWatches = /* @__PURE__ */ new Set();
function addAbortAlgorithm(signal, algorithm) {
  const watch = watchOf(signal);
  watch.algorithms.add(algorithm);
  if (!Observable) lateWatches.add(watch);
  return () => {
    watch.algorithms.delete(algorithm);
    if (watch.algorithms.size === 0) lateWatches.delete(watch);
  };
}
function runDueAbortAlgorithms() {
  for (const watch of lateWatches) watch.onabort();
}
function watchOf(signal) {
  const existing = watches.get(signal);
  if (existing) return existing;
  const algorithms = /* @__PURE__ */ new Set();
  const watch = {
    algorithms,
    onabort: () => {
      if (!signal.aborted) return;
      for (const run of algorithms) run();
    },
    hook: void 0
  };
  watches.set(signal, watch);
  watch.hook = hook(signal, watch.onabort);
  return watch;
}
function hook(signal, onabort) {
  if (Observable) {
    let kept;
    new Observable((subscriber) => {
      subscriber.addTeardown(onabort);
      kept = subscriber;
    }).subscribe({}, { signal });
    return kept;
  }
  signal.addEventListener("abort", onabort, { capture: true });
  const dependent = AbortSignal.any?.([signal]);
  dependent?.addEventListener("abort", onabort);
  return dependent;
}

// src/bodies.ts
function joinBody(agent, clientId) {
  return `{"type":"join","agent":${agent},"clientId":${JSON.stringify(clientId)}`;
}
function requestBody(id, agent, fields) {
  let body = lockBody("request", id, agent, fields);
  if (fields.ifAvailable) body += ',"ifAvailable":true';
  if (fields.steal) body += ',"steal":true';
  return body;
}
function reclaimBody(id, agent, fields, token, ticket) {
  return `${lockBody("reclaim", id, agent, fields)},"token":${token},"ticket":${JSON.stringify(ticket)}`;
}
function lockBody(type, id, agent, fields) {
  let body = `{"type":"${type}","id":${id},"agent":${agent},"name":${JSON.stringify(fields.name)}`;
  if (fields.mode === "shared") body += ',"mode":"shared"';
  if (fields.metadata !== void 0) body += `,"metadata":${JSON.stringify(fields.metadata)}`;
  if (fields.maxHold !== void 0) body += `,"maxHoldMs":${fields.maxHold}`;
  return body;
}
function abortBody(id) {
  return `{"type":"abort","id":${id}`;
}
function releaseBody(id) {
  return `{"type":"release","id":${id}`;
}
function queryBody(id) {
  return `{"type":"query","id":${id}`;
}
function pongBody(n) {
  return `{"type":"pong","n":${n}`;
}
var RECLAIMED_BODY = '{"type":"reclaimed"';
var ACK_BODY = '{"type":"ack"';
var BYE_BODY = '{"type":"bye"';
function numbered(body, seq) {
  return seq > 0 ? `${body},"seq":${seq}` : body;
}
function acknowledging(body, ack) {
  return `${body},"ack":${ack}}`;
}
var CLIENT_LABEL = "lockhouse-js/0.1.0";
function helloText(credential, identity) {
  const resume = identity && resumeOf(identity);
  return JSON.stringify({ type: "hello", client: CLIENT_LABEL, credential, ...resume && { resume } });
}
function resumeOf({ session, secret, received, attempts }) {
  attempts[0] += 1;
  return { session, secret, received: received[0], attempt: attempts[0] };
}

// src/errors.ts
var { DOMException } = globalThis;
var LOSS_MESSAGES = {
  stolen: "Lock broken by another request with the 'steal' option.",
  expired: "The lock expired: its maxHold or the lease of its client has run out.",
  terminated: "The lock ended with the session or the agent that held it.",
  denied: "The lock ended with the key of its client, or with what the key allowed.",
  broken: "The lock was broken by an operator.",
  superseded: "The lock could not be kept over a restart of the server."
};
function lockLost(reason, why) {
  const message = why === void 0 ? LOSS_MESSAGES[reason] : `The lock was broken by an operator: ${why}`;
  const error = decorated(new DOMException(message, "AbortError"), "reason", reason);
  return why === void 0 ? error : decorated(error, "why", why);
}
function domError(name, message) {
  return new DOMException(message, name);
}
function refusedByServer(code, message) {
  const why = message === "" ? `close code ${code}` : message;
  return domError("NetworkError", `The lock server refused a frame of this client: ${why}`);
}
function quotaExceeded(message) {
  const scope2 = globalThis;
  return scope2.QuotaExceededError ? new scope2.QuotaExceededError(message) : domError("QuotaExceededError", message);
}
function serverError(detail, message) {
  return decorated(errorFor(detail.code, message), "detail", detail);
}
function errorFor(code, message) {
  switch (code) {
    case "not_supported":
      return domError("NotSupportedError", message);
    case "quota_exceeded":
      return quotaExceeded(message);
    case "unknown_agent":
      return domError("InvalidStateError", message);
    case "forbidden":
      return domError("NotAllowedError", message);
    case "bad_frame":
      return new TypeError(message);
    default:
      return domError("OperationError", message);
  }
}
function decorated(error, key, value) {
  return Object.defineProperty(error, key, { value, enumerable: true, configurable: true });
}
function reportException(error) {
  if (typeof globalThis.reportError === "function") {
    globalThis.reportError(error);
    return;
  }
  queueMicrotask(() => {
    throw error;
  });
}

// src/frames.ts
var KNOWN_CODES = /* @__PURE__ */ new Set([
  "bad_frame",
  "unknown_type",
  "not_supported",
  "quota_exceeded",
  "unknown_agent",
  "forbidden",
  "closing",
  "unavailable",
  "internal"
]);
var ProtocolError = class extends Error {
  name = "ProtocolError";
};
var BATCH_FRAMES = 1024;
function parseMessage(data) {
  if (typeof data !== "string") throw new ProtocolError("a message that is not text");
  let message;
  try {
    message = JSON.parse(data);
  } catch {
    throw new ProtocolError("a message that is not JSON");
  }
  if (!Array.isArray(message)) {
    if (isObject(message)) return message;
    throw new ProtocolError("not a JSON object");
  }
  if (message.length === 0 || message.length > BATCH_FRAMES) {
    throw new ProtocolError(`an array of ${message.length} frames, which has 1 to ${BATCH_FRAMES}`);
  }
  return message;
}
function frameAt(message, index) {
  const frame = message[index];
  if (isObject(frame)) return frame;
  throw new ProtocolError(`frame ${index} of the array is no JSON object`);
}
function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function readPauseMs(frame) {
  return frame.pauseMs == null ? 0 : count(frame, "pauseMs");
}
function readWelcome(frame) {
  const limits = frame.limits;
  const bounds = typeof limits === "object" && limits !== null ? limits : {};
  return {
    type: "welcome",
    epoch: text(frame, "epoch"),
    reclaims: flag(frame, "reclaims"),
    recoveringMs: frame.recoveringMs == null ? 0 : count(frame, "recoveringMs"),
    session: text(frame, "session"),
    secret: text(frame, "secret"),
    resumed: flag(frame, "resumed"),
    received: count(frame, "received"),
    leaseMs: positive(frame, "leaseMs"),
    heartbeatMs: positive(frame, "heartbeatMs"),
    credentialMs: frame.credentialMs == null ? void 0 : count(frame, "credentialMs"),
    frameBytes: bounds.frameBytes == null ? 65536 : positive(bounds, "frameBytes"),
    windowBytes: positive(bounds, "windowBytes")
  };
}
function readPing(frame) {
  return { type: "ping", n: positive(frame, "n"), answered: count(frame, "answered") };
}
function readFatal(frame) {
  const { code, message } = frame;
  return { type: "fatal", code: String(code), message: typeof message === "string" ? message : String(code) };
}
function readNotice(frame) {
  switch (frame.type) {
    case "granted":
      return {
        type: "granted",
        id: positive(frame, "id"),
        token: positive(frame, "token"),
        ticket: frame.ticket == null ? void 0 : text(frame, "ticket")
      };
    case "refused":
    case "released":
      return { type: frame.type, id: positive(frame, "id") };
    case "lost":
      return {
        type: "lost",
        id: positive(frame, "id"),
        reason: lossReason(frame),
        why: frame.why == null ? void 0 : text(frame, "why")
      };
    case "ended":
      return { type: "ended", agent: positive(frame, "agent"), reason: lossReason(frame) };
    case "error":
      return readError(frame);
    case "snapshot":
      return {
        type: "snapshot",
        id: positive(frame, "id"),
        held: infos(frame, "held"),
        pending: infos(frame, "pending"),
        more: flag(frame, "more")
      };
    default:
      return void 0;
  }
}
function count(frame, field) {
  const value = frame[field];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw wrong(frame, field);
  return value;
}
function readError(frame) {
  const { field, value, rule, retryAfterMs } = frame;
  const code = text(frame, "code");
  const detail = {
    code: KNOWN_CODES.has(code) ? code : "internal",
    ...typeof field === "string" && { field },
    ...typeof value === "string" && { value },
    ...typeof rule === "string" && { rule },
    ...retryAfterMs != null && { retryAfterMs: count(frame, "retryAfterMs") }
  };
  const message = typeof frame.message === "string" ? frame.message : detail.code;
  return { type: "error", id: frame.id == null ? 0 : positive(frame, "id"), detail, message };
}
function infos(frame, field) {
  const list2 = frame[field];
  if (!Array.isArray(list2)) throw wrong(frame, field);
  return list2.map((entry) => {
    const info = typeof entry === "object" ? entry : null;
    const mode = info?.mode;
    if (!info || !isMode(mode)) throw wrong(frame, field);
    return { clientId: text(info, "clientId"), mode, name: text(info, "name") };
  });
}
function isMode(value) {
  return value === "exclusive" || value === "shared";
}
function isLossReason(value) {
  return value === "stolen" || value === "expired" || value === "broken" || value === "superseded";
}
function lossReason(frame) {
  const { reason } = frame;
  if (isLossReason(reason)) return reason;
  throw wrong(frame, "reason");
}
function positive(frame, field) {
  const value = count(frame, field);
  if (value === 0) throw wrong(frame, field);
  return value;
}
function flag(frame, field) {
  const value = frame[field] ?? false;
  if (typeof value !== "boolean") throw wrong(frame, field);
  return value;
}
function text(frame, field) {
  const value = frame[field];
  if (typeof value !== "string") throw wrong(frame, field);
  return value;
}
function wrong(frame, field) {
  return new ProtocolError(`${String(frame.type)}: ${field} is missing or has an impossible value`);
}

// src/names.ts
function isReserved(name) {
  return name.charCodeAt(0) === 45;
}
function compareNames(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
function utf8Length(text2) {
  return new TextEncoder().encode(text2).length;
}

// src/random.ts
function randomId() {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] ?? 0) & 15 | 64;
  bytes[8] = (bytes[8] ?? 0) & 63 | 128;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// src/partition.ts
var ORIGINS = "origins:";
var STORED = "lockhouse.partition";
function currentPartition() {
  const frame = globalThis;
  if (!frame.document || frame.parent === globalThis) return "";
  if (frame.credentialless) return storedPartition(frame);
  return partitionFor(frame.origin ?? "null", ancestorsOf(frame));
}
function partitionFor(origin, ancestors) {
  const top = ancestors.at(-1);
  if (top === void 0 || ancestors.every((ancestor) => ancestor !== "null" && ancestor === origin)) return "";
  return [ORIGINS, origin, ...new Set(ancestors.slice(0, -1)), top].join(" ");
}
function storedPartition({ localStorage }) {
  const stored = localStorage?.getItem(STORED);
  if (stored) return stored;
  const partition = `credentialless ${randomId()}`;
  localStorage?.setItem(STORED, partition);
  return partition;
}
function ancestorsOf(frame) {
  if (frame.location?.ancestorOrigins) return Array.from(frame.location.ancestorOrigins);
  const ancestors = [];
  let below = frame;
  while (below.parent !== below) {
    const above = below.parent;
    try {
      ancestors.push(above.origin ?? "null");
    } catch {
      const { referrer } = frame.document ?? { referrer: "" };
      return [...ancestors, URL.canParse(referrer) ? new URL(referrer).origin : "null"];
    }
    below = above;
  }
  return ancestors;
}

// src/checks.ts
var LONGEST_BYTES = 256;
var LONGEST_ORIGINS_BYTES = 4096;
var LONGEST_SECRET = 8192;
var SHOWN_UNITS = 64;
function broken(field, value, rule) {
  return new TypeError(`${field}: ${shown(value)}, but it must be ${rule}`);
}
function shown(value) {
  if (typeof value === "string") return JSON.stringify(value.slice(0, SHOWN_UNITS));
  if (typeof value === "object" && value !== null) return Object.prototype.toString.call(value);
  return typeof value === "function" ? "a function" : String(value);
}
function toText(field, value) {
  if (typeof value === "string") return value;
  throw broken(field, value, "a string");
}
function toWellFormed(field, value) {
  const text2 = toText(field, value);
  if (/[\ud800-\udfff]/u.test(text2)) throw broken(field, text2, "without lone surrogates");
  return text2;
}
function fitting(field, value, longest = LONGEST_BYTES) {
  const text2 = toWellFormed(field, value);
  const bytes = utf8Length(text2);
  if (bytes <= longest) return text2;
  const start = JSON.stringify(`${text2.slice(0, SHOWN_UNITS)}\u2026`);
  throw new TypeError(`${field}: ${start} has ${bytes} bytes of UTF-8, but at most ${longest} are allowed`);
}
function toBucket(field, value) {
  const name = fitting(field, value);
  if (name === "") throw broken(field, name, "a name of at least one character");
  return name;
}
function toPartition(field, value) {
  const isList = typeof value === "string" && value.startsWith(ORIGINS);
  const partition = fitting(field, value, isList ? LONGEST_ORIGINS_BYTES : LONGEST_BYTES);
  if (partition.startsWith("")) throw broken(field, partition, "without U+001F at its beginning");
  return partition;
}
function toSecret(field, value) {
  if (typeof value === "string" && value.length <= LONGEST_SECRET && /^[!-~]+$/.test(value)) return value;
  throw new TypeError(`${field}: must be a string of 1 to ${LONGEST_SECRET} visible ASCII characters`);
}
function isMilliseconds(value, least, most) {
  return typeof value === "number" && value >= least && value <= most;
}
function toNumber(field, value) {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw broken(field, value, "a finite number");
}
function toInteger(field, value) {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw broken(field, value, "an integer");
}
function toBoolean(field, value) {
  if (typeof value === "boolean") return value;
  throw broken(field, value, "true or false");
}
function toFunction(field, value) {
  if (typeof value === "function") return value;
  throw broken(field, value, "a function");
}
function optional(check) {
  return (field, value) => value === void 0 ? void 0 : check(field, value);
}
function toOptions(value, members, prefix = "") {
  const options = toObject(`${prefix}options`, value);
  checkNames(options, Object.keys(members), prefix, "an option");
  return copied(options, members, prefix);
}
function toList(members, passedOver) {
  const names = [.../* @__PURE__ */ new Set([...Object.keys(members), ...passedOver])];
  return (field, value) => {
    if (typeof value !== "object" || value === null || !(Symbol.iterator in value)) {
      throw broken(field, value, "an iterable object, such as an array");
    }
    return Array.from(value, (each, index) => {
      const path = `${field}[${index}]`;
      const item = toObject(path, each);
      checkNames(item, names, `${path}.`, "a member");
      return copied(item, members, `${path}.`);
    });
  };
}
function checkNames(value, names, prefix, what) {
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown === void 0) return;
  const shownName = `${prefix}${unknown.slice(0, SHOWN_UNITS)}`;
  throw new TypeError(`${shownName} is unknown, but ${what} must be one of ${names.join(", ")}`);
}
function toObject(field, value) {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw broken(field, value, "an object");
}
function copied(value, members, prefix) {
  const entries = Object.entries(members).map(([name, check]) => [name, check(`${prefix}${name}`, value[name])]);
  return Object.fromEntries(entries);
}

// src/lease.ts
var SAFETY = 0.9;
var Lease = class _Lease {
  #leaseMs = 0;
  #credentialMs = Number.POSITIVE_INFINITY;
  #confirmed;
  #hello;
  /** The hello since which the credential is good for `#credentialMs`. */
  #admitted;
  #answers = [];
  /** Notes that a hello is sent now. */
  helloSent() {
    this.#hello = now();
  }
  /** The welcome confirms the hello, and gives the time that the credential is still good, if it has an end. */
  welcomed(leaseMs, credentialMs = Number.POSITIVE_INFINITY) {
    this.#leaseMs = leaseMs;
    this.#credentialMs = credentialMs;
    this.#confirmed = this.#admitted = this.#hello;
    this.#answers = [];
  }
  /** Notes that the answer to ping `n` is sent now. */
  answerSent(n) {
    this.#answers.push({ n, at: now() });
  }
  /** The server has received the answer to ping `n`, and those before it. */
  answered(n) {
    let confirmed;
    while (this.#answers[0] && this.#answers[0].n <= n) confirmed = this.#answers.shift();
    if (confirmed) this.#confirmed = confirmed.at;
  }
  /** Milliseconds until the deadline; not positive once it has passed, and also when no lease has begun. */
  remainingMs() {
    const since = this.#confirmed;
    return since ? Math.min(this.#leaseMs * SAFETY - elapsedMs(since), this.#credentialLeftMs()) : 0;
  }
  /**
   * What the deadline, once it has passed, takes the locks for: it is that of the lease, or the credential's
   * end.
   */
  loss() {
    return this.#credentialLeftMs() <= 0 ? "denied" : "expired";
  }
  #credentialLeftMs() {
    const since = this.#admitted;
    if (!since || this.#credentialMs === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    return this.#credentialMs - elapsedMs(since);
  }
  /**
   * The lease of the session that the latest hello has brought in place of this one's; it begins with its
   * welcome.
   */
  successor() {
    const next = new _Lease();
    next.#hello = this.#hello;
    return next;
  }
};
function now() {
  return { monotonicMs: performance.now(), wallMs: Date.now() };
}
function elapsedMs(since) {
  return Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
}

// src/webidl.ts
function defineAccessor(prototype, name, get) {
  Object.defineProperty(get, "name", { value: `get ${name}`, configurable: true });
  Object.defineProperty(prototype, name, { get: withoutPrototype(get), enumerable: true, configurable: true });
}
function defineGlobal(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}
function brandCheck(prototype, accessor) {
  const descriptors = Object.getOwnPropertyDescriptors(prototype);
  const probe = accessor === void 0 ? anyGetter(descriptors) : descriptors[accessor]?.get;
  return (value) => {
    if (value === void 0 || value === null) throw new TypeError("Illegal invocation");
    if (probe) probe.call(value);
    else if (value !== globalThis.navigator) throw new TypeError("Illegal invocation");
  };
}
async function ofOtherRealm(object, own2, method, args) {
  const theirs = Object.getPrototypeOf(Object(object))?.[method];
  const isTwin = typeof theirs === "function" && theirs !== own2 && sourceOf(theirs) === sourceOf(own2);
  if (isTwin) return Reflect.apply(theirs, object, args);
  throw new TypeError(`Failed to execute '${method}' on 'LockManager': Illegal invocation`);
}
function sourceOf(callable) {
  return Function.prototype.toString.call(callable);
}
function anyGetter(descriptors) {
  return (descriptors.userAgent ?? descriptors.hardwareConcurrency)?.get;
}
function withoutPrototype(get) {
  const { accessor } = {
    accessor() {
      return get.call(this);
    }
  };
  return Object.defineProperty(accessor, "name", { value: get.name, configurable: true });
}
function repeatMembers(from, to, names) {
  for (const name of names) Object.defineProperty(to, name, Object.getOwnPropertyDescriptor(from, name) ?? {});
}

// src/lock.ts
var Hold = class {
  name;
  mode;
  /** What proves the grant to a later epoch of the server, if it may be proved. */
  ticket;
  #maxHoldMs;
  /** From when on its longest hold counts, if it has one. */
  #grantedAt;
  #token;
  /** Ends the hold here if it is over by a deadline. */
  #check;
  /** Called with the error of the loss, once it is announced. */
  onloss;
  #loss;
  /** What the signal is aborted with: the loss of this lock, or of one that it is of no use without. */
  #abortReason;
  #controller;
  constructor({ name, mode, maxHold }, token, ticket, check) {
    this.name = name;
    this.mode = mode;
    this.#maxHoldMs = maxHold;
    this.#grantedAt = maxHold === void 0 ? void 0 : now();
    this.ticket = ticket;
    this.#token = token;
    this.#check = check;
  }
  /** The error of the loss, once the lock is lost. */
  get loss() {
    return this.#loss;
  }
  /** Milliseconds that are left of its longest hold, if it has one; not positive once that is over. */
  leftMs() {
    if (this.#maxHoldMs === void 0 || !this.#grantedAt) return void 0;
    return this.#maxHoldMs - elapsedMs(this.#grantedAt);
  }
  get token() {
    this.#check();
    if (this.#loss) throw this.#loss;
    return this.#token;
  }
  get signal() {
    this.#check();
    this.#controller ??= new AbortController();
    if (this.#abortReason) this.#controller.abort(this.#abortReason);
    return this.#controller.signal;
  }
  /** Notes the loss, and returns its error. No listener is notified yet. */
  lose(reason, why) {
    this.#loss = lockLost(reason, why);
    this.#abortReason ??= this.#loss;
    return this.#loss;
  }
  /** Aborts the signal, whose listeners run at once. */
  announceLoss() {
    this.#controller?.abort(this.#abortReason);
    if (this.#loss) this.onloss?.(this.#loss);
  }
  /** Aborts the signal because of the loss of another lock; this one is held on. */
  abort(loss) {
    this.#abortReason ??= loss;
    this.#controller?.abort(this.#abortReason);
  }
};
var CONSTRUCT = /* @__PURE__ */ Symbol();
function construct(type, ...internal) {
  return new type(CONSTRUCT, ...internal);
}
var newLock = (hold) => construct(Lock, hold);
var newHeldLock = (hold) => construct(HeldLock, hold);
var newAcquiredLock = (hold, release, released) => construct(AcquiredLock, hold, release, released);
var heldLock;
var Lock = class {
  #hold;
  constructor(...internal) {
    if (internal[0] !== CONSTRUCT) throw new TypeError(`Failed to construct '${new.target.name}': Illegal constructor`);
    this.#hold = internal[1];
  }
  get name() {
    if (!(#hold in this)) throw new TypeError("Illegal invocation");
    return this.#hold.name;
  }
  get mode() {
    if (!(#hold in this)) throw new TypeError("Illegal invocation");
    return this.#hold.mode;
  }
  static {
    heldLock = (lock) => {
      if (typeof lock !== "object" || lock === null || !(#hold in lock)) {
        throw broken("lock", lock, "a Lock of lockhouse");
      }
      return lock instanceof HeldLock ? lock : newHeldLock(lock.#hold);
    };
  }
};
var HeldLock = class extends Lock {
  #hold;
  constructor(...internal) {
    super(...internal);
    this.#hold = internal[1];
  }
  /**
   * Aborts when the lock is lost; its reason is a {@link LockLostError}, whose `reason` says how. A release
   * does not abort it. Reading this property also looks at the clocks: after the thread was busy for long,
   * `lock.signal.aborted` says what no event could yet.
   */
  get signal() {
    return this.#hold.signal;
  }
  /**
   * An integer that strictly grows over the grants of the bucket, to be presented with every write to the
   * guarded resource, which refuses lower ones. Throws the {@link LockLostError} once the lock is lost.
   */
  get fencingToken() {
    return this.#hold.token;
  }
};
var AcquiredLock = class extends HeldLock {
  #release;
  #released;
  constructor(...internal) {
    super(...internal);
    this.#release = internal[2];
    this.#released = internal[3];
  }
  /**
   * Releases the lock. Resolves once the release is sent; rejects with the {@link LockLostError} if the lock
   * was lost before.
   */
  async release() {
    this.#release();
    await this.#released();
  }
};
if (typeof Symbol.asyncDispose === "symbol") {
  Object.defineProperty(AcquiredLock.prototype, Symbol.asyncDispose, {
    value: AcquiredLock.prototype.release,
    writable: true,
    configurable: true
  });
}
Object.defineProperties(Lock.prototype, {
  name: { enumerable: true },
  mode: { enumerable: true },
  [Symbol.toStringTag]: { value: "Lock", configurable: true }
});
repeatMembers(Lock.prototype, HeldLock.prototype, ["name", "mode"]);
function clientClosed() {
  return domError("AbortError", "The lockhouse client was closed.");
}

// src/timers.ts
var LONGEST_TIMEOUT_MS = 2 ** 31 - 1;
function setQuietTimeout(task, ms) {
  const timer = setTimeout(task, Math.min(ms, LONGEST_TIMEOUT_MS));
  if (typeof timer === "object") timer.unref?.();
  return timer;
}

// src/reclaim.ts
var Reclaims = class {
  #expire;
  #groups = [];
  #timer;
  /**
   * `expire` receives all locks whose deadline has passed, each with the reason of its loss; they are no
   * longer in here.
   */
  constructor(expire) {
    this.#expire = expire;
  }
  /**
   * Adds locks of a session that is gone. Those that are in here already stay under the lease of an earlier
   * one.
   */
  add(locks, former) {
    const added = /* @__PURE__ */ new Set();
    for (const lock of locks) if (!this.has(lock)) added.add(lock);
    this.#groups.push({ former, locks: added });
    this.#watch();
  }
  has(lock) {
    return this.#groups.some((group) => group.locks.has(lock));
  }
  /** The reclaim of this lock is answered, or the lock is over. */
  delete(lock) {
    for (const group of this.#groups) group.locks.delete(lock);
    if (this.#groups.some(({ locks }) => locks.size === 0)) this.#watch();
  }
  /** Expires the locks whose deadline has passed. */
  check() {
    const isOver = ({ former }) => former.remainingMs() <= 0;
    if (!this.#groups.some(isOver)) return;
    const over = this.#groups.filter(isOver);
    this.#groups = this.#groups.filter((group) => !over.includes(group));
    this.#watch();
    const lost = /* @__PURE__ */ new Map();
    for (const { locks, former } of over) for (const lock of locks) lost.set(lock, former.loss());
    this.#expire(lost);
  }
  /** Checks again when the earliest deadline passes. */
  #watch() {
    clearTimeout(this.#timer);
    this.#groups = this.#groups.filter(({ locks }) => locks.size > 0);
    if (this.#groups.length === 0) return;
    const nextMs = Math.min(...this.#groups.map(({ former }) => former.remainingMs()));
    this.#timer = setQuietTimeout(() => this.#look(), Math.max(1, nextMs));
  }
  #look() {
    this.check();
    this.#watch();
  }
};

// src/batch.ts
var MESSAGE_BYTES = 65536;
var BYTES_PER_UNIT = 3;
var END_UNITS = 32;
var BRISK_TURNS = 16;
var BRISK_MS = 0.5;
var QUIET_MICROTASKS = 8;
var LONGEST_MICROTASKS = 64;
var MICROTASKS_PER_LOOK = 4;
var COMPANY_MS = 1;
var COMPANY_TURNS = 64;
var Batch = class {
  #user;
  #isPage;
  /** All frames but the brace of the last one. */
  #text = "";
  #frames = 0;
  #lastSeq = 0;
  #sinceMs = 0;
  /** How many more microtasks must pass without a frame, and in all; 0 while none is waited for. */
  #quiet = 0;
  #left = 0;
  #turnBeganMs = 0;
  /** Whether a callback has run whose turn is not over yet. */
  #isTurn = false;
  #briskTurns = 0;
  /** How many turns the frames have waited for already. */
  #waitedTurns = 0;
  constructor(user, isPage) {
    this.#user = user;
    this.#isPage = isPage;
  }
  /** Adds a frame, given without its closing brace. Returns false if the session has ended meanwhile. */
  add(body, seq) {
    const frame = numbered(body, seq);
    const isFull = (this.#text.length + frame.length + END_UNITS) * BYTES_PER_UNIT > MESSAGE_BYTES;
    if (this.#frames > 0 && (isFull || this.#frames === BATCH_FRAMES) && !this.flush()) return false;
    if (this.#frames === 0) this.#sinceMs = performance.now();
    this.#text += this.#frames === 0 ? frame : `},${frame}`;
    this.#frames += 1;
    if (seq > 0) this.#lastSeq = seq;
    this.#wait();
    return true;
  }
  /** Whether nothing waits to be sent. */
  get isEmpty() {
    return this.#frames === 0;
  }
  /** What was added is not to wait, unless the program is brisk and has other callbacks that are due. */
  hurry() {
    if (!this.#isBrisk || !this.#user.hasCompany()) this.flush();
  }
  /** A turn of the program begins: a task with a callback. */
  turnBegins() {
    this.#turnBeganMs = performance.now();
    this.#isTurn = true;
  }
  /** The turn is about to end, though microtasks may follow. */
  turnEnds() {
    if (this.#frames > 0) this.#wait();
  }
  /** Sends what was gathered. Returns false if the session has ended. */
  flush() {
    if (this.#frames === 0) return true;
    const end = acknowledging(this.#text, this.#user.received());
    const message = this.#frames === 1 ? end : `[${end}]`;
    const seq = this.#lastSeq;
    this.clear();
    return this.#user.send(message, seq);
  }
  /** Forgets what was gathered. */
  clear() {
    this.#text = "";
    this.#frames = 0;
    this.#lastSeq = 0;
    this.#waitedTurns = 0;
  }
  get #isBrisk() {
    return this.#briskTurns >= BRISK_TURNS;
  }
  /** Whether the frames have waited no longer than they may. */
  #isTimely(nowMs) {
    return nowMs - this.#sinceMs < COMPANY_MS;
  }
  #wait() {
    if (this.#quiet === 0) {
      queueMicrotask(this.#pass);
      this.#left = LONGEST_MICROTASKS;
    }
    this.#quiet = this.#isBrisk ? QUIET_MICROTASKS : 1;
  }
  #pass = () => {
    this.#quiet -= 1;
    this.#left -= 1;
    if (this.#quiet > 0 && this.#left > 0) {
      if (this.#left % MICROTASKS_PER_LOOK === 0 && !this.#isTimely(performance.now())) this.flush();
      queueMicrotask(this.#pass);
      return;
    }
    this.#quiet = 0;
    const nowMs = performance.now();
    if (this.#isPage && this.#isTurn) {
      this.#briskTurns = nowMs - this.#turnBeganMs < BRISK_MS ? this.#briskTurns + 1 : 0;
      this.#waitedTurns += 1;
    }
    this.#isTurn = false;
    const mayWait = this.#isBrisk && this.#isTimely(nowMs) && this.#waitedTurns < COMPANY_TURNS;
    if (mayWait && this.#user.hasCompany()) return;
    this.flush();
  };
};

// src/closes.ts
var CLOSE_LEASE_EXPIRED = 4408;
var CLOSE_UNAUTHENTICATED = 4401;
var CLOSES_OF_DENIED = /* @__PURE__ */ new Set([CLOSE_UNAUTHENTICATED, 4403]);
var CLOSE_REPLACED = 4409;
var CLOSES_OF_ENDED = /* @__PURE__ */ new Set([CLOSE_REPLACED, 4429]);
var CLOSES_OF_BAD_FRAME = /* @__PURE__ */ new Set([1003, 1009, 4400]);
function lossOfClose(code) {
  if (code === CLOSE_LEASE_EXPIRED) return "expired";
  if (CLOSES_OF_DENIED.has(code)) return "denied";
  return CLOSES_OF_ENDED.has(code) ? "terminated" : void 0;
}

// src/goodbye.ts
var CLOSE_NORMAL = 1e3;
var DIAL_TIMEOUT_MS = 1e4;
function sayGoodbye(dial, keys, identity) {
  try {
    const socket = dial();
    const timer = setTimeout(() => socket.close(CLOSE_NORMAL), DIAL_TIMEOUT_MS);
    const hello = (key) => socket.send(helloText(key, identity));
    socket.onopen = () => keys.use(hello, () => socket.close(CLOSE_NORMAL));
    socket.onmessage = () => socket.close(CLOSE_NORMAL);
    socket.onerror = () => {
    };
    socket.onclose = () => clearTimeout(timer);
  } catch {
  }
}

// src/key.ts
var REFUSED_PAUSE_MS = 1e3;
var Keys = class {
  #key;
  /** When the function may be asked again, by the monotonic clock; 0 while its keys are taken. */
  #nextMs = 0;
  /** What all who want a key wait for, while keys are refused. */
  #next;
  constructor(key) {
    this.#key = key;
  }
  /** Whether the next key may be another one. */
  get mayChange() {
    return typeof this.#key === "function";
  }
  /**
   * The key, or a promise of it where it has to be asked for. Rejects with what the function throws, and with
   * a WrongKey for what is no key.
   */
  now() {
    const key = this.#key;
    if (typeof key !== "function") return key;
    if (this.#nextMs === 0) return askFor(key);
    this.#next ??= this.#later(key).finally(() => {
      this.#next = void 0;
    });
    return this.#next;
  }
  /** Uses the key, at once if it is at hand. */
  use(use, fail) {
    const key = this.now();
    if (typeof key === "object") key.then(use, fail);
    else use(key);
  }
  /** The server has refused a key: from now on the function is asked at most once a second for all callers. */
  refused() {
    this.#nextMs = performance.now() + REFUSED_PAUSE_MS;
  }
  /** The server has taken a key. */
  taken() {
    this.#nextMs = 0;
  }
  get #pauseMs() {
    return this.#nextMs - performance.now();
  }
  async #later(key) {
    for (let ms = this.#pauseMs; ms > 0; ms = this.#pauseMs) {
      await new Promise((resolve) => setQuietTimeout(resolve, Math.ceil(ms)));
    }
    this.refused();
    return askFor(key);
  }
};
var WrongKey = class extends TypeError {
};
async function askFor(key) {
  const given = await key();
  try {
    return toSecret("key", given);
  } catch (error) {
    throw new WrongKey(error.message);
  }
}
function toKey(field, value) {
  return typeof value === "function" ? value : toSecret(field, value);
}

// src/outbox.ts
var Posted = class {
  #outbox;
  #seq;
  constructor(outbox, seq) {
    this.#outbox = outbox;
    this.#seq = seq;
  }
  /** Whether it has been sent, so that the server may have it. */
  get wasSent() {
    return this.#seq <= this.#outbox.lastSent;
  }
};
var FRAME_WEIGHT = 96;
var END_BYTES = 48;
var BACKLOG_FRAMES = 262144;
var Outbox = class {
  /** The most bytes of the window. */
  windowBytes = 0;
  /** Sent and unacknowledged frames, from `#head` on; the first of them has the number `#acknowledged + 1`. */
  #window = [];
  #head = 0;
  #looks = [];
  #underWay = 0;
  #acknowledged = 0;
  /** The number of the last frame that has one or will have one. */
  #lastAdded = 0;
  #lastSent = 0;
  #backlog = [];
  #backlogHead = 0;
  /** The number of the last frame that was given one. */
  get lastSeq() {
    return this.#acknowledged + this.#window.length - this.#head;
  }
  /** Whether the other side has processed everything. */
  get isEmpty() {
    return this.#window.length === this.#head && !this.#hasBacklog();
  }
  /** Whether no more requests should be taken; what ends them still may. */
  get isFull() {
    return this.#backlog.length - this.#backlogHead >= BACKLOG_FRAMES;
  }
  /** The number of the last frame that was sent. */
  get lastSent() {
    return this.#lastSent;
  }
  /** Keeps the body until it is acknowledged. Returns its number, which is above {@link lastSeq} if it waits. */
  add(body) {
    this.#lastAdded += 1;
    const weight = weightOf(body);
    if (this.#hasBacklog() || !this.#hasCapacity(weight)) this.#backlog.push({ body, weight, id: void 0 });
    else this.#keep({ body, weight });
    return this.#lastAdded;
  }
  /** The frame of this number is being sent. */
  sent(seq) {
    this.#lastSent = Math.max(this.#lastSent, seq);
  }
  /** Takes a question, which has no number. Returns whether it may be sent at once; else it waits. */
  ask(id, body) {
    const weight = weightOf(body);
    const mayGo = !this.#hasBacklog() && this.#hasCapacity(weight);
    if (mayGo) this.#keepLook(id, weight);
    else this.#backlog.push({ body, weight, id });
    return mayGo;
  }
  /** The other side has answered the question with this id, if there is one, and so has done those before it. */
  answered(id) {
    const at = this.#looks.findIndex((look) => look.id === id);
    this.#forgetLooks(at + 1);
  }
  /** Drops what the other side has processed. Returns false if it says more than was ever sent. */
  acknowledge(seq) {
    if (seq > this.lastSeq) return false;
    while (this.#acknowledged < seq) {
      this.#underWay -= this.#window[this.#head]?.weight ?? 0;
      this.#window[this.#head] = void 0;
      this.#head += 1;
      this.#acknowledged += 1;
    }
    if (this.#head > 1024 && this.#head * 2 > this.#window.length) {
      this.#window = this.#window.slice(this.#head);
      this.#head = 0;
    }
    const next = this.#looks.findIndex((look) => look.behind >= seq);
    this.#forgetLooks(next < 0 ? this.#looks.length : next);
    return true;
  }
  /** Takes the next waiting frame that now may be sent; `seq` is 0 for an unnumbered one. */
  next() {
    const waiting = this.#backlog[this.#backlogHead];
    if (!waiting || !this.#hasCapacity(waiting.weight)) return void 0;
    this.#backlogHead += 1;
    if (this.#backlogHead === this.#backlog.length || this.#backlogHead > 1024) {
      this.#backlog = this.#backlog.slice(this.#backlogHead);
      this.#backlogHead = 0;
    }
    const { body, weight, id } = waiting;
    if (id === void 0) return { body, seq: this.#keep({ body, weight }) };
    this.#keepLook(id, weight);
    return { body, seq: 0 };
  }
  /** Forgets the unnumbered frames that wait: after a resume they are asked anew. */
  dropUnnumbered() {
    this.#backlog = this.#backlog.slice(this.#backlogHead).filter((waiting) => waiting.id === void 0);
    this.#backlogHead = 0;
    this.#forgetLooks(this.#looks.length);
  }
  /** The unacknowledged frames, to be sent again after a resume. */
  unacknowledged() {
    const first = this.#acknowledged + 1;
    return this.#window.slice(this.#head).map((frame, index) => ({ body: frame?.body ?? "", seq: first + index }));
  }
  #keep(frame) {
    this.#window.push(frame);
    this.#underWay += frame.weight;
    return this.lastSeq;
  }
  #keepLook(id, weight) {
    this.#looks.push({ id, behind: this.lastSeq, weight });
    this.#underWay += weight;
  }
  /** Drops so many questions, the first ones, from what is under way. */
  #forgetLooks(count2) {
    if (count2 <= 0) return;
    for (const look of this.#looks.splice(0, count2)) this.#underWay -= look.weight;
  }
  /** Whether the window has space for so much. Where nothing is under way any frame may go. */
  #hasCapacity(weight) {
    return this.#underWay === 0 || this.#underWay + weight <= this.windowBytes;
  }
  #hasBacklog() {
    return this.#backlog.length > this.#backlogHead;
  }
};
function weightOf(body) {
  let bytes = body.length;
  for (let at = 0; at < body.length; at++) if (body.charCodeAt(at) > 127) bytes += 2;
  return FRAME_WEIGHT + END_BYTES + bytes;
}

// src/session.ts
var IS_PAGE = "document" in globalThis;
var ACK_AFTER = 64;
var SILENT_HEARTBEATS = 3;
var CLOSE_ABNORMAL = 1006;
var CLOSE_SILENT = 4e3;
var RENEWAL_SHARE = 0.8;
var Session = class {
  #dialer;
  #keys;
  #user;
  #lease = new Lease();
  #state = "connecting";
  #asleep = false;
  #socket;
  /** Whether the welcome of this connection has come, so that frames may be sent. */
  #greeted = false;
  /** What a resume presents; undefined while there is no session. */
  #identity;
  #epoch = "";
  /** By the monotonic clock. */
  #recoveredAtMs = 0;
  #outbox = new Outbox();
  #batch;
  #unreported = 0;
  #heardAtMs = 0;
  /** When the session is to be resumed with another key, by the monotonic clock. */
  #renewAtMs = Number.POSITIVE_INFINITY;
  #heartbeatMs = 0;
  #frameBytes = 65536;
  #lastFatal = "";
  /** Why the server takes nothing from this client any more. */
  #denial;
  /** Lets the process end, which is kept for what the lost connection has not delivered. */
  #letGo;
  #unlist = () => {
  };
  #dialTimer;
  #watchTimer;
  constructor(dialer, keys, user) {
    this.#dialer = dialer;
    this.#keys = keys;
    this.#user = user;
    this.#batch = new Batch(
      {
        send: (message, seq) => {
          if (this.isOverdue()) return false;
          this.#outbox.sent(seq);
          this.#socket?.send(message);
          return true;
        },
        received: () => {
          this.#unreported = 0;
          return this.#received;
        },
        hasCompany: () => user.hasTasks()
      },
      IS_PAGE
    );
  }
  /** Connects. An error of the WebSocket constructor, such as for mixed content, is thrown the first time. */
  open() {
    this.#connect(this.#dialer.dial());
    this.#unlist = onExit(this);
  }
  /**
   * Sends a numbered frame, given without its closing brace. Returns undefined if there is no session to send
   * it in.
   */
  post(body) {
    if (!this.#identity || this.isOverdue()) return void 0;
    const seq = this.#outbox.add(body);
    if (this.#greeted && seq <= this.#outbox.lastSeq && !this.#transmit(body, seq)) return void 0;
    return new Posted(this.#outbox, seq);
  }
  /** What was posted is not to wait for what the program does next. */
  hurry() {
    this.#batch.hurry();
  }
  /**
   * Sends a question with this id, given without its closing brace, behind all that was posted. After a
   * resume it is not sent again.
   */
  ask(id, body) {
    if (!this.#greeted || this.isOverdue()) return;
    if (this.#outbox.ask(id, body)) this.#transmit(body, 0);
  }
  /**
   * Whether the deadline of the lease has passed, or the credential is over. If so, the session is over, and
   * this client connects anew.
   */
  isOverdue() {
    if (!this.#identity || this.#lease.remainingMs() > 0) return false;
    this.abandon(this.#lease.loss());
    return true;
  }
  /** Ends the session, on the server too, and connects anew. */
  abandon(reason, failure2) {
    this.#dialer.failed();
    this.#hangUp(CLOSE_NORMAL);
    this.#end(reason, failure2);
    this.#reconnect();
  }
  /** Ends the session because the server broke the protocol: nothing that it said can be relied on. */
  accuse(error) {
    this.abandon("terminated", domError("NetworkError", `The lock server broke the protocol: ${error.message}`));
  }
  /** Ends the session and stays away until {@link wake}: the page is being put into the back/forward cache. */
  sleep() {
    if (this.#state === "closed" || this.#asleep) return;
    this.#asleep = true;
    this.#hangUp(CLOSE_NORMAL);
    this.#end("terminated");
    this.#setState("lost");
  }
  wake() {
    if (!this.#asleep) return;
    this.#asleep = false;
    this.#redial();
  }
  /** Ends the session for good, on the server too if it can be reached now. */
  close() {
    if (this.#state === "closed") return;
    const left = this.#lease.remainingMs() > 0 ? this.#identity : void 0;
    const socket = this.#greeted ? this.#socket : void 0;
    this.#hangUp(CLOSE_NORMAL);
    clearTimeout(this.#watchTimer);
    this.#identify(void 0);
    if (left && !socket) sayGoodbye(this.#dialer.dial, this.#keys, left);
    if (left && socket) {
      const timer = setTimeout(() => {
      }, DIAL_TIMEOUT_MS);
      socket.onclose = (event) => {
        clearTimeout(timer);
        if (event.code === CLOSE_ABNORMAL) sayGoodbye(this.#dialer.dial, this.#keys, left);
      };
    }
    this.#setState("closed");
  }
  /** The process ends: what has been released while the connection is lost keeps it for a lease at most. */
  linger() {
    if (!this.#identity || this.#greeted || this.#outbox.isEmpty || this.isOverdue()) return;
    this.#letGo ??= keepAlive();
  }
  /** Says goodbye at the exit of the process, which leaves no time for anything else. */
  leave() {
    if (this.#greeted) this.#sendAlone(BYE_BODY);
  }
  /** A task with a callback begins. */
  turnBegins() {
    this.#batch.turnBegins();
  }
  /** The callback has run: what it has sent goes, unless others are due. */
  turnEnds() {
    this.#batch.turnEnds();
  }
  get state() {
    return this.#state;
  }
  /** Why a session that is closed takes nothing more. */
  get closedError() {
    if (this.#denial === void 0) return domError("InvalidStateError", "The lockhouse client is closed.");
    return domError("NotAllowedError", this.#denial);
  }
  /** The longest frame, in bytes, that the server takes. */
  get frameBytes() {
    return this.#frameBytes;
  }
  /** Whether the server may still be waiting for the holders of an earlier epoch, so that it grants nothing. */
  get isRecovering() {
    return performance.now() < this.#recoveredAtMs;
  }
  /** Whether so much waits to be sent that no more requests should be taken. */
  get isFull() {
    return this.#outbox.isFull;
  }
  #connect(socket) {
    this.#socket = socket;
    this.#lastFatal = "";
    socket.onopen = () => this.#openSession(socket);
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onerror = this.#dialer.erred;
    socket.onclose = (event) => this.#closed(event);
    const patienceMs = this.#dialer.patienceMs(this.#urgentMs);
    this.#dialTimer = setQuietTimeout(() => this.#notAnswered(patienceMs), patienceMs);
  }
  #notAnswered(patienceMs) {
    const why = `no answer within ${patienceMs} ms`;
    this.#dialer.failed(why);
    this.#lose();
    this.#reportUnreachable(why);
  }
  /** The heartbeat, if locks are to be reclaimed. */
  get #urgentMs() {
    return this.#user.holdsLocks() ? this.#heartbeatMs : void 0;
  }
  #openSession(socket) {
    this.#keys.use(
      (key) => socket === this.#socket && this.#sayHello(socket, key),
      (error) => socket === this.#socket && this.#keyless(error)
    );
  }
  #sayHello(socket, key) {
    if (this.isOverdue()) return;
    this.#lease.helloSent();
    socket.send(helloText(key, this.#identity));
  }
  /** The source of the keys has none at the moment. */
  #keyless(error) {
    this.#lose();
    this.#reportUnreachable(`no key: ${String(error)}`);
  }
  #receive(data) {
    if (this.isOverdue()) return;
    this.#heardAtMs = performance.now();
    try {
      const message = parseMessage(data);
      if (Array.isArray(message)) this.#takeAll(message);
      else this.#takeOne(message);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.accuse(error);
    }
  }
  /**
   * Takes frames until the connection is turned away from. What they bring is handed on together, so that all
   * tasks of a message are there before the first of them runs.
   */
  #takeAll(message) {
    if (!this.#greeted) throw new ProtocolError("an array before the welcome, which comes alone");
    const socket = this.#socket;
    const notices = [];
    try {
      for (let index = 0; index < message.length; index++) {
        if (this.#socket !== socket || this.isOverdue()) break;
        const notice = this.#take(frameAt(message, index));
        if (notice) notices.push(notice);
      }
    } finally {
      if (this.#socket === socket) this.#user.noticed(notices);
    }
  }
  #takeOne(frame) {
    const notice = this.#take(frame);
    if (notice) this.#user.noticed([notice]);
  }
  #take(frame) {
    if (this.#greeted) return this.#handle(frame);
    if (frame.type === "fatal") this.#lastFatal = readFatal(frame).message;
    else this.#welcome(frame);
    return void 0;
  }
  /** What the frame brings, if it is for the program. */
  #handle(frame) {
    if (frame.ack != null) this.#acknowledged(count(frame, "ack"));
    switch (frame.type) {
      case "ping":
        this.#pinged(frame);
        return void 0;
      case "ack":
        return void 0;
      case "closing":
        this.#dialer.closing(frame);
        return void 0;
      case "fatal":
        this.#lastFatal = readFatal(frame).message;
        return void 0;
    }
    const notice = readNotice(frame);
    if (!notice) throw new ProtocolError(`a frame of unknown type ${String(frame.type).slice(0, 64)}`);
    if (notice.type !== "snapshot") this.#countIn(frame);
    if (notice.type === "snapshot" || notice.type === "error") {
      this.#outbox.answered(notice.id);
      this.#flush();
    }
    this.#dialer.proved();
    if (this.#unreported >= ACK_AFTER && this.#greeted && this.#batch.isEmpty) this.#sendAlone(ACK_BODY);
    return notice;
  }
  #countIn(frame) {
    const due = this.#received + 1;
    if (count(frame, "seq") !== due) throw new ProtocolError(`seq ${String(frame.seq)} where ${due} was due`);
    if (this.#identity) this.#identity.received[0] = due;
    this.#unreported += 1;
  }
  #welcome(frame) {
    if (frame.type !== "welcome") throw new ProtocolError("the first frame is not a welcome");
    const welcome = readWelcome(frame);
    if (welcome.resumed && welcome.session !== this.#identity?.session)
      throw new ProtocolError("resumed what was not asked for");
    if (!welcome.resumed) this.#replace(welcome);
    if (this.#state === "closed") return;
    this.#keys.taken();
    this.#dialer.connected();
    clearTimeout(this.#dialTimer);
    const { received, attempts } = this.#identity ?? { received: newCounter(), attempts: newCounter() };
    this.#identify({ session: welcome.session, secret: welcome.secret, received, attempts });
    this.#epoch = welcome.epoch;
    this.#recoveredAtMs = performance.now() + welcome.recoveringMs;
    this.#frameBytes = welcome.frameBytes;
    this.#outbox.windowBytes = welcome.windowBytes;
    this.#heartbeatMs = welcome.heartbeatMs;
    this.#lease.welcomed(welcome.leaseMs, welcome.credentialMs);
    const renewal = this.#keys.mayChange ? welcome.credentialMs : void 0;
    this.#renewAtMs = performance.now() + (renewal ?? Number.POSITIVE_INFINITY) * RENEWAL_SHARE;
    this.#greeted = true;
    if (welcome.resumed) this.#resume(welcome.received);
    else this.#user.begun();
    this.#letGo?.();
    this.#letGo = void 0;
    this.#watch();
    this.#setState("open");
  }
  /** A fresh session has been given in place of the former one, if there was any. */
  #replace(welcome) {
    const isReclaimable = this.#identity && welcome.reclaims && welcome.epoch !== this.#epoch;
    if (!isReclaimable) {
      this.#end("terminated");
      return;
    }
    const former = this.#lease;
    this.#forget();
    this.#user.succeeded(former);
  }
  #resume(received) {
    if (!this.#outbox.acknowledge(received)) throw new ProtocolError(`received ${received}, which was never sent`);
    this.#outbox.dropUnnumbered();
    for (const { body, seq } of this.#outbox.unacknowledged()) if (!this.#transmit(body, seq)) return;
    this.#flush();
    this.#user.resumed();
  }
  #pinged(frame) {
    const ping = readPing(frame);
    this.#dialer.proved();
    this.#lease.answered(ping.answered);
    this.#lease.answerSent(ping.n);
    this.#sendAlone(pongBody(ping.n));
  }
  #acknowledged(seq) {
    if (!this.#outbox.acknowledge(seq)) throw new ProtocolError(`ack ${seq}, which was never sent`);
    this.#flush();
  }
  #flush() {
    for (let next = this.#outbox.next(); next; next = this.#outbox.next()) {
      if (!this.#transmit(next.body, next.seq)) return;
    }
  }
  /** Returns false if the session has ended meanwhile. */
  #transmit(body, seq) {
    return this.#batch.add(body, seq);
  }
  /** Sends an unnumbered frame by itself, so that the server finds it wherever it waits. */
  #sendAlone(body) {
    this.#unreported = 0;
    this.#socket?.send(acknowledging(body, this.#received));
  }
  #closed({ code, reason = "" }) {
    const wasGreeted = this.#greeted;
    this.#hangUp();
    if (CLOSES_OF_DENIED.has(code) && !wasGreeted) {
      this.#denied(code);
      return;
    }
    const why = this.#dialer.explained(code, reason, this.#lastFatal);
    this.#dialer.failed(why);
    const loss = wasGreeted || code !== CLOSE_REPLACED ? lossOfClose(code) : void 0;
    if (loss) this.#end(loss);
    else if (CLOSES_OF_BAD_FRAME.has(code) && wasGreeted)
      this.#end("terminated", refusedByServer(code, this.#lastFatal));
    this.#reconnect();
    this.#reportUnreachable(why);
  }
  /**
   * The server takes no such key. To try again with the same one would be in vain. Another one is asked for
   * after a pause, and resumes the session, of which an unknown key says nothing.
   */
  #denied(code) {
    if (this.#keys.mayChange) {
      this.#keys.refused();
      if (code !== CLOSE_UNAUTHENTICATED) this.#end("denied");
      this.#reconnect(REFUSED_PAUSE_MS);
      this.#reportUnreachable(`denied: ${this.#lastFatal}`);
      return;
    }
    this.#denial = `The lock server denies access: ${this.#lastFatal}`;
    this.#end("denied", domError("NotAllowedError", this.#denial));
    this.#reportUnreachable(`denied for good: ${this.#lastFatal}`);
    clearTimeout(this.#watchTimer);
    this.#setState("closed");
  }
  #reportUnreachable(why) {
    const isLast = this.#denial !== void 0;
    if (this.#state === "connecting" && (isLast || this.#dialer.isRoundOver)) this.#user.unreachable(why, isLast);
  }
  /** The connection is of no use any more, though neither side closed it; the session may still be resumed. */
  #lose() {
    this.#hangUp(CLOSE_SILENT);
    this.#reconnect();
  }
  /** Turns away from the present connection, and closes it if a code is given. */
  #hangUp(code) {
    const socket = this.#socket;
    this.#batch.clear();
    this.#socket = void 0;
    this.#greeted = false;
    clearTimeout(this.#dialTimer);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onerror = socket.onclose = () => {
    };
    if (code !== void 0) socket.close(code);
  }
  /** The session is over; says so to its user unless there was none. */
  #end(reason, failure2) {
    if (!this.#identity && !failure2) return;
    this.#forget();
    this.#user.ended(reason, failure2);
  }
  #forget() {
    this.#identify(void 0);
    this.#letGo?.();
    this.#letGo = void 0;
    this.#lease = this.#lease.successor();
    this.#outbox = new Outbox();
    this.#unreported = 0;
  }
  #reconnect(leastMs = 0) {
    if (this.#state === "closed" || this.#asleep || this.#socket) return;
    clearTimeout(this.#dialTimer);
    const pauseMs = Math.max(leastMs, this.#dialer.pauseMs(this.#urgentMs));
    this.#dialTimer = setQuietTimeout(() => this.#redial(), pauseMs);
    this.#watch();
    this.#setState("lost");
  }
  get #received() {
    return this.#identity?.received[0] ?? 0;
  }
  #identify(identity) {
    this.#identity = identity;
    this.#user.identified(identity);
  }
  #redial() {
    if (this.#state === "closed" || this.#asleep || this.#socket) return;
    try {
      this.#connect(this.#dialer.dial());
    } catch {
      this.#dialer.failed();
      this.#reconnect();
    }
  }
  /**
   * Looks again when the lease would end or the server has been silent for too long; one timer for the whole
   * session.
   */
  #watch() {
    clearTimeout(this.#watchTimer);
    if (!this.#identity) return;
    const silentMs = this.#greeted ? performance.now() - this.#heardAtMs : 0;
    const renewalMs = this.#greeted ? this.#renewAtMs - performance.now() : Number.POSITIVE_INFINITY;
    const nextMs = Math.min(this.#lease.remainingMs(), SILENT_HEARTBEATS * this.#heartbeatMs - silentMs, renewalMs);
    this.#watchTimer = setQuietTimeout(() => this.#look(), Math.max(1, nextMs));
  }
  #look() {
    if (this.isOverdue()) return;
    const nowMs = performance.now();
    const isSilent = nowMs - this.#heardAtMs >= SILENT_HEARTBEATS * this.#heartbeatMs;
    if (this.#greeted && isSilent) this.#dialer.failed();
    if (this.#greeted && (isSilent || nowMs >= this.#renewAtMs)) this.#lose();
    else this.#watch();
  }
  /** Comes last in every change of the state, since the user may do anything when notified of it. */
  #setState(state) {
    if (this.#state === "closed" || this.#state === state) return;
    if (this.#state === "connecting" && state === "lost") return;
    this.#state = state;
    if (state === "closed") this.#unlist();
    this.#user.stateChanged(state);
  }
};

// src/tasks.ts
var TaskQueue = class {
  #handle;
  #waiting = [];
  #turnTaken = false;
  constructor(handle) {
    this.#handle = handle;
  }
  /**
   * Handles the items, the first one now if this turn has handled none yet, else in a later task, as the
   * others. All tasks are scheduled before that, so that what it schedules comes behind them. Must be called
   * from a task's top level.
   */
  now(items) {
    const isFree = !this.#turnTaken && this.#waiting.length === 0;
    for (let index = isFree ? 1 : 0; index < items.length; index++) this.later(items[index]);
    if (isFree && items.length > 0) this.#take(items[0]);
  }
  /** Handles the item in a later task. */
  later(item) {
    this.#waiting.push(item);
    scheduleTask(this.#next);
  }
  /** Whether no item waits. */
  get isEmpty() {
    return this.#waiting.length === 0;
  }
  /** Forgets the items that have not been handled, and returns them. */
  clear() {
    return this.#waiting.splice(0);
  }
  #next = () => {
    const item = this.#waiting.shift();
    if (item !== void 0) this.#take(item);
  };
  #take(item) {
    this.#turnTaken = true;
    queueMicrotask(this.#turnOver);
    this.#handle(item);
  }
  #turnOver = () => {
    this.#turnTaken = false;
  };
};
var scheduleTask = pickScheduler();
function pickScheduler() {
  const { setImmediate, scheduler } = globalThis;
  if (typeof setImmediate === "function") return setImmediate;
  if (typeof scheduler?.postTask === "function") {
    const post = scheduler.postTask.bind(scheduler);
    return (task) => void post(() => reported(task));
  }
  let channel;
  const tasks = [];
  return (task) => {
    if (!channel) {
      channel = new MessageChannel();
      channel.port1.onmessage = () => tasks.shift()?.();
    }
    tasks.push(task);
    channel.port2.postMessage(null);
  };
}
function reported(task) {
  try {
    task();
  } catch (error) {
    reportException(error);
  }
}

// src/agent.ts
var OPEN_LIMIT = 262144;
var FRAME_OVERHEAD_BYTES = 64;
var FAULTS_OF_FRAMES = /* @__PURE__ */ new Set(["bad_frame", "unknown_type"]);
var LONGEST_TIMEOUT_MS2 = 2 ** 31 - 1;
var Agent = class {
  #clientId;
  #dialer;
  #session;
  /** The notices of the present session, to be obeyed; forgotten with the session. */
  #tasks = new TaskQueue((notice) => {
    this.#session.turnBegins();
    this.#obey(notice);
    this.#session.turnEnds();
  });
  /** Steps that concern no session. */
  #turns = new TaskQueue((step) => step());
  #user;
  /** All that is open, by id and so in the order of asking. */
  #open = /* @__PURE__ */ new Map();
  /** Whether the session that begins next follows one of an earlier epoch, whose locks it may reclaim. */
  #mayReclaim = false;
  #reclaims = new Reclaims((lost) => this.#reportLosses(lost));
  #lastId = 0;
  #number = 1;
  /** Whether the server has been asked to let this number join the present session, and has not refused it. */
  #isJoined = false;
  constructor(clientId, dialer, keys, user) {
    this.#clientId = clientId;
    this.#dialer = dialer;
    this.#user = user;
    this.#session = new Session(dialer, keys, {
      begun: () => this.#begin(),
      resumed: () => this.#askQueriesAnew(),
      succeeded: (former) => this.#keepLocks(former),
      ended: (reason, failure2) => this.#endAll(reason, failure2),
      noticed: (notices) => this.#tasks.now(notices),
      hasTasks: () => !this.#tasks.isEmpty,
      holdsLocks: () => this.#holdsLocks,
      identified: (identity) => user.identified(identity),
      stateChanged: (state) => user.stateChanged(state),
      unreachable: (why, isLast) => user.unreachable(why, isLast)
    });
  }
  /** The session, to be opened, put to sleep and woken. */
  get session() {
    return this.#session;
  }
  /** What keeps every request from being granted, if that is known. */
  get #whyNot() {
    const { isRecovering } = this.#session;
    return this.#dialer.trouble ?? (isRecovering ? "the server still waits for the holders from before its restart" : void 0);
  }
  /** Requests a lock: https://w3c.github.io/web-locks/#request-a-lock */
  request(ask) {
    return new Promise((resolve, reject) => {
      this.#admit();
      if (ask.ifAvailable) runDueAbortAlgorithms();
      const id = this.#lastId + 1;
      const body = requestBody(id, this.#number, ask);
      this.#checkSize(body);
      this.#lastId = id;
      const request = {
        kind: "request",
        id,
        ask,
        runInContext: captureContext(),
        resolve: (value) => {
          publish("end", () => endOf(ask, void 0));
          resolve(value);
        },
        reject: (error) => {
          publish("end", () => endOf(ask, error));
          reject(error);
        },
        hold: void 0,
        posted: void 0,
        unwatch: void 0
      };
      this.#add(request);
      if (ask.signal || ask.loss || ask.timeout !== void 0) this.#watch(request);
      publish("start", () => targetOf(ask));
      if (!this.#isJoined) this.#join();
      request.posted = this.#session.post(body);
    });
  }
  /** Asks for a snapshot: https://w3c.github.io/web-locks/#snapshot-the-lock-state */
  query() {
    return new Promise((resolve, reject) => {
      this.#admit();
      runDueAbortAlgorithms();
      this.#lastId += 1;
      const id = this.#lastId;
      this.#add({ kind: "query", id, resolve, reject, held: [], pending: [] });
      this.#session.ask(id, queryBody(id));
    });
  }
  /** Resolves in a later task; rejects there if this agent has been closed meanwhile. */
  nextTurn() {
    return new Promise((resolve, reject) => {
      this.#turns.later(() => this.#session.state === "closed" ? reject(clientClosed()) : resolve());
    });
  }
  /** Ends this agent for good; everything open rejects with an AbortError. */
  close() {
    if (this.#session.state === "closed") return;
    this.#session.close();
    this.#endAll("terminated", clientClosed());
  }
  get #holdsLocks() {
    for (const entry of this.#open.values()) if (entry.kind === "request" && entry.hold) return true;
    return false;
  }
  #admit() {
    if (this.#session.state === "closed") throw this.#session.closedError;
    if (this.#open.size >= OPEN_LIMIT || this.#session.isFull) {
      throw quotaExceeded(
        `requests: ${this.#open.size} are open or waiting to be sent, but at most ${OPEN_LIMIT} are allowed`
      );
    }
  }
  /** A frame that is too large would cost the whole connection, so it is refused here. */
  #checkSize(body) {
    const allowed = this.#session.frameBytes - FRAME_OVERHEAD_BYTES;
    if (body.length * 3 <= allowed) return;
    const bytes = utf8Length(body);
    if (bytes > allowed) {
      throw quotaExceeded(`name and metadata: ${bytes} bytes as JSON, but a frame has at most ${allowed} bytes`);
    }
  }
  /** Signal to abort the request: https://w3c.github.io/web-locks/#signal-to-abort-the-request */
  #watch(request) {
    const { signal, loss, timeout } = request.ask;
    const forget = signal && addAbortAlgorithm(signal, () => this.#withdraw(request, signal.reason));
    const forgetLoss = loss && addAbortAlgorithm(loss, () => this.#withdraw(request, loss.reason));
    const timer = timeout === void 0 || timeout > LONGEST_TIMEOUT_MS2 ? void 0 : setTimeout(() => this.#withdraw(request, timedOut(request.ask, this.#whyNot)), timeout);
    request.unwatch = () => {
      forget?.();
      forgetLoss?.();
      clearTimeout(timer);
      request.unwatch = void 0;
    };
  }
  #withdraw(request, reason) {
    if (request.hold || this.#open.get(request.id) !== request) return;
    this.#close(request);
    this.#session.post(abortBody(request.id));
    request.reject(reason);
  }
  #obey(notice) {
    if (this.#isOverdue()) return;
    switch (notice.type) {
      case "granted":
        this.#granted(notice);
        return;
      case "refused":
        this.#callBackWithNull(notice.id);
        return;
      case "lost":
        this.#lose(notice);
        return;
      case "ended":
        this.#agentEnded(notice.agent, notice.reason);
        return;
      case "snapshot":
        this.#gather(notice);
        return;
      case "error":
        this.#fail(notice);
        return;
      case "released":
        return;
    }
  }
  /**
   * Whether the session is over by its deadline, and all with it. A lock that is being reclaimed may be past
   * its own; if so it is lost when this returns.
   */
  #isOverdue() {
    this.#reclaims.check();
    return this.#session.isOverdue();
  }
  #granted(notice) {
    const { id } = notice;
    const request = this.#open.get(id);
    if (!request) {
      if (id > this.#lastId) this.#session.accuse(new ProtocolError(`granted: id ${id} was never asked for`));
      else this.#postRelease(id);
      return;
    }
    if (request.kind === "request" && !request.hold) this.#start(request, notice);
    else if (request.kind === "request" && this.#reclaims.has(request)) this.#reclaimed(request, notice);
    else this.#session.accuse(new ProtocolError(`granted: id ${id} does not wait for a lock`));
  }
  /** The steps on the event loop for a grant: https://w3c.github.io/web-locks/#process-the-lock-request-queue */
  #start(request, { token, ticket }) {
    const { signal } = request.ask;
    if (signal?.aborted) {
      this.#close(request);
      this.#postRelease(request.id);
      request.reject(signal.reason);
      return;
    }
    request.unwatch?.();
    const { ask, runInContext } = request;
    const { callback, wrap } = ask;
    const hold = new Hold(ask, token, ticket, () => this.#isOver(request, hold));
    request.hold = hold;
    publish("grant", () => targetOf(ask));
    const waiting = new Promise((resolve) => resolve(runInContext(() => callback(wrap(hold)))));
    waiting.then(
      (value) => this.#release(request, hold) && request.resolve(value),
      (error) => this.#release(request, hold) && request.reject(error)
    );
  }
  /** The lock is held on, in the present session. */
  #reclaimed(request, { id, token, ticket }) {
    const { hold } = request;
    if (hold?.token !== token) {
      this.#session.accuse(new ProtocolError(`granted: the lock ${id} was reclaimed, but its token is another one`));
      return;
    }
    hold.ticket = ticket;
    this.#reclaims.delete(request);
  }
  /**
   * The waiting promise has settled. Returns false if the lock was lost before, so that its promise is
   * settled already.
   */
  #release(request, hold) {
    if (this.#isOver(request, hold)) return false;
    this.#close(request);
    this.#postRelease(request.id);
    return true;
  }
  /** Whether the lock is lost; it is lost here if its longest hold is over, whatever the server says. */
  #isOver(request, hold) {
    if (this.#isOverdue() || hold.loss) return true;
    const leftMs = hold.leftMs();
    const isOpen = this.#open.get(request.id) === request;
    if (!isOpen || leftMs === void 0 || leftMs > 0) return false;
    this.#postRelease(request.id);
    this.#reportLoss([request], "expired");
    return true;
  }
  #callBackWithNull(id) {
    const request = this.#open.get(id);
    if (request?.kind !== "request" || request.hold) return;
    this.#close(request);
    const { ask, runInContext } = request;
    publish("miss", () => targetOf(ask));
    new Promise((resolve) => resolve(runInContext(() => ask.callback(null)))).then(
      request.resolve,
      request.reject
    );
  }
  #lose({ id, reason, why }) {
    const request = this.#open.get(id);
    if (request?.kind === "request" && request.hold) this.#reportLoss([request], reason, why);
  }
  #postRelease(id) {
    this.#session.post(releaseBody(id));
    this.#session.hurry();
  }
  #join() {
    this.#isJoined = this.#session.post(joinBody(this.#number, this.#clientId)) !== void 0;
  }
  /**
   * Of all that is sent here only a join is answered with an error that names no request. What waits for the
   * agent ends with it; the next request has another one join, whose number has to be higher.
   */
  #joinRefused(detail, message) {
    if (!this.#isJoined || FAULTS_OF_FRAMES.has(detail.code)) return;
    this.#isJoined = false;
    this.#number += 1;
    this.#endRequests("superseded", serverError(detail, message));
  }
  #fail({ id, detail, message }) {
    if (id === 0) {
      this.#joinRefused(detail, message);
      return;
    }
    const entry = this.#open.get(id);
    if (!entry) return;
    if (entry.kind === "request" && entry.hold) {
      if (this.#reclaims.has(entry)) this.#reportLoss([entry], "superseded");
      return;
    }
    this.#close(entry);
    entry.reject(serverError(detail, message));
  }
  #agentEnded(agent, reason) {
    if (agent !== this.#number) return;
    if (reason === "expired") {
      this.#session.abandon("expired");
      return;
    }
    this.#number += 1;
    this.#join();
    this.#endRequests(reason, domError("AbortError", "The client was ended by an operator."));
  }
  #gather(part) {
    const query = this.#open.get(part.id);
    if (query?.kind !== "query") return;
    query.held = query.held.concat(part.held);
    query.pending = query.pending.concat(part.pending);
    if (part.more) return;
    this.#close(query);
    query.resolve({ held: query.held, pending: query.pending });
  }
  /**
   * A fresh session: the agent joins, and all that is open is asked in its order, locks first. What the
   * former session held besides is given up.
   */
  #begin() {
    this.#join();
    for (const entry of this.#open.values())
      if (entry.kind === "request" && entry.hold) this.#reclaim(entry, entry.hold);
    if (this.#mayReclaim) this.#session.post(RECLAIMED_BODY);
    this.#mayReclaim = false;
    for (const entry of this.#open.values()) {
      if (entry.kind === "query") this.#session.ask(entry.id, queryBody(entry.id));
      else if (!entry.hold) entry.posted = this.#session.post(requestBody(entry.id, this.#number, entry.ask));
    }
  }
  #reclaim({ id, ask }, hold) {
    if (this.#isOverdue() || hold.loss) return;
    const leftMs = hold.leftMs();
    const maxHold = leftMs === void 0 ? void 0 : Math.max(1, Math.ceil(leftMs));
    this.#session.post(reclaimBody(id, this.#number, { ...ask, maxHold }, hold.token, hold.ticket ?? ""));
  }
  /** The session is over, but a new server lets its locks be reclaimed: those that cannot be are lost. */
  #keepLocks(former) {
    for (const notice of this.#tasks.clear()) {
      if (notice.type === "lost") this.#lose(notice);
      if (notice.type === "ended" && notice.agent === this.#number) this.#endRequests(notice.reason);
    }
    const kept = /* @__PURE__ */ new Set();
    for (const entry of this.#open.values())
      if (entry.kind === "request" && entry.hold && entry.hold.ticket !== void 0) kept.add(entry);
    this.#reclaims.add(kept, former);
    this.#mayReclaim = true;
    this.#endAll("terminated", void 0, kept);
    this.#renumber();
  }
  /** Ids must grow over a session: what is reclaimed comes first, then what is pending, each in its order. */
  #renumber() {
    const isHeld = (entry) => entry.kind === "request" && entry.hold !== void 0;
    const entries = [...this.#open.values()];
    this.#open.clear();
    for (const entry of [...entries.filter(isHeld), ...entries.filter((each) => !isHeld(each))]) {
      this.#lastId += 1;
      entry.id = this.#lastId;
      this.#open.set(entry.id, entry);
    }
  }
  /** Ids must grow, so a query that is asked again gets a new one. */
  #askQueriesAnew() {
    for (const query of [...this.#open.values()]) {
      if (query.kind !== "query") continue;
      this.#open.delete(query.id);
      this.#lastId += 1;
      query.id = this.#lastId;
      query.held = [];
      query.pending = [];
      this.#open.set(query.id, query);
      this.#session.ask(query.id, queryBody(query.id));
    }
  }
  /** The session is over: locks are lost unless kept, and what is pending fails or waits to be asked again. */
  #endAll(reason, failure2, kept) {
    this.#isJoined = false;
    this.#tasks.clear();
    for (const query of this.#open.values()) {
      if (query.kind !== "query") continue;
      query.held = [];
      query.pending = [];
      if (failure2) {
        this.#close(query);
        query.reject(failure2);
      }
    }
    this.#endRequests(reason, failure2, kept);
  }
  #endRequests(reason, failure2, kept) {
    const held = [];
    for (const request of this.#open.values()) {
      if (request.kind === "query") continue;
      if (request.hold) {
        if (!kept?.has(request)) held.push(request);
      } else if (failure2 || request.ask.steal && request.posted?.wasSent) {
        this.#close(request);
        request.reject(failure2 ?? outcomeUnknown(request.ask));
      }
    }
    this.#reportLoss(held, reason);
  }
  #reportLoss(held, reason, why) {
    this.#reportLosses(new Map(held.map((request) => [request, reason])), why);
  }
  /** Changes all state first, since listeners of the signals run at once. */
  #reportLosses(lost, why) {
    for (const [request, reason] of lost) {
      this.#close(request);
      request.reject(request.hold?.lose(reason, why));
    }
    for (const request of lost.keys()) request.hold?.announceLoss();
  }
  #add(entry) {
    this.#open.set(entry.id, entry);
    if (this.#open.size === 1) this.#user.busyChanged(true);
  }
  #close(entry) {
    const wasOpen = this.#open.delete(entry.id);
    if (wasOpen && this.#open.size === 0) this.#user.busyChanged(false);
    if (entry.kind !== "request") return;
    entry.unwatch?.();
    if (entry.hold) this.#reclaims.delete(entry);
  }
};
function targetOf({ name, mode }) {
  return { name, mode };
}
function endOf({ name, mode, steal, ifAvailable }, error) {
  return { name, mode, steal, ifAvailable, error };
}
function timedOut(ask, why) {
  const because = why === void 0 ? "" : `; ${why}`;
  return domError("TimeoutError", `The lock was not granted within ${ask.timeout} ms${because}.`);
}
function outcomeUnknown(ask) {
  const name = JSON.stringify(ask.name.slice(0, 64));
  return domError("OperationError", `outcome unknown: the server was lost while ${name} was being stolen`);
}

// src/answers.ts
function textOf(body, member) {
  const value = body[member];
  if (typeof value !== "string") throw unusable(member);
  return value;
}
function secretOf(body, member) {
  const secret = textOf(body, member);
  if (secret === "") throw unusable(member);
  return secret;
}
function wordOf(body, member, words) {
  const value = body[member];
  const word = words.find((each) => each === value);
  if (word === void 0) throw unusable(member);
  return word;
}
function flagOf(body, member) {
  const value = body[member];
  if (typeof value !== "boolean") throw unusable(member);
  return value;
}
function countOf(body, member) {
  const value = body[member];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw unusable(member);
  return value;
}
function tokenOf(body) {
  const token = countOf(body, "fencingToken");
  if (token === 0) throw unusable("fencingToken");
  return token;
}
function countIfAny(body, member) {
  return body[member] == null ? null : countOf(body, member);
}
function instantOf(body, member) {
  const instant = new Date(textOf(body, member));
  if (Number.isNaN(instant.getTime())) throw unusable(member);
  return instant;
}
function instantIfAny(body, member) {
  return body[member] == null ? void 0 : instantOf(body, member);
}
function listOf(body, member) {
  const value = body[member];
  if (!Array.isArray(value) || value.some((item) => typeof item !== "object" || item === null)) throw unusable(member);
  return value;
}
function unusable(member) {
  return domError("NetworkError", `The lock server's answer cannot be used: ${member} is missing or impossible`);
}

// src/backoff.ts
var FIRST_MS = 100;
var LONGEST_MS = 5e3;
var Backoff = class {
  #attempts = 0;
  /**
   * Milliseconds to wait before the next attempt: half to the whole of a span that doubles up to 5 s, or up
   * to `mostMs` if that is less.
   */
  nextMs(mostMs = LONGEST_MS) {
    const span = Math.min(LONGEST_MS, mostMs, FIRST_MS * 2 ** this.#attempts);
    this.#attempts += 1;
    return span * (0.5 + Math.random() / 2);
  }
  /** The connection has proved good. */
  reset() {
    this.#attempts = 0;
  }
};

// src/conversions.ts
var DEFAULTS = {
  ifAvailable: false,
  mode: "exclusive",
  signal: void 0,
  steal: false,
  maxHold: void 0,
  metadata: void 0,
  timeout: void 0
};
var LONGEST_HOLD_MS = Number.MAX_SAFE_INTEGER;
function toDOMString(value) {
  return `${value}`;
}
function toCallback(value, position, method) {
  if (typeof value === "function") return value;
  throw failure(method, `parameter ${position} is not of type 'Function'.`);
}
function toLockOptions(value, method) {
  if (value === void 0 || value === null) return DEFAULTS;
  if (typeof value !== "object" && typeof value !== "function") {
    throw failure(method, "The provided value is not of type 'LockOptions'.");
  }
  const options = value;
  return {
    ifAvailable: Boolean(options.ifAvailable),
    mode: toLockMode(options.mode, method),
    signal: toAbortSignal(options.signal, method),
    steal: Boolean(options.steal),
    maxHold: "maxHold" in options ? toMilliseconds(method, "maxHold", options.maxHold, 1, LONGEST_HOLD_MS) : void 0,
    metadata: "metadata" in options ? toMetadata(options.metadata) : void 0,
    timeout: "timeout" in options ? toMilliseconds(method, "timeout", options.timeout, 0, Infinity) : void 0
  };
}
function toExtendedOptions(value, method) {
  if (value === void 0) return DEFAULTS;
  return toLockOptions(toOptions(value, EXTENDED, failureText(method, "")), method);
}
var asIs = (_field, value) => value;
var EXTENDED = {
  mode: asIs,
  ifAvailable: optional(toBoolean),
  steal: optional(toBoolean),
  signal: asIs,
  maxHold: asIs,
  metadata: asIs,
  timeout: asIs
};
function tooFewArguments(method, required, present2) {
  const noun = required === 1 ? "argument" : "arguments";
  return failure(method, `${required} ${noun} required, but only ${present2} present.`);
}
function toLockMode(value, method) {
  if (value === void 0) return "exclusive";
  const mode = toDOMString(value);
  if (mode === "exclusive" || mode === "shared") return mode;
  throw badMember(method, "mode", `The provided value '${mode}' is not a valid enum value of type LockMode.`);
}
function toAbortSignal(value, method) {
  if (value === void 0 || isAbortSignal(value)) return value;
  throw badMember(method, "signal", "Failed to convert value to 'AbortSignal'.");
}
function isAbortSignal(value) {
  try {
    isAborted.call(value);
    return !isProxy?.(value);
  } catch {
    return false;
  }
}
var isAborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")?.get;
var isProxy = builtin("node:util")?.types.isProxy;
function toMilliseconds(method, member, value, least, most) {
  if (value === void 0) return void 0;
  if (isMilliseconds(value, least, most)) return Number.isFinite(value) ? Math.ceil(value) : value;
  const bound = most === Infinity ? "" : ` and at most ${most}`;
  const rule = `a number of milliseconds of at least ${least}${bound}`;
  throw badMember(method, member, `The provided value ${shown(value)} is not ${rule}.`);
}
function toMetadata(value) {
  return value === void 0 ? void 0 : toWellFormed("metadata", value);
}
function badMember(method, member, message) {
  return failure(method, `Failed to read the '${member}' property from 'LockOptions': ${message}`);
}
function failure(method, message) {
  return new TypeError(failureText(method, message));
}
function failureText(method, message) {
  return `Failed to execute '${method}' on 'LockManager': ${message}`;
}

// src/problems.ts
var ProblemError = class extends Error {
  /** What went wrong, for programs: `locked`, `claim_lost`, … */
  code;
  /** The HTTP status; 0 if no server has answered. */
  status;
  constructor(code, status, message, options) {
    super(message, options);
    this.code = code;
    this.status = status;
  }
};
var UnreachableError = class extends ProblemError {
};
var OutcomeUnknownError = class extends ProblemError {
  /** After how many milliseconds the same call may be made again, if the server says so. */
  retryAfterMs;
  constructor(code, status, message, retryAfterMs, options) {
    super(code, status, message, options);
    this.retryAfterMs = retryAfterMs;
  }
};
var InvalidError = class extends ProblemError {
  field;
  value;
  rule;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.field = optionalText(body.field);
    this.value = optionalText(body.value);
    this.rule = optionalText(body.rule);
  }
};
var LockedError = class extends ProblemError {
  conflicts;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.conflicts = list(body.conflicts).map((conflict) => ({
      kind: textOf(conflict, "kind"),
      id: textOf(conflict, "id"),
      holders: list(conflict.holders).map(readHolder),
      queued: countIfAny(conflict, "queued") ?? 0
    }));
  }
  /** Those who hold any of the records. */
  get holders() {
    return this.conflicts.flatMap(({ holders }) => holders);
  }
};
var ClaimedError = class extends ProblemError {
  /** Who claims it. */
  holder;
  /** When that claim ends unless it is renewed. */
  expiresAt;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.holder = list(body.holders).map(readHolder)[0];
    this.expiresAt = instantIfAny(body, "expiresAt") ?? this.holder?.expiresAt;
  }
};
var BusyError = class extends ProblemError {
  holders;
  /** How many requests wait for it. */
  queued;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.holders = list(body.holders).map(readHolder);
    this.queued = countIfAny(body, "queued") ?? 0;
  }
};
var AlreadyAssignedError = class extends ProblemError {
  /** To whom it is assigned. */
  claimant;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.claimant = claimantOf(body);
  }
};
var ClaimLostError = class extends ProblemError {
  /** To whom the resource is assigned, if the other claim was made final. */
  claimant;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.claimant = claimantOf(body);
  }
};
function claimantOf({ assignment }) {
  return typeof assignment === "object" && assignment !== null ? textOf(assignment, "claimant") : void 0;
}
var ClaimExpiredError = class extends ProblemError {
};
var LocksLostError = class extends ProblemError {
  lost;
  constructor(code, status, message, body) {
    super(code, status, message);
    this.lost = list(body.lost).map((lock) => ({
      kind: textOf(lock, "kind"),
      id: textOf(lock, "id"),
      name: textOf(lock, "name")
    }));
  }
};
var UnknownOwnerError = class extends ProblemError {
};
var UnauthorizedError = class extends ProblemError {
};
var UnavailableError = class extends ProblemError {
  /** After how many milliseconds it makes sense to try again. */
  retryAfterMs;
  constructor(code, status, message, retryAfterMs) {
    super(code, status, message);
    this.retryAfterMs = retryAfterMs;
  }
};
var RecoveringError = class extends UnavailableError {
};
var NAMES = {
  ProblemError,
  UnreachableError,
  OutcomeUnknownError,
  InvalidError,
  LockedError,
  ClaimedError,
  BusyError,
  AlreadyAssignedError,
  ClaimLostError,
  ClaimExpiredError,
  LocksLostError,
  UnknownOwnerError,
  UnauthorizedError,
  UnavailableError,
  RecoveringError
};
for (const [value, type] of Object.entries(NAMES)) {
  Object.defineProperty(type.prototype, "name", { value, writable: true, configurable: true });
}
var CLASSES = {
  invalid: InvalidError,
  bad_request: InvalidError,
  locked: LockedError,
  claimed: ClaimedError,
  busy: BusyError,
  already_assigned: AlreadyAssignedError,
  claim_lost: ClaimLostError,
  claim_expired: ClaimExpiredError,
  lock_lost: LocksLostError,
  unknown_owner: UnknownOwnerError,
  unauthorized: UnauthorizedError
};
function problemError(status, body, retryAfter, isQuestion) {
  const code = optionalText(body.code) ?? `status_${status}`;
  const message = optionalText(body.detail) ?? optionalText(body.title) ?? `The answer has status ${status} and no reason of a lock server.`;
  const retryAfterMs = optionalNumber(body.retryAfterMs) ?? secondsToMs(retryAfter);
  if (!isQuestion && isUnknown(code, status)) return new OutcomeUnknownError(code, status, message, retryAfterMs);
  if (code === "recovering") return new RecoveringError(code, status, message, retryAfterMs);
  if (code === "rate_limited" || isOfProxy(status)) {
    return new UnavailableError(code, status, message, retryAfterMs);
  }
  return new (CLASSES[code] ?? ProblemError)(code, status, message, body);
}
function isUnknown(code, status) {
  return code === "outcome_unknown" || code === "internal" || code === `status_${status}` && isOfProxy(status);
}
function isOfProxy(status) {
  return status === 502 || status === 503 || status === 504;
}
function readHolder(raw) {
  const expiresAt = instantIfAny(raw, "expiresAt");
  return {
    kind: wordOf(raw, "kind", ["web", "offline", "claim"]),
    label: textOf(raw, "label"),
    mode: wordOf(raw, "mode", ["exclusive", "shared"]),
    since: instantOf(raw, "since"),
    ...typeof raw.owner === "string" && { owner: raw.owner },
    ...expiresAt && { expiresAt },
    ...typeof raw.metadata === "string" && { metadata: raw.metadata }
  };
}
function list(value) {
  return Array.isArray(value) ? value.filter((item) => typeof item === "object" && item !== null) : [];
}
function optionalText(value) {
  return typeof value === "string" ? value : void 0;
}
function optionalNumber(value) {
  return typeof value === "number" && value >= 0 ? value : void 0;
}
function secondsToMs(header) {
  return header !== null && /^\d+$/.test(header) ? Number(header) * 1e3 : void 0;
}

// src/url.ts
var SOCKET_PROTOCOLS = { "http:": "ws:", "https:": "wss:", "ws:": "ws:", "wss:": "wss:" };
var DEFAULT_BUCKET = "default";
var PARAMETERS = ["bucket", "partition"];
var COMMON = {
  protocol: (url) => httpProtocol(url),
  bucket: (url) => bucketOf(url),
  partition: (url) => url.searchParams.get("partition") ?? ""
};
function readEndpoints(urls, given) {
  const read = (field, url) => ({ field, url: serverUrl(field, url) });
  if (!Array.isArray(urls)) return [read("url", urls)];
  const [first, ...others] = Array.from(urls, (url, index) => read(`url[${index}]`, url));
  if (!first) throw new TypeError("url: an empty array, but it must have at least one URL");
  for (const [what, of] of Object.entries(COMMON)) {
    const other = others.find(({ url }) => of(url) !== of(first.url));
    if (!other || given[what] !== void 0) continue;
    const [mine, its] = [other, first].map(({ url }) => shown(of(url)));
    throw new TypeError(`${other.field}: the ${what} ${mine}, but it must be that of url[0], ${its}`);
  }
  return [first, ...others];
}
function serverUrl(field, address) {
  const text2 = String(address);
  if (!URL.canParse(text2))
    throw broken(field, masked(text2), "an absolute URL, with a number up to 65535 as its port if it has one");
  const url = new URL(text2);
  const protocol = SOCKET_PROTOCOLS[url.protocol];
  if (!protocol)
    throw new TypeError(`${field}: the protocol ${url.protocol}, but it must be http:, https:, ws: or wss:`);
  for (const name of url.searchParams.keys()) {
    if (!PARAMETERS.includes(name)) {
      throw new TypeError(`${field}: has ${shown(name)} in its query, but it must have bucket and partition only`);
    }
  }
  if (url.username !== "" || url.password !== "") {
    throw broken(field, masked(text2), "without a user and a password: what says who connects is the option key");
  }
  if (url.port === "0") throw broken(field, text2, "one with a port from 1 to 65535");
  if (url.hash !== "") throw broken(field, text2, "without a fragment");
  if (!isEncoded(url.search)) throw broken(field, text2, "one whose query is percent-encoded UTF-8");
  for (const name of PARAMETERS) {
    if (url.searchParams.getAll(name).length > 1)
      throw new TypeError(`${field}: has more than one ${name} in its query`);
  }
  url.protocol = protocol;
  if (url.pathname === "/") url.pathname = "/v1/ws";
  return url;
}
function isEncoded(query) {
  try {
    decodeURIComponent(query);
    return true;
  } catch {
    return false;
  }
}
function masked(address) {
  return address.replace(/^(\s*[^/?#]*\/*)[^/?#]*@/, "$1***@");
}
function bucketUrl({ field, url }, bucket) {
  const [path, ...rest] = url.pathname.split(/\/v1\/ws$/);
  if (rest.length === 0) {
    throw new TypeError(`${field}: the path ${url.pathname}, but for offline locks and claims it must end in /v1/ws`);
  }
  if (bucket === "" || bucket === "." || bucket === "..") {
    throw new TypeError(`bucket: ${JSON.stringify(bucket)}, but the path of an HTTP call cannot hold this name`);
  }
  return `${httpProtocol(url)}//${url.host}${path}/v1/buckets/${checkedForUrl("bucket", bucket)}`;
}
function httpProtocol(socketUrl) {
  return socketUrl.protocol === "wss:" ? "https:" : "http:";
}
function checkedForUrl(field, value) {
  toText(field, value);
  try {
    return encodeURIComponent(value);
  } catch {
    throw new TypeError(`${field}: ${shown(value)} has a lone surrogate, which an address cannot hold`);
  }
}
function bucketOf(url) {
  return url.searchParams.get("bucket") ?? DEFAULT_BUCKET;
}
function scoped(url, { bucket, partition }) {
  const result = new URL(url);
  if (bucket !== void 0) result.searchParams.set("bucket", bucket);
  if (partition !== void 0 && partition !== "") result.searchParams.set("partition", partition);
  if (partition === "") result.searchParams.delete("partition");
  return result;
}

// src/caller.ts
var CALL_OPTIONS = { signal: optional(toSignal), timeout: optional(toTimeout) };
var DEFAULT_TIMEOUT_MS = 3e4;
var ATTEMPT_MS = 1e4;
var IS_AWAY = /* @__PURE__ */ new Set([502, 503, 504]);
var UNAUTHENTICATED = "unauthenticated";
var Caller = class {
  #endpoints;
  #bucket;
  #fetch;
  #keys;
  #admit;
  #closed;
  /** `admit` throws what keeps every call from being made; `closed` aborts with the client. */
  constructor(endpoints, bucket, fetch, keys, admit, closed) {
    this.#endpoints = endpoints;
    this.#bucket = bucket;
    this.#fetch = fetch;
    this.#keys = keys;
    this.#admit = admit;
    this.#closed = closed;
  }
  /** Aborts when the client is closed. */
  get closed() {
    return this.#closed;
  }
  /** Whether another key may be had where one was refused. */
  get mayChangeKey() {
    return this.#keys.mayChange;
  }
  /** Resolves after so many milliseconds; rejects once the signal or the client ends it. */
  async pause(ms, signal) {
    const cancel = new Cancellation(signal, this.#closed);
    try {
      cancel.throwIfCancelled();
      await cancel.pause(ms);
    } finally {
      cancel.end();
    }
  }
  /**
   * Opens a stream, tried once at the endpoint that answered last. Rejects with the ProblemError of what
   * keeps it from being had. A stream in which nothing comes for so many milliseconds ends.
   */
  async open(path, silenceMs, signal) {
    this.#admit();
    const fetch = this.#fetch;
    if (!fetch) throw new TypeError("fetch: this platform has none, so the option must give a function");
    const cancel = new Cancellation(signal, this.#closed);
    const controller = new AbortController();
    const forget = cancel.oncancel(() => controller.abort());
    const endpoint = this.#endpoints.current;
    const address = bucketUrl(endpoint, this.#bucket);
    const stream = new AnswerStream(silenceMs, cancel, controller, () => {
      forget();
      cancel.end();
    });
    try {
      cancel.throwIfCancelled();
      const key = await beforeAbort(this.#keys.now(), controller.signal);
      const headers = { Accept: "text/event-stream" };
      if (key !== void 0) headers["Lockhouse-Key"] = key;
      const init = { method: "GET", headers, ...ALWAYS };
      const response = await fetch(`${address}/${path}`, { ...init, signal: controller.signal });
      const redirect = redirectOf(response, address);
      if (redirect) throw redirect;
      if (!response.ok) {
        if (IS_AWAY.has(response.status)) this.#endpoints.failed(endpoint);
        const retryAfter = response.headers.get("retry-after");
        const problem = problemError(response.status, await bodyOf(response), retryAfter, true);
        if (problem.code === UNAUTHENTICATED) this.#keys.refused();
        throw problem;
      }
      this.#keys.taken();
      const content = response.headers.get("content-type") ?? "";
      if (response.status !== 200 || !/^text\/event-stream\s*(;|$)/i.test(content)) {
        throw notLockhouse(response.status, `status ${response.status} and no events`);
      }
      stream.begin(response);
      return stream;
    } catch (cause) {
      stream.close();
      cancel.throwIfCancelled();
      if (cause instanceof ProblemError || cause instanceof WrongKey || cause instanceof NoBody) throw cause;
      this.#endpoints.failed(endpoint);
      const message = `The lock server at ${new URL(address).origin} cannot be reached: ${shownCause(cause)}`;
      throw new UnreachableError("unreachable", 0, message, { cause });
    }
  }
  /** Makes the call. The options were checked before. */
  async call(call, { signal, timeout = DEFAULT_TIMEOUT_MS }) {
    this.#admit();
    for (const each of this.#endpoints.all) bucketUrl(each, this.#bucket);
    const fetch = this.#fetch;
    if (!fetch) throw new TypeError("fetch: this platform has none, so the option must give a function");
    const endMs = performance.now() + timeout;
    const init = initOf(call);
    signal?.throwIfAborted();
    const cancel = new Cancellation(signal, this.#closed);
    const backoff = new Backoff();
    let sentAt;
    let unknown;
    let untried = this.#endpoints.all.length - 1;
    try {
      for (; ; ) {
        sentAt = call.again === "withKey" ? sentAt ?? now() : now();
        const endpoint = this.#endpoints.current;
        const end = await this.#attempt(fetch, endpoint, call.path, init, endMs, cancel);
        const isRepeated = unknown !== void 0;
        if (!(end instanceof ProblemError))
          return { status: end.status, body: end.body, sentAt, isRepeated: isRepeated && !end.isReplayed };
        const isElsewhere = this.#endpoints.current !== endpoint && untried > 0;
        if (end instanceof UnreachableError && isElsewhere && performance.now() < endMs) {
          untried -= 1;
          continue;
        }
        untried = this.#endpoints.all.length - 1;
        if (isRepeated && call.doneBy?.includes(end.code)) return { status: 0, body: {}, sentAt, isRepeated };
        if (end instanceof OutcomeUnknownError) unknown = end;
        const isOver = unknown !== void 0 && call.again === "never";
        const pauseMs = isOver ? void 0 : this.#pauseBefore(end, backoff, unknown !== void 0);
        if (pauseMs === void 0 || performance.now() + pauseMs >= endMs) {
          throw unknown && !CONCLUSIVE.has(end.code) ? unknown : end;
        }
        await cancel.pause(pauseMs);
      }
    } catch (error) {
      throw error instanceof WrongKey && unknown ? unknown : error;
    } finally {
      cancel.end();
    }
  }
  /** One attempt: its answer, or what went wrong. Throws only if the call is to be given up. */
  async #attempt(fetch, endpoint, path, init, endMs, cancel) {
    cancel.throwIfCancelled();
    const isQuestion = init.method === "GET";
    const controller = new AbortController();
    let isSent = false;
    let response;
    let body;
    const address = bucketUrl(endpoint, this.#bucket);
    const limitMs = Math.max(1, Math.min(ATTEMPT_MS, endMs - performance.now()));
    const timer = setTimeout(() => controller.abort(), limitMs);
    const forget = cancel.oncancel(() => controller.abort());
    try {
      const key = await beforeAbort(this.#keys.now(), controller.signal);
      const headers = key === void 0 ? init.headers : { ...init.headers, "Lockhouse-Key": key };
      isSent = true;
      response = await fetch(`${address}/${path}`, {
        ...init,
        headers,
        signal: controller.signal
      });
      const redirect = redirectOf(response, address);
      if (redirect) {
        this.#endpoints.failed(endpoint);
        return redirect;
      }
      body = await bodyOf(response);
    } catch (cause) {
      cancel.throwIfCancelled();
      if (cause instanceof WrongKey) throw cause;
      if (isSent) this.#endpoints.failed(endpoint);
      const missing = isSent ? "answer" : "key";
      const why = controller.signal.aborted ? `no ${missing} within ${Math.round(limitMs)} ms` : shownCause(cause);
      if (isQuestion || !isSent || !hadConnection(cause)) {
        const message2 = `The lock server at ${new URL(address).origin} cannot be reached: ${why}`;
        return new UnreachableError("unreachable", 0, message2, { cause });
      }
      const server = `the lock server at ${new URL(address).origin}`;
      const message = `It is unknown whether it happened, as the answer of ${server} was lost: ${why}`;
      return new OutcomeUnknownError("outcome_unknown", 0, message, void 0, { cause });
    } finally {
      clearTimeout(timer);
      forget();
    }
    if (response.ok) {
      this.#keys.taken();
      return { status: response.status, body, isReplayed: response.headers.get("idempotency-replayed") !== null };
    }
    if (IS_AWAY.has(response.status)) this.#endpoints.failed(endpoint);
    const problem = problemError(response.status, body, response.headers.get("retry-after"), isQuestion);
    if (problem.code === UNAUTHENTICATED) this.#keys.refused();
    return problem;
  }
  /**
   * Milliseconds to wait before another attempt; undefined if none would help. Once the outcome is unknown, a
   * bound that is reached is waited out, too.
   */
  #pauseBefore(error, backoff, isUnknown2) {
    const { code } = error;
    if (error instanceof UnavailableError) return (error.retryAfterMs ?? 0) + backoff.nextMs();
    if (error instanceof OutcomeUnknownError && code !== "internal") {
      return (error.retryAfterMs ?? 0) + backoff.nextMs();
    }
    if (code === NOT_LOCKHOUSE) return void 0;
    if (error instanceof UnreachableError && behind(error.cause).message === BAD_PORT) return void 0;
    if (error instanceof UnreachableError || code === "conflict_in_flight") return backoff.nextMs();
    if (code === UNAUTHENTICATED && this.#keys.mayChange) return Math.max(REFUSED_PAUSE_MS, backoff.nextMs());
    return isUnknown2 && (code === "quota_exceeded" || code === "request_timeout") ? backoff.nextMs() : void 0;
  }
};
var NoBody = class extends TypeError {
};
var AnswerStream = class {
  #silenceMs;
  #cancel;
  #controller;
  #forget;
  #timer;
  #reader;
  constructor(silenceMs, cancel, controller, forget) {
    this.#silenceMs = silenceMs;
    this.#cancel = cancel;
    this.#controller = controller;
    this.#forget = forget;
    this.#wait();
  }
  begin(response) {
    if (!response.body) throw new NoBody("fetch: events need one whose answers have a body that can be read in pieces");
    this.#reader = response.body.getReader();
  }
  /** The pieces as text. A connection that breaks off ends them; the end of the client or the signal throws. */
  async *chunks() {
    const decoder = new TextDecoder();
    for (; ; ) {
      let piece;
      try {
        piece = await this.#reader?.read();
      } catch {
        this.#cancel.throwIfCancelled();
        return;
      }
      this.#cancel.throwIfCancelled();
      if (!piece || piece.done) return;
      this.#wait();
      yield decoder.decode(piece.value, { stream: true });
    }
  }
  close() {
    clearTimeout(this.#timer);
    this.#forget();
    this.#controller.abort();
  }
  #wait() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(), this.#silenceMs);
  }
};
function ofChange(read) {
  try {
    return read();
  } catch (cause) {
    const message = `It is unknown whether it happened. ${cause.message}`;
    throw new OutcomeUnknownError("outcome_unknown", 0, message, void 0, { cause });
  }
}
function ofQuestion(read) {
  try {
    return read();
  } catch (cause) {
    throw notLockhouse(200, cause.message, { cause });
  }
}
var NOT_LOCKHOUSE = "not_lockhouse";
function notLockhouse(status, why, options) {
  const message = `The server does not answer as a lockhouse server: ${why}`;
  return new UnreachableError(NOT_LOCKHOUSE, status, message, options);
}
function redirectOf({ status, type, headers }, address) {
  const isRedirect = type === "opaqueredirect" || status >= 300 && status < 400;
  if (!isRedirect) return void 0;
  const where = shownUrl(headers.get("location"), address);
  const message = `The lock server at ${new URL(address).origin} leads to ${where}; connect to that place instead`;
  return new UnreachableError(NOT_LOCKHOUSE, status, message);
}
function shownUrl(location, base) {
  if (location === null) return "another place, which the platform does not tell";
  try {
    const url = new URL(location, base);
    url.username = "";
    url.password = "";
    return url.href;
  } catch {
    return "a place that is no URL";
  }
}
var CONCLUSIVE = /* @__PURE__ */ new Set([
  "locked",
  "claimed",
  "busy",
  "already_assigned",
  "claim_lost",
  "claim_expired",
  "unknown_owner",
  "unauthorized",
  "not_found"
]);
var NO_CONNECTION = /* @__PURE__ */ new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
var BAD_PORT = "bad port";
var HANDSHAKE = /^(ERR_SSL_|ERR_TLS_|CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_)/;
function behind(error) {
  const { cause } = error instanceof Error ? error : {};
  return typeof cause === "object" && cause !== null ? cause : {};
}
function hadConnection(error) {
  const { code, syscall, message } = behind(error);
  const isNone = NO_CONNECTION.has(String(code)) || syscall === "connect" || message === BAD_PORT;
  return !isNone && !HANDSHAKE.test(String(code));
}
function shownCause(error) {
  const { message, errors, code } = behind(error);
  const each = Array.isArray(errors) ? errors.map((one) => one.message) : [];
  const why = [message, each.join(", "), code].find((text2) => typeof text2 === "string" && text2 !== "");
  return why === void 0 ? String(error) : `${String(error)} (${String(why)})`;
}
function beforeAbort(value, signal) {
  if (!(value instanceof Promise)) return value;
  const aborted = new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
  return Promise.race([value, aborted]);
}
var ALWAYS = { credentials: "omit", cache: "no-store", redirect: "manual" };
function initOf({ method, secret, body, again }) {
  const headers = {};
  if (secret !== void 0) headers.Authorization = `Bearer ${toSecret("secret", secret)}`;
  if (again === "withKey") headers["Idempotency-Key"] = randomId();
  if (body === void 0) return { method, headers, ...ALWAYS };
  headers["Content-Type"] = "application/json";
  return { method, headers, ...ALWAYS, body: JSON.stringify(body) };
}
async function bodyOf(response) {
  const text2 = await response.text();
  try {
    const body = JSON.parse(text2);
    return typeof body === "object" && body !== null ? body : {};
  } catch {
    if (response.ok && text2 !== "") throw new Error("the answer is no JSON, or broke off");
    return {};
  }
}
function toTimeout(field, value) {
  if (isMilliseconds(value, Number.MIN_VALUE, Infinity)) return value;
  throw broken(field, value, "a number of milliseconds above 0");
}
function toSignal(field, value) {
  if (isAbortSignal(value)) return value;
  throw broken(field, value, "an AbortSignal");
}
var Cancellation = class {
  #signals;
  #forgets;
  #listeners = /* @__PURE__ */ new Set();
  constructor(...signals) {
    this.#signals = signals.filter((signal) => signal !== void 0);
    this.#forgets = this.#signals.map((signal) => addAbortAlgorithm(signal, () => this.#cancel()));
  }
  /** Calls the listener when the call is given up. Returns what ends this. */
  oncancel(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
  throwIfCancelled() {
    for (const signal of this.#signals) if (signal.aborted) throw signal.reason;
  }
  /** Resolves after so many milliseconds; rejects at once when the call is given up. */
  async pause(ms) {
    await new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        forget();
        resolve();
      };
      const timer = setTimeout(done, Math.min(ms, LONGEST_TIMEOUT_MS));
      const forget = this.oncancel(done);
    });
    this.throwIfCancelled();
  }
  end() {
    for (const forget of this.#forgets) forget();
  }
  #cancel() {
    for (const listener of [...this.#listeners]) listener();
  }
};

// src/claims.ts
var CLAIM = {
  claimant: toWellFormed,
  ttlMs: optional(toNumber),
  metadata: optional(toWellFormed),
  ...CALL_OPTIONS
};
var UNASSIGN = { fencingToken: optional(toInteger), ...CALL_OPTIONS };
var Claims = class {
  #caller;
  /** @internal */
  constructor(caller) {
    this.#caller = caller;
  }
  /**
   * Claims a resource, which is a name of the bucket. Nothing waits.
   *
   * Rejects with a ClaimedError, BusyError or AlreadyAssignedError if the resource is not to be had, and with
   * RecoveringError or UnavailableError if the timeout did not suffice, or an OutcomeUnknownError where it
   * may have happened. A claim whose answer is lost with the call ends by its TTL.
   */
  async claim(resource, options) {
    const name = toText("resource", resource);
    const { claimant, ttlMs, metadata, ...rest } = toOptions(options, CLAIM);
    const body = { resource: name, claimant, ttlMs, metadata };
    const answer = await this.#caller.call({ method: "POST", path: "claims", body, again: "withKey" }, rest);
    return ofChange(() => new Claim(this, answer.body));
  }
  /**
   * Lets the TTL of a claim run anew. Resolves to when the claim ends now. Rejects with ClaimLostError or
   * ClaimExpiredError.
   */
  async renew(resource, token, options = {}) {
    const { body, rest } = proven(resource, token, options);
    const answer = await this.#caller.call({ method: "POST", path: "claims/renew", body, again: "harmless" }, rest);
    return ofChange(() => instantOf(answer.body, "expiresAt"));
  }
  /**
   * Gives a claim up, so that the resource is free at once. Rejects with ClaimLostError or ClaimExpiredError
   * if it had ended before.
   */
  async release(resource, token, options = {}) {
    const { body, rest } = proven(resource, token, options);
    const doneBy = ["claim_expired", "claim_lost"];
    const call = { method: "POST", path: "claims/release", body, again: "withKey", doneBy };
    const answer = await this.#caller.call(call, rest);
    ofChange(() => {
      if (answer.status !== 0 && !flagOf(answer.body, "released")) throw unusable("released");
    });
  }
  /**
   * Makes a claim final: only if it still stands, and in one step. Doing it again gives the same answer until
   * the resource is unassigned.
   *
   * Rejects with a ClaimLostError if another claim stands, or a ClaimExpiredError if none does; then nothing
   * has changed. After an answer that was lost the claim may also have been made final, and the assignment
   * been taken back since.
   */
  async finalize(resource, token, options = {}) {
    const { body, rest } = proven(resource, token, options);
    const answer = await this.#caller.call({ method: "POST", path: "claims/finalize", body, again: "withKey" }, rest);
    return ofChange(() => readAssignment(answer.body));
  }
  /**
   * The assignment of a resource; null if there is none. A name with a lone surrogate cannot be asked for: a
   * TypeError.
   */
  async assignment(resource, options = {}) {
    const path = `assignments?resource=${checkedForUrl("resource", resource)}`;
    const checked = toOptions(options, CALL_OPTIONS);
    try {
      const { body } = await this.#caller.call({ method: "GET", path, again: "harmless" }, checked);
      return ofQuestion(() => readAssignment(body));
    } catch (error) {
      if (error instanceof ProblemError && error.code === "not_found") return null;
      throw error;
    }
  }
  /**
   * Takes an assignment back, so that the resource can be claimed again; with a token only that one. Without
   * effect if there is none.
   *
   * Without a token it is not tried again once it may have been done: it rejects with an OutcomeUnknownError,
   * as the next attempt could take back the assignment of another claimant.
   */
  async unassign(resource, options = {}) {
    const name = checkedForUrl("resource", resource);
    const { fencingToken, ...rest } = toOptions(options, UNASSIGN);
    const only = fencingToken === void 0 ? "" : `&fencingToken=${fencingToken}`;
    const path = `assignments?resource=${name}${only}`;
    const again = fencingToken === void 0 ? "never" : "withKey";
    const answer = await this.#caller.call({ method: "DELETE", path, again }, rest);
    ofChange(() => flagOf(answer.body, "unassigned"));
  }
};
var Claim = class {
  #claims;
  #resource;
  #claimant;
  #token;
  #fencingToken;
  #expiresAt;
  /** @internal */
  constructor(claims, body) {
    this.#claims = claims;
    this.#resource = textOf(body, "resource");
    this.#claimant = textOf(body, "claimant");
    this.#token = secretOf(body, "token");
    this.#fencingToken = tokenOf(body);
    this.#expiresAt = instantOf(body, "expiresAt");
  }
  get resource() {
    return this.#resource;
  }
  get claimant() {
    return this.#claimant;
  }
  /** What proves the claim, and alone gives the right to finalize it: keep it from logs and from other users. */
  get token() {
    return this.#token;
  }
  /** An integer that grows over the grants of the bucket. */
  get fencingToken() {
    return this.#fencingToken;
  }
  /** When the claim ends unless it is renewed, by the server's clock. */
  get expiresAt() {
    return new Date(this.#expiresAt);
  }
  /** As {@link Claims.renew}. */
  async renew(options = {}) {
    this.#expiresAt = await this.#claims.renew(this.#resource, this.#token, options);
  }
  /** As {@link Claims.release}. */
  release(options = {}) {
    return this.#claims.release(this.#resource, this.#token, options);
  }
  /** As {@link Claims.finalize}. */
  finalize(options = {}) {
    return this.#claims.finalize(this.#resource, this.#token, options);
  }
};
function proven(resource, token, options) {
  const body = { resource: toText("resource", resource), token: toSecret("token", token) };
  return { body, rest: toOptions(options, CALL_OPTIONS) };
}
function readAssignment(raw) {
  return {
    resource: textOf(raw, "resource"),
    claimant: textOf(raw, "claimant"),
    assignedAt: instantOf(raw, "assignedAt"),
    fencingToken: tokenOf(raw)
  };
}

// src/events.ts
var EVENTS_OPTIONS = {
  name: optional(toText),
  prefix: optional(toText),
  kind: optional(toKind),
  state: optional(toBoolean),
  lastEventId: optional(toText),
  signal: optional((field, value) => {
    if (isAbortSignal(value)) return value;
    throw broken(field, value, "an AbortSignal");
  })
};
var KINDS = ["web", "offline", "claim"];
function toKind(field, value) {
  const kind = KINDS.find((each) => each === value);
  if (kind !== void 0) return kind;
  throw broken(field, value, `one of ${KINDS.join(", ")}`);
}
var EMPTY_STREAMS = 5;
var GOOD_MS = 1e3;
var SILENCE_MS = 4e4;
async function* readEvents(caller, options) {
  const { signal } = options;
  const backoff = new Backoff();
  let last = options.lastEventId;
  let hasBegun = false;
  let emptyStreams = 0;
  for (; ; ) {
    let pauseMs = 0;
    try {
      const stream = await caller.open(pathOf(options, last), SILENCE_MS, signal);
      const since = performance.now();
      try {
        for await (const { id, type, data } of records(stream.chunks())) {
          const event = eventOf(type, id, data);
          hasBegun ||= id !== "" || data !== "";
          backoff.reset();
          if (id !== "") last = id;
          if (event) yield event;
        }
      } finally {
        stream.close();
      }
      const isEmpty = !hasBegun && performance.now() - since < GOOD_MS;
      if (isEmpty && ++emptyStreams === EMPTY_STREAMS) throw notLockhouse(200, "its streams of events bring none");
    } catch (error) {
      if (!(error instanceof ProblemError) || !isTemporary(error, caller, hasBegun)) throw error;
      pauseMs = error instanceof UnavailableError && error.retryAfterMs || 0;
    }
    await caller.pause(pauseMs + backoff.nextMs(), signal);
  }
}
function isTemporary(error, caller, hasBegun) {
  const { code, status } = error;
  if (code === NOT_LOCKHOUSE) return hasBegun;
  const isAway = error instanceof UnavailableError || error instanceof UnreachableError || status >= 502;
  return isAway || code === "quota_exceeded" || code === "unauthenticated" && caller.mayChangeKey;
}
function pathOf({ name, prefix, kind, state }, last) {
  const query = [];
  const put = (key, value) => {
    if (value !== void 0) query.push(`${key}=${checkedForUrl(key, value)}`);
  };
  put("name", name);
  put("prefix", prefix);
  put("kind", kind);
  if (last !== void 0) put("lastEventId", last);
  else if (state) put("state", "true");
  return query.length === 0 ? "events" : `events?${query.join("&")}`;
}
async function* records(chunks) {
  let rest = "";
  let record = { id: "", type: "", data: "" };
  let parts = [];
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "") {
        const part = record.type === "state" ? partOf(record.data) : void 0;
        if (part) parts = [...parts, ...part.entries];
        if (!part) yield record;
        else if (part.isLast) {
          yield { ...record, data: JSON.stringify({ entries: parts }) };
          parts = [];
        }
        record = { id: "", type: "", data: "" };
        continue;
      }
      const at = line.indexOf(":");
      const [field, text2] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
      if (field === "id") record.id = text2;
      else if (field === "event") record.type = text2;
      else if (field === "data") record.data += text2;
    }
  }
}
function partOf(data) {
  const { entries, last } = parsed(data);
  return { entries: entries ?? [], isLast: last === true };
}
function parsed(data) {
  return ofQuestion(() => {
    let object;
    try {
      object = JSON.parse(data);
    } catch {
      throw new TypeError("an event is no JSON");
    }
    if (typeof object !== "object" || object === null) throw new TypeError("an event is no object");
    return object;
  });
}
function eventOf(type, id, data) {
  if (data === "") return void 0;
  const raw = parsed(data);
  if (type === "gap") return { type };
  if (type === "state") return { type, id, entries: (raw.entries ?? []).map(entryOf) };
  if (!TYPES.has(type)) return void 0;
  return { ...withDates(raw, ["at", "since"]), type, id };
}
var TYPES = /* @__PURE__ */ new Set(["waiting", "granted", "ended", "refused", "assigned", "unassigned", "opened", "closed"]);
function entryOf(raw) {
  const there = Object.fromEntries(Object.entries(raw).filter(([, value]) => value !== null));
  return withDates(there, ["since", "expiresAt"]);
}
function withDates(raw, keys) {
  const dates = keys.map((key) => [key, instantIfAny(raw, key)]).filter(([, date]) => date !== void 0);
  return { ...raw, ...Object.fromEntries(dates) };
}

// src/request-all.ts
var UNAVAILABLE = /* @__PURE__ */ Symbol();
function toTargets(value) {
  const isIterable = typeof value === "object" && value !== null && Symbol.iterator in value;
  if (isIterable) return value;
  const message = `parameter 1 is ${shown(value)}, but it must be an iterable object of names, such as ["a", "b"].`;
  throw new TypeError(failureText("requestAll", message));
}
function convertTargets(targets, defaultMode) {
  const modes = /* @__PURE__ */ new Map();
  for (const target of targets) {
    const isRecord = typeof target === "object" && target !== null;
    const name = isRecord ? target.name : target;
    if (typeof name !== "string") {
      const rule = "a name, or an object with one as its name";
      throw new TypeError(failureText("requestAll", `a target is ${shown(target)}, but it must be ${rule}.`));
    }
    if (isRecord) checkNames(target, ["name", "mode"], failureText("requestAll", ""), "a member of a target");
    const mode = isRecord && target.mode !== void 0 ? toLockMode(target.mode, "requestAll") : defaultMode;
    if (modes.get(name) !== "exclusive") modes.set(name, mode);
  }
  return [...modes].map(([name, mode]) => ({ name, mode })).sort((a, b) => compareNames(a.name, b.name));
}
async function requestInOrder(agent, targets, options, callback) {
  const startedAt = performance.now();
  const holds = [];
  const loss = new AbortController();
  let running;
  let wrap = newHeldLock;
  const lost = new Promise((_, reject) => {
    const onloss = (error) => {
      reject(error);
      loss.abort(error);
      for (const hold of holds) hold.abort(error);
    };
    wrap = (hold) => {
      hold.onloss = onloss;
      holds.push(hold);
      return newHeldLock(hold);
    };
  });
  const callBack = () => {
    running = new Promise((resolve) => resolve(callback(holds.map(newHeldLock))));
    return running;
  };
  const step = (index) => {
    const target = targets[index];
    if (!target) return callBack();
    return agent.request({
      ...options,
      ...target,
      timeout: remaining(options.timeout, startedAt),
      loss: loss.signal,
      wrap,
      callback: (lock) => {
        if (!lock) return UNAVAILABLE;
        if (options.signal?.aborted && index + 1 < targets.length) throw options.signal.reason;
        return step(index + 1).finally(() => running?.catch(() => {
        }));
      }
    });
  };
  if (targets.length === 0) await agent.nextTurn();
  const result = await Promise.race([step(0), lost]);
  return result === UNAVAILABLE ? callback(null) : result;
}
function remaining(timeout, startedAt) {
  if (timeout === void 0) return void 0;
  const left = timeout - (performance.now() - startedAt);
  if (left > 0 || timeout === 0) return Math.max(0, left);
  throw domError("TimeoutError", `The locks were not all granted within ${timeout} ms.`);
}

// src/lock-manager.ts
var CONSTRUCT2 = /* @__PURE__ */ Symbol();
function construct2(type, source) {
  return new type(CONSTRUCT2, source);
}
var newLockManager = (source) => construct2(LockManager, source);
var newExtendedLockManager = (source) => construct2(ExtendedLockManager, source);
var sourceOf2;
var LockManager = class {
  #source;
  constructor(...internal) {
    if (internal[0] !== CONSTRUCT2) throw new TypeError(`Failed to construct '${new.target.name}': Illegal constructor`);
    this.#source = internal[1];
  }
  request(_name, _callbackOrOptions, ..._callback) {
    const passed = arguments;
    try {
      if (!(#source in this)) return ofOtherRealm(this, ownMethods.request, "request", passed);
      return admitted(this.#source, passed, this instanceof ExtendedLockManager ? newHeldLock : newLock);
    } catch (error) {
      return Promise.reject(error);
    }
  }
  /**
   * Takes a snapshot of what is held and what waits in this bucket. It may be out of date by the time it is
   * seen.
   */
  query() {
    try {
      if (!(#source in this)) return ofOtherRealm(this, ownMethods.query, "query", []);
      this.#source.admit();
      return this.#source.agent().query();
    } catch (error) {
      return Promise.reject(error);
    }
  }
  static {
    sourceOf2 = (manager) => manager.#source;
  }
};
var ownMethods = { request: LockManager.prototype.request, query: LockManager.prototype.query };
Object.defineProperties(LockManager.prototype, {
  query: { enumerable: true },
  request: { enumerable: true },
  [Symbol.toStringTag]: { value: "LockManager", configurable: true }
});
var ExtendedLockManager = class extends LockManager {
  acquire(...args) {
    return new Promise((resolve, reject) => {
      const source = sourceOf2(this);
      if (args.length < 1) throw tooFewArguments("acquire", 1, args.length);
      const name = toDOMString(args[0]);
      const options = toExtendedOptions(args[1], "acquire");
      let release = () => {
      };
      const held = new Promise((settle) => {
        release = settle;
      });
      const wrap = (hold) => newAcquiredLock(hold, release, () => released);
      const callback = (lock) => {
        resolve(lock);
        return lock ? held : void 0;
      };
      const released = send(source, "acquire", { ...options, name, callback, wrap });
      released.catch(reject);
    });
  }
  async requestAll(...args) {
    const source = sourceOf2(this);
    if (args.length < 2) throw tooFewArguments("requestAll", 2, args.length);
    const options = toExtendedOptions(args.length > 2 ? args[1] : void 0, "requestAll");
    const sorted = convertTargets(toTargets(args[0]), options.mode);
    const position = Math.min(args.length, 3);
    const callback = toCallback(args[position - 1], position, "requestAll");
    source.admit();
    for (const { name, mode } of sorted) checkRequest(name, { ...options, mode }, "requestAll");
    return requestInOrder(source.agent(), sorted, options, callback);
  }
};
repeatMembers(LockManager.prototype, ExtendedLockManager.prototype, ["query", "request"]);
function admitted(source, args, wrap) {
  if (args.length < 2) throw tooFewArguments("request", 2, args.length);
  const name = toDOMString(args[0]);
  const options = toLockOptions(args.length > 2 ? args[1] : void 0, "request");
  const position = Math.min(args.length, 3);
  const callback = toCallback(args[position - 1], position, "request");
  return send(source, "request", { ...options, name, callback, wrap });
}
function send(source, method, ask) {
  source.admit();
  checkRequest(ask.name, ask, method);
  return source.agent().request(ask);
}
function checkRequest(name, options, method) {
  const notSupported = (message) => domError("NotSupportedError", failureText(method, message));
  const { ifAvailable, steal, mode, signal } = options;
  if (isReserved(name)) throw notSupported("Names cannot start with '-'.");
  if (steal && ifAvailable) throw notSupported("The 'steal' and 'ifAvailable' options cannot be used together.");
  if (steal && mode !== "exclusive") throw notSupported("The 'steal' option may only be used with 'exclusive' locks.");
  if (signal && steal) throw notSupported("The 'signal' and 'steal' options cannot be used together.");
  if (signal && ifAvailable) throw notSupported("The 'signal' and 'ifAvailable' options cannot be used together.");
  if (signal?.aborted) throw signal.reason;
}

// src/records.ts
var KEY = { kind: toWellFormed, id: toWellFormed };
var GRANTED = ["intent", "name", "mode", "fencingToken", "how"];
var SENT = [...GRANTED, "owner", "label", "since", "expiresAt", "metadata"];
var toTargets2 = toList({ ...KEY, intent: toWellFormed }, GRANTED);
var toGrants = toList({ ...KEY, fencingToken: optional(toInteger) }, SENT);
function toReleases(field, value) {
  const isList = typeof value === "object" && value !== null && Symbol.iterator in value;
  return toGrants(field, isList ? Array.from(value).filter(needsLock) : value);
}
function needsLock(grant) {
  return grant?.how !== "notNeeded";
}
var toKeys = toList(KEY, SENT);
var MODES = ["exclusive", "shared"];
function readLock(raw) {
  const expiresAt = instantIfAny(raw, "expiresAt");
  return {
    kind: textOf(raw, "kind"),
    id: textOf(raw, "id"),
    name: textOf(raw, "name"),
    mode: wordOf(raw, "mode", MODES),
    owner: textOf(raw, "owner"),
    label: textOf(raw, "label"),
    since: instantOf(raw, "since"),
    fencingToken: tokenOf(raw),
    ...expiresAt && { expiresAt },
    ...typeof raw.metadata === "string" && { metadata: raw.metadata }
  };
}
function readGrant(raw) {
  return {
    kind: textOf(raw, "kind"),
    id: textOf(raw, "id"),
    intent: wordOf(raw, "intent", ["read", "write"]),
    name: textOf(raw, "name"),
    mode: raw.mode == null ? null : wordOf(raw, "mode", MODES),
    fencingToken: raw.fencingToken == null ? null : tokenOf(raw),
    how: wordOf(raw, "how", ["fresh", "upgraded", "alreadyHeld", "notNeeded"])
  };
}

// src/owner.ts
var RELEASE = { holding: optional(toReleases), ...CALL_OPTIONS };
var RELEASE_ALL = { sparing: optional(toKeys), ...RELEASE };
var LOCK = { metadata: optional(toWellFormed), ...CALL_OPTIONS };
var BEATS = 3;
var BEAT_TIMEOUT_MS = 1e4;
var Owner = class {
  #caller;
  #facts;
  #beats;
  #backoff = new Backoff();
  #controller = new AbortController();
  /** When the latest call was sent that has succeeded. */
  #renewedAt;
  #expiresAt;
  /** By the monotonic clock. */
  #nextBeatMs;
  #timer;
  #forgetClient;
  /** Why no more calls are made, once none are. */
  #why;
  /** @internal */
  constructor(caller, facts, beats) {
    this.#caller = caller;
    this.#facts = facts;
    this.#beats = beats;
    this.#renewedAt = facts.countsFrom;
    this.#expiresAt = facts.expiresAt;
    this.#nextBeatMs = performance.now() + facts.ttlMs / BEATS;
    if (caller.closed.aborted) {
      this.#lose(caller.closed.reason);
      return;
    }
    this.#forgetClient = addAbortAlgorithm(caller.closed, () => this.#lose(caller.closed.reason));
    this.#schedule();
  }
  get id() {
    return this.#facts.id;
  }
  /**
   * What every call of this owner proves itself by. Who has it can release the owner's locks: keep it from
   * logs and from other users.
   */
  get secret() {
    return this.#facts.secret;
  }
  get label() {
    return this.#facts.label;
  }
  get ttlMs() {
    return this.#facts.ttlMs;
  }
  /** When the owner ends unless it is renewed, by the server's clock. */
  get expiresAt() {
    return new Date(this.#expiresAt);
  }
  /**
   * Aborts when the locks can no longer be relied on: with an UnknownOwnerError if the server says so or the
   * owner's own deadline, its TTL less 10 %, has passed, or with the AbortError of a closed client.
   * {@link end} does not abort it.
   */
  get signal() {
    this.#isOver();
    return this.#controller.signal;
  }
  /**
   * Locks all of these records, at most 60, or none. What the owner holds already stays as it is; its own
   * read lock becomes a write lock if it is the only reader. Nothing waits.
   *
   * Rejects with a LockedError if others hold one of them, and if the timeout did not suffice with a
   * RecoveringError or UnavailableError, or an OutcomeUnknownError where it may have happened.
   */
  async lock(targets, options = {}) {
    const locks = toTargets2("locks", targets);
    const { metadata, ...rest } = toOptions(options, LOCK);
    const body = { owner: this.id, locks, metadata };
    return this.#call({ method: "POST", path: "locks", body, again: "withKey" }, rest, (answer) => {
      const grants = listOf(answer.body, "locks").map(readGrant);
      const areThose = grants.length === locks.length && grants.every(({ kind, id }, i) => kind === locks[i]?.kind && id === locks[i]?.id);
      if (!areThose) throw unusable("locks");
      return grants;
    });
  }
  /**
   * Releases these locks, at most 1000; what is not held, or not by this grant, is passed over. Resolves to
   * how many were released.
   *
   * If an answer is lost, the call is made again if all of these have tokens, and what is gone by then counts
   * as released. Without them it rejects with an OutcomeUnknownError, as the next attempt could release what
   * another step of the owner has locked again. Rejects with a LocksLostError if the owner does not hold all
   * that is in `holding`.
   */
  async unlock(targets, options = {}) {
    const locks = toReleases("locks", targets);
    const { holding, ...rest } = toOptions(options, RELEASE);
    if (locks.length === 0 && holding === void 0) return 0;
    const body = { owner: this.id, locks, holding };
    const again = locks.every(({ fencingToken }) => fencingToken !== void 0) ? "withKey" : "never";
    return this.#call({ method: "POST", path: "locks/release", body, again }, rest, (answer) => {
      const released = countOf(answer.body, "released");
      return answer.isRepeated ? locks.length : released;
    });
  }
  /**
   * Releases all locks of the owner but those that are spared. Resolves to how many were released. Rejects as
   * {@link unlock} does for locks without tokens.
   */
  async unlockAll(options = {}) {
    const { sparing, holding, ...rest } = toOptions(options, RELEASE_ALL);
    const isAll = sparing === void 0 || sparing.length === 0;
    const body = { owner: this.id, all: true, sparing: isAll ? void 0 : sparing, holding };
    const call = { method: "POST", path: "locks/release", body, again: "never" };
    return this.#call(call, rest, (answer) => countOf(answer.body, "released"));
  }
  /** The locks that the owner holds now. */
  async locks(options = {}) {
    const call = { method: "GET", path: this.#path, again: "harmless" };
    return this.#call(call, toOptions(options, CALL_OPTIONS), ({ body }) => listOf(body, "locks").map(readLock));
  }
  /**
   * Notifies the server now that this owner lives on. Heartbeats do so by themselves unless they were
   * declined.
   */
  async heartbeat(options = {}) {
    const call = { method: "POST", path: `${this.#path}/heartbeat`, again: "harmless" };
    await this.#call(call, toOptions(options, CALL_OPTIONS), (answer) => instantOf(answer.body, "expiresAt"));
  }
  /**
   * Ends the owner and releases all its locks. Resolves also if it has ended already. Nothing more can be
   * done with this object, even if the call fails; then the server ends the owner by its TTL. An option that
   * is refused, or a signal that is aborted already, ends nothing.
   */
  async end(options = {}) {
    const checked = toOptions(options, CALL_OPTIONS);
    checked.signal?.throwIfAborted();
    this.#stop(new UnknownOwnerError("unknown_owner", 0, "The owner was ended."));
    try {
      const call = { method: "DELETE", path: this.#path, secret: this.secret, again: "harmless" };
      const answer = await this.#caller.call(call, checked);
      ofChange(() => {
        if (answer.status !== 204) throw unusable("the end of the owner");
      });
    } catch (error) {
      if (!(error instanceof UnknownOwnerError)) throw error;
    }
  }
  get #path() {
    return `owners/${encodeURIComponent(this.id)}`;
  }
  /** Makes a call, and reads its answer: one that is not as promised has renewed nothing. */
  async #call(call, options, read) {
    if (this.#isOver()) throw this.#why;
    try {
      const answer = await this.#caller.call({ ...call, secret: this.secret }, options);
      const reading = call.method === "GET" ? ofQuestion : ofChange;
      const result = reading(() => {
        const result2 = read(answer);
        this.#renewed(answer);
        return result2;
      });
      if (this.#isOver()) throw this.#why;
      return result;
    } catch (error) {
      if (error instanceof UnknownOwnerError) this.#lose(error);
      throw error;
    }
  }
  /**
   * Every success has renewed the owner. An answer may repeat that of an earlier attempt, so what counts is
   * when the first of them was sent.
   */
  #renewed({ body, sentAt }) {
    const agoMs = elapsedMs(this.#renewedAt);
    const laterMs = agoMs - elapsedMs(sentAt);
    if (laterMs < 0) return;
    const expiresAt = instantIfAny(body, "expiresAt");
    this.#renewedAt = sentAt;
    this.#expiresAt = expiresAt ?? new Date(this.#expiresAt.getTime() + laterMs);
    const { endsAt } = this.#facts;
    if (endsAt && this.#expiresAt > endsAt) this.#expiresAt = endsAt;
  }
  /** Whether no more calls are to be made; ends the owner here if its deadline has passed. */
  #isOver() {
    if (!this.#why && this.#remainingMs() <= 0) {
      this.#lose(new UnknownOwnerError("unknown_owner", 0, "The owner was not renewed in time."));
    }
    return this.#why !== void 0;
  }
  #remainingMs() {
    const untilExpiry = this.#facts.ttlMs * SAFETY - elapsedMs(this.#renewedAt);
    return Math.min(untilExpiry, this.#facts.longestMs - elapsedMs(this.#facts.countsFrom));
  }
  #lose(why) {
    if (this.#why) return;
    this.#stop(why);
    this.#controller.abort(why);
  }
  #stop(why) {
    this.#why ??= why;
    clearTimeout(this.#timer);
    this.#forgetClient?.();
  }
  /** Looks again at the deadline or when a heartbeat is due; one timer for both. */
  #schedule() {
    clearTimeout(this.#timer);
    if (this.#why) return;
    const beatMs = this.#beats ? this.#nextBeatMs - performance.now() : Infinity;
    const nextMs = Math.min(this.#remainingMs(), beatMs);
    this.#timer = setQuietTimeout(() => this.#look(), Math.max(1, nextMs));
  }
  #look() {
    if (this.#isOver()) return;
    if (this.#beats && performance.now() >= this.#nextBeatMs) this.#beat();
    this.#schedule();
  }
  /** Renews the owner unless another call has done so of late. What fails is tried again until the deadline. */
  #beat() {
    const intervalMs = this.#facts.ttlMs / BEATS;
    const dueMs = intervalMs - elapsedMs(this.#renewedAt);
    if (dueMs > 0) {
      this.#nextBeatMs = performance.now() + dueMs;
      return;
    }
    this.#nextBeatMs = Infinity;
    const next = (pauseMs) => {
      this.#nextBeatMs = performance.now() + pauseMs;
      this.#schedule();
    };
    this.heartbeat({ timeout: BEAT_TIMEOUT_MS }).then(
      () => {
        this.#backoff.reset();
        next(intervalMs);
      },
      () => next(Math.min(intervalMs, this.#backoff.nextMs()))
    );
  }
};

// src/offline.ts
var LOCKS = {
  kind: optional(toText),
  owner: optional(toText),
  prefix: optional(toText),
  ...CALL_OPTIONS
};
var RESUME = { heartbeats: optional(toBoolean), ...CALL_OPTIONS };
var OPEN = {
  label: toWellFormed,
  ttlMs: optional(toNumber),
  maxMs: optional(toNumber),
  metadata: optional(toWellFormed),
  ...RESUME
};
var Offline = class {
  #caller;
  /** @internal */
  constructor(caller) {
    this.#caller = caller;
  }
  /**
   * Begins an owner of locks, such as a user's session. Keep its `id` and `secret` to {@link resume} it.
   *
   * Rejects with a TypeError for an option that is not understood, as all of these methods do, or with a
   * {@link ProblemError}: of class InvalidError for an option that breaks a rule of the server,
   * UnavailableError or UnreachableError if the timeout did not suffice, or OutcomeUnknownError where it may
   * have happened.
   */
  async open(options) {
    const { label, ttlMs, maxMs, metadata, heartbeats = true, ...rest } = toOptions(options, OPEN);
    const call = { method: "POST", path: "owners", body: { label, ttlMs, maxMs, metadata }, again: "withKey" };
    const { body, sentAt } = await this.#caller.call(call, rest);
    const facts = ofChange(() => {
      const identity = { id: textOf(body, "owner"), secret: secretOf(body, "ownerSecret") };
      return { ...identity, ...factsOf(body), longestMs: maxMs ?? Infinity, countsFrom: sentAt };
    });
    return new Owner(this.#caller, facts, heartbeats);
  }
  /**
   * Takes up an owner again, such as after a reload of the page. Its locks are as they were: see
   * {@link Owner.locks}.
   *
   * Rejects with an UnknownOwnerError if it has ended, or an UnauthorizedError if the secret is not its.
   */
  async resume(id, secret, options = {}) {
    const path = `owners/${toOwnerId("id", id)}`;
    toSecret("secret", secret);
    const { heartbeats = true, ...rest } = toOptions(options, RESUME);
    const beat = { method: "POST", path: `${path}/heartbeat`, secret, again: "harmless" };
    const { body: beaten, sentAt } = await this.#caller.call(beat, rest);
    ofChange(() => instantOf(beaten, "expiresAt"));
    const { body } = await this.#caller.call({ method: "GET", path, secret, again: "harmless" }, rest);
    const facts = ofQuestion(() => {
      return { id, secret, ...factsOf(body), longestMs: longestMs(body, sentAt), countsFrom: sentAt };
    });
    return new Owner(this.#caller, facts, heartbeats);
  }
  /**
   * The offline locks of the bucket, of all owners, in the order of their names. They are fetched page
   * by page, so that together they are no consistent cut: use them to show who edits what, and decide nothing
   * by them.
   */
  async *locks(options = {}) {
    const { kind, owner, prefix, ...rest } = toOptions(options, LOCKS);
    const filter = Object.entries({ kind, owner, prefix }).flatMap(
      ([key, value]) => value === void 0 ? [] : [`${key}=${checkedForUrl(key, value)}`]
    );
    let cursor;
    do {
      const query = cursor === void 0 ? filter : [...filter, `cursor=${encodeURIComponent(cursor)}`];
      const path = query.length === 0 ? "locks" : `locks?${query.join("&")}`;
      const { body } = await this.#caller.call({ method: "GET", path, again: "harmless" }, rest);
      const page = ofQuestion(() => {
        const next = body.next == null ? void 0 : textOf(body, "next");
        return { locks: listOf(body, "locks").map(readLock), next };
      });
      yield* page.locks;
      cursor = page.next;
    } while (cursor !== void 0);
  }
};
function toOwnerId(field, value) {
  const id = toText(field, value);
  if (/^\d{1,16}$/.test(id)) return id;
  throw broken(field, id, "an id of 1 to 16 digits");
}
function factsOf(body) {
  return {
    label: textOf(body, "label"),
    ttlMs: countOf(body, "ttlMs"),
    expiresAt: instantOf(body, "expiresAt"),
    endsAt: instantIfAny(body, "endsAt")
  };
}
function longestMs(body, sentAt) {
  const endsAt = instantIfAny(body, "endsAt");
  if (!endsAt) return Infinity;
  const beyondTtlMs = endsAt.getTime() - instantOf(body, "expiresAt").getTime();
  return beyondTtlMs > 0 ? beyondTtlMs + countOf(body, "ttlMs") : endsAt.getTime() - sentAt.wallMs;
}

// src/bucket.ts
var IDLE_MS = 3e4;
var ConnectedBucket = class {
  name;
  source = { admit: () => this.#admit(), agent: () => this.agent() };
  locks = newExtendedLockManager(this.source);
  offline;
  claims;
  #caller;
  #host;
  #idleMs;
  #closing = new AbortController();
  #agent;
  /** Lets the process end, which is kept for what is held or pending. */
  #letGo;
  #idleTimer;
  /** A bucket that is connected for good has the `idleMs` Infinity. */
  constructor(name, host, idleMs) {
    this.name = name;
    this.#host = host;
    this.#idleMs = idleMs;
    const caller = host.caller(name, this.source.admit, this.#closing.signal);
    this.#caller = caller;
    this.offline = new Offline(caller);
    this.claims = new Claims(caller);
  }
  events(options = {}) {
    return readEvents(this.#caller, toOptions(options, EVENTS_OPTIONS));
  }
  /** The agent, which is connected if there is none. */
  agent() {
    if (!this.#agent) {
      this.#agent = this.#host.connect(this.name, (isBusy) => this.#watch(isBusy));
      this.#watch(false);
    }
    return this.#agent;
  }
  /** The agent if there is one. */
  get connected() {
    return this.#agent;
  }
  close() {
    if (this.#closing.signal.aborted) return;
    clearTimeout(this.#idleTimer);
    this.#agent?.close();
    this.#closing.abort(clientClosed());
    this.#host.forget(this.name);
  }
  #admit() {
    this.#host.admit();
    if (this.#closing.signal.aborted) throw domError("InvalidStateError", "The bucket is closed.");
  }
  #watch(isBusy) {
    clearTimeout(this.#idleTimer);
    this.#letGo?.();
    this.#letGo = isBusy ? keepAlive() : void 0;
    if (isBusy || this.#idleMs === Infinity) return;
    this.#idleTimer = setQuietTimeout(() => {
      this.#agent?.close();
      this.#agent = void 0;
    }, this.#idleMs);
  }
};

// src/dialer.ts
var FIRST_PATIENCE_MS = 2e3;
var CLOSE_FULL = 1013;
var LONGEST_NAMED_MS = 5e3;
var Dialer = class {
  #endpoints;
  #open;
  #backoff = new Backoff();
  /** The pause that the server has named for the next round. */
  #namedMs = 0;
  #latest;
  /** The error of the latest connection, as the platform reports it. Browsers report none. */
  #error = "";
  #trouble;
  /** The attempts that are left of this round. */
  #left = 0;
  /** The rounds since there was a connection, with this one. */
  #rounds = 0;
  /** `open` throws what the constructor of a WebSocket throws. */
  constructor(endpoints, open) {
    this.#endpoints = endpoints;
    this.#open = open;
    this.#latest = endpoints.current;
  }
  /** Begins a connection. */
  dial = () => {
    if (this.#left === 0) {
      this.#left = this.#endpoints.all.length;
      this.#rounds += 1;
    }
    this.#left -= 1;
    this.#error = "";
    this.#latest = this.#endpoints.current;
    return this.#open(this.#latest);
  };
  /** The latest connection has an error, which comes before its close. */
  erred = ({ message }) => {
    if (typeof message === "string") this.#error = message;
  };
  /** The close of the latest connection, with its error. `fatal` is what the server has said before. */
  explained(code, reason, fatal) {
    const words = code === CLOSE_FULL ? `the server takes no more sessions now: ${reason}` : fatal;
    const close = `close code ${code}${words && `, ${words}`}`;
    return this.#error === "" ? close : `${this.#error}, ${close}`;
  }
  /** The latest attempt is of no use, or its connection has broken: the next one goes elsewhere. */
  failed(why) {
    if (why !== void 0) this.#trouble = `cannot connect to ${this.#endpoints} (${why})`;
    this.#endpoints.failed(this.#latest);
  }
  /** Why there is no connection; undefined while there is one, and before the first attempt has failed. */
  get trouble() {
    return this.#trouble;
  }
  /** The server is about to close the connection, and may name the pause before the next one. */
  closing(frame) {
    this.#namedMs = Math.min(readPauseMs(frame), LONGEST_NAMED_MS);
  }
  /** There is a connection. Once it breaks, a pause comes first, so that a crowd does not move as one. */
  connected() {
    this.#trouble = void 0;
    this.#left = 0;
    this.#rounds = 0;
  }
  /** The connection has proved good. */
  proved() {
    this.#backoff.reset();
  }
  /** Whether the next attempt begins a round. */
  get isRoundOver() {
    return this.#left === 0;
  }
  /** Milliseconds to wait before the next attempt. */
  pauseMs(urgentMs) {
    if (!this.isRoundOver) return 0;
    const namedMs = Math.min(this.#namedMs, urgentMs ?? this.#namedMs);
    this.#namedMs = 0;
    return Math.max(namedMs, this.#backoff.nextMs(urgentMs));
  }
  /** Milliseconds after which the latest attempt, from the dial to the welcome, is given up. */
  patienceMs(urgentMs) {
    const isOnly = this.#endpoints.all.length === 1;
    const firstMs = urgentMs ?? (isOnly ? DIAL_TIMEOUT_MS : FIRST_PATIENCE_MS);
    return Math.min(DIAL_TIMEOUT_MS, firstMs * 2 ** (this.#rounds - 1));
  }
};

// src/endpoints.ts
var Endpoints = class {
  all;
  #index = 0;
  /** At least one. */
  constructor(all) {
    const drawn = all.map((endpoint) => ({ endpoint, place: Math.random() }));
    this.all = drawn.sort((a, b) => a.place - b.place).map(({ endpoint }) => endpoint);
  }
  /** The one to be used now. */
  get current() {
    return this.all[this.#index];
  }
  /** This one did not answer: the next is used, unless another use has turned away from it already. */
  failed(endpoint) {
    if (endpoint === this.current) this.#index = (this.#index + 1) % this.all.length;
  }
  /** All of them for people to read, without the query, which may hold what is private. */
  toString() {
    return this.all.map(({ url }) => `${url.origin}${url.pathname}`).join(" or ");
  }
};

// src/environment.ts
var scope = globalThis;
var ownDocument = scope.document;
var sleepers = /* @__PURE__ */ new Set();
var isHidden = false;
var storageDenied;
function checkEnvironment() {
  if (!isFullyActive()) throw domError("InvalidStateError", "The document is not fully active.");
  if (isStorageDenied()) throw domError("SecurityError", "Access to the Locks API is denied in this context.");
}
function isSecure() {
  return scope.isSecureContext !== false;
}
function isStorageDenied() {
  storageDenied ??= scope.origin === "null" || ownDocument !== void 0 && throwsOnStorage();
  return storageDenied;
}
function watchLifecycle(sleeper) {
  if (ownDocument && sleepers.size === 0) {
    globalThis.addEventListener("pagehide", onPageHide);
    globalThis.addEventListener("pageshow", onPageShow);
  }
  sleepers.add(sleeper);
  return () => sleepers.delete(sleeper);
}
function isFullyActive() {
  return ownDocument === void 0 || ownDocument.defaultView !== null && !isHidden;
}
function throwsOnStorage() {
  try {
    return scope.localStorage === null;
  } catch {
    return true;
  }
}
function onPageHide() {
  isHidden = true;
  for (const sleeper of [...sleepers]) sleeper.sleep();
}
function onPageShow() {
  isHidden = false;
  for (const sleeper of [...sleepers]) sleeper.wake();
}

// src/connect.ts
var OPTIONS = {
  bucket: optional(toBucket),
  clientId: optional(fitting),
  partition: optional(toPartition),
  key: optional(toKey),
  WebSocket: optional(toFunction),
  fetch: optional(toFunction),
  onstate: toListener
};
function toListener(field, value) {
  return value === void 0 || value === null ? null : toFunction(field, value);
}
var contextId;
function connect(url, options = {}) {
  return new LockhouseClient(url, options);
}
var LockhouseClient = class {
  name;
  partition;
  locks;
  offline;
  claims;
  #endpoints;
  #clientId;
  #WebSocket;
  #fetch;
  #keys;
  #own;
  /** All that are not closed, by name. */
  #buckets = /* @__PURE__ */ new Map();
  /** What ends each adoption. */
  #adoptions = /* @__PURE__ */ new Set();
  #unwatch = () => {
  };
  #onstate;
  #state = "connecting";
  #hasWarned = false;
  constructor(url, options) {
    const given = toOptions(options, OPTIONS);
    const endpoints = readEndpoints(url, given);
    const server = endpoints[0].url;
    this.name = given.bucket ?? toBucket("bucket", bucketOf(server));
    this.partition = given.partition ?? toPartition("partition", server.searchParams.get("partition") ?? currentPartition());
    const scope2 = { bucket: this.name, partition: this.partition };
    this.#endpoints = new Endpoints(endpoints.map((each) => ({ ...each, url: scoped(each.url, scope2) })));
    this.#onstate = given.onstate;
    this.#clientId = given.clientId ?? ownContextId();
    this.#WebSocket = given.WebSocket ?? globalThis.WebSocket;
    this.#keys = new Keys(given.key);
    this.#fetch = given.fetch ?? globalThis.fetch;
    this.#own = this.#bucket(this.name);
    ({ locks: this.locks, offline: this.offline, claims: this.claims } = this.#own);
    if (isStorageDenied() || !isSecure()) {
      this.#state = "closed";
      queueMicrotask(() => this.#announce("closed"));
      return;
    }
    if (!this.#WebSocket) {
      throw new TypeError(
        "WebSocket: this platform has none, so the option must give a constructor, such as that of ws"
      );
    }
    this.#own.agent();
    this.#unwatch = watchLifecycle({ sleep: () => this.#sleep(), wake: () => this.#wake() });
    queueMicrotask(() => this.#state === "connecting" && this.#announce("connecting"));
  }
  get state() {
    return this.#state;
  }
  get onstate() {
    return this.#onstate;
  }
  set onstate(listener) {
    this.#onstate = toListener("onstate", listener);
  }
  events(options = {}) {
    return this.#own.events(options);
  }
  bucket(name) {
    const bucket = this.#bucket(name);
    return bucket === this.#own ? this : bucket;
  }
  /** Where the calls of a manager for this bucket go. Throws a TypeError for a name that is too long. */
  source(bucket) {
    return this.#bucket(bucket).source;
  }
  adopt(worker) {
    if (!threads) return;
    if (typeof worker?.once !== "function" || !Number.isInteger(worker.threadId)) {
      throw broken("worker", worker, "a Worker of node:worker_threads");
    }
    this.#admit();
    const stop = watchSessions(worker, (url, identity) => {
      this.#adoptions.delete(stop);
      const { origin, pathname, search } = new URL(url);
      const isOurs = this.#endpoints.all.some((each) => each.url.origin === origin && each.url.pathname === pathname);
      if (!isOurs) return;
      const { current } = this.#endpoints;
      sayGoodbye(() => this.#dial(new URL(search, current.url)), this.#keys, identity);
    });
    this.#adoptions.add(stop);
  }
  close() {
    if (this.#state === "closed") return;
    this.#unwatch();
    for (const stop of this.#adoptions) stop();
    this.#state = "closed";
    for (const bucket of [...this.#buckets.values()]) bucket.close();
    this.#announce("closed");
  }
  #bucket(name) {
    const existing = this.#buckets.get(name);
    if (existing) return existing;
    toBucket("bucket", name);
    const host = {
      admit: () => this.#admit(),
      connect: this.#connect.bind(this),
      caller: (bucket2, admit, closed) => new Caller(this.#endpoints, bucket2, this.#fetch, this.#keys, admit, closed),
      forget: (bucket2) => this.#buckets.delete(bucket2)
    };
    const bucket = new ConnectedBucket(name, host, name === this.name ? Infinity : IDLE_MS);
    this.#buckets.set(name, bucket);
    return bucket;
  }
  #admit() {
    checkEnvironment();
    if (!isSecure()) throw domError("SecurityError", "Locks are to be had in secure contexts only.");
    if (this.#state === "closed") throw this.#closedError();
  }
  /** A client that was denied says so for as long as it is asked. */
  #closedError() {
    const { session } = this.#own.connected ?? {};
    return session?.closedError ?? domError("InvalidStateError", "The lockhouse client is closed.");
  }
  #connect(bucket, onbusy) {
    const dialer = new Dialer(this.#endpoints, ({ url }) => this.#dial(scoped(url, { bucket })));
    const agent = new Agent(this.#clientId, dialer, this.#keys, {
      identified: announceSessions(scoped(this.#endpoints.current.url, { bucket }).href),
      stateChanged: bucket === this.name ? (state) => this.#setState(state) : () => {
      },
      unreachable: (why, isLast) => this.#warn(why, isLast),
      busyChanged: onbusy
    });
    agent.session.open();
    return agent;
  }
  #dial(url) {
    const WebSocket = this.#WebSocket;
    return unreferenced(new WebSocket(url.href, SUBPROTOCOL));
  }
  #setState(state) {
    if (this.#state === "closed" || this.#state === state) return;
    if (state === "closed") {
      this.close();
      return;
    }
    this.#state = state;
    this.#announce(state);
  }
  /** Says once that the server may not be where the URL says. */
  #warn(why, isLast) {
    if (this.#hasWarned || this.#state !== "connecting") return;
    this.#hasWarned = true;
    console.warn(`lockhouse: cannot connect to ${this.#endpoints} (${why})${isLast ? "" : "; trying again"}`);
  }
  /** Calls the user's listener, whose errors are its own: the session goes on. */
  #announce(state) {
    try {
      this.#onstate?.call(this, state);
    } catch (error) {
      reportException(error);
    }
  }
  #sleep() {
    for (const { connected } of this.#buckets.values()) connected?.session.sleep();
  }
  #wake() {
    for (const { connected } of this.#buckets.values()) connected?.session.wake();
  }
};
function ownContextId() {
  contextId ??= randomId();
  return contextId;
}

// src/storage-buckets.ts
function installStorageBuckets(client) {
  const { StorageBucket } = globalThis;
  if (!StorageBucket) return;
  const managers = /* @__PURE__ */ new WeakMap();
  const checkBrand = brandCheck(StorageBucket.prototype, "name");
  defineAccessor(StorageBucket.prototype, "locks", function() {
    checkBrand(this);
    const bucket = this;
    const existing = managers.get(bucket);
    if (existing) return existing;
    const locks = newLockManager(client.source(serverBucket(client.name, bucket.name)));
    managers.set(bucket, locks);
    return locks;
  });
}
function serverBucket(base, name) {
  return `storage-bucket/${base}/${name}`;
}

// src/install.ts
function install(url, options = {}) {
  const client = new LockhouseClient(url, options);
  if (!isSecure()) return client;
  defineGlobal("LockManager", LockManager);
  defineGlobal("Lock", Lock);
  const locks = newLockManager(client.source(client.name));
  const prototype = navigatorPrototype();
  const own2 = globalThis.navigator;
  const checkBrand = brandCheck(prototype);
  defineAccessor(prototype, "locks", function() {
    checkBrand(this);
    return this === own2 ? locks : this.locks;
  });
  installStorageBuckets(client);
  return client;
}
function navigatorPrototype() {
  const scope2 = globalThis;
  const Platform = scope2.Navigator ?? scope2.WorkerNavigator ?? defineNavigator();
  return Platform.prototype;
}
function defineNavigator() {
  class Navigator {
  }
  Object.defineProperty(Navigator.prototype, Symbol.toStringTag, { value: "Navigator", configurable: true });
  defineGlobal("Navigator", Navigator);
  defineGlobal("navigator", new Navigator());
  return Navigator;
}
export {
  AcquiredLock,
  AlreadyAssignedError,
  BusyError,
  ClaimExpiredError,
  ClaimLostError,
  ClaimedError,
  ExtendedLockManager,
  HeldLock,
  InvalidError,
  Lock,
  LockManager,
  LockedError,
  LocksLostError,
  OutcomeUnknownError,
  ProblemError,
  RecoveringError,
  UnauthorizedError,
  UnavailableError,
  UnknownOwnerError,
  UnreachableError,
  connect,
  currentPartition,
  heldLock,
  install
};
