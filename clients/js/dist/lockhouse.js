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
  let body = `{"type":"request","id":${id},"agent":${agent},"name":${JSON.stringify(fields.name)}`;
  if (fields.mode === "shared") body += ',"mode":"shared"';
  if (fields.ifAvailable) body += ',"ifAvailable":true';
  if (fields.steal) body += ',"steal":true';
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
var ACK_BODY = '{"type":"ack"';
function frameTail(seq, ack) {
  return seq > 0 ? `,"seq":${seq},"ack":${ack}}` : `,"ack":${ack}}`;
}

// src/errors.ts
var { DOMException } = globalThis;
var LOSS_MESSAGES = {
  stolen: "Lock broken by another request with the 'steal' option.",
  expired: "The lock expired: its maxHold or the lease of its client has run out.",
  terminated: "The lock ended with the session or the agent that held it.",
  broken: "The lock was broken by an operator."
};
function lockLost(reason) {
  return decorated(new DOMException(LOSS_MESSAGES[reason], "AbortError"), "reason", reason);
}
function domError(name, message) {
  return new DOMException(message, name);
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
  "closing",
  "internal"
]);
var ProtocolError = class extends Error {
  name = "ProtocolError";
};
function parseFrame(data) {
  if (typeof data !== "string") throw new ProtocolError("a message that is not text");
  let frame;
  try {
    frame = JSON.parse(data);
  } catch {
    throw new ProtocolError("a message that is not JSON");
  }
  if (typeof frame !== "object" || frame === null || Array.isArray(frame)) throw new ProtocolError("not a JSON object");
  return frame;
}
function readWelcome(frame) {
  const limits = frame.limits;
  const frameBytes = typeof limits === "object" && limits !== null ? limits.frameBytes : void 0;
  return {
    type: "welcome",
    session: text(frame, "session"),
    secret: text(frame, "secret"),
    resumed: flag(frame, "resumed"),
    received: count(frame, "received"),
    leaseMs: positive(frame, "leaseMs"),
    heartbeatMs: positive(frame, "heartbeatMs"),
    frameBytes: typeof frameBytes === "number" ? frameBytes : 65536
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
      return { type: "granted", id: positive(frame, "id"), token: count(frame, "token") };
    case "refused":
    case "released":
      return { type: frame.type, id: positive(frame, "id") };
    case "lost":
      return { type: "lost", id: positive(frame, "id"), reason: lossReason(frame) };
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
  const { field, value, rule } = frame;
  const code = text(frame, "code");
  const detail = {
    code: KNOWN_CODES.has(code) ? code : "internal",
    ...typeof field === "string" && { field },
    ...typeof value === "string" && { value },
    ...typeof rule === "string" && { rule }
  };
  const message = typeof frame.message === "string" ? frame.message : detail.code;
  return { type: "error", id: frame.id == null ? 0 : positive(frame, "id"), detail, message };
}
function infos(frame, field) {
  const list = frame[field];
  if (!Array.isArray(list)) throw wrong(frame, field);
  return list.map((entry) => {
    const info = typeof entry === "object" ? entry : null;
    const mode = info?.mode;
    if (!info || !isMode(mode)) throw wrong(frame, field);
    return { clientId: text(info, "clientId"), mode, name: text(info, "name") };
  });
}
function isMode(value) {
  return value === "exclusive" || value === "shared";
}
function lossReason(frame) {
  const { reason } = frame;
  if (reason === "stolen" || reason === "expired" || reason === "broken") return reason;
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
async function ofOtherRealm(object, own, method, args) {
  const theirs = Object.getPrototypeOf(Object(object))?.[method];
  const isTwin = typeof theirs === "function" && theirs !== own && sourceOf(theirs) === sourceOf(own);
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
  #token;
  #checkLease;
  #loss;
  #controller;
  constructor(name, mode, token, checkLease) {
    this.name = name;
    this.mode = mode;
    this.#token = token;
    this.#checkLease = checkLease;
  }
  /** The error of the loss, once the lock is lost. */
  get loss() {
    return this.#loss;
  }
  get token() {
    this.#checkLease();
    if (this.#loss) throw this.#loss;
    return this.#token;
  }
  get signal() {
    this.#controller ??= new AbortController();
    if (this.#loss && !this.#controller.signal.aborted) this.#controller.abort(this.#loss);
    return this.#controller.signal;
  }
  /** Notes the loss, and returns its error. Nobody is told yet. */
  lose(reason) {
    this.#loss = lockLost(reason);
    return this.#loss;
  }
  /** Aborts the signal, whose listeners run at once. */
  announceLoss() {
    this.#controller?.abort(this.#loss);
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
      if (typeof lock !== "object" || lock === null || !(#hold in lock))
        throw new TypeError("lock: not a Lock of lockhouse");
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
  /** Aborts when the lock is lost; its reason is a {@link LockLostError}, whose `reason` says how. A release does not abort it. */
  get signal() {
    return this.#hold.signal;
  }
  /**
   * An integer that strictly grows over the grants of the bucket, to be presented with every write to the guarded resource, which
   * refuses lower ones. Throws the {@link LockLostError} once the lock is lost.
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
  /** Releases the lock. Resolves once the release is sent; rejects with the {@link LockLostError} if the lock was lost before. */
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

// src/backoff.ts
var FIRST_MS = 100;
var LONGEST_MS = 5e3;
var Backoff = class {
  #attempts = 0;
  /** Milliseconds to wait before the next attempt: half to the whole of a span that doubles up to 5 s. */
  nextMs() {
    const span = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#attempts);
    this.#attempts += 1;
    return span * (0.5 + Math.random() / 2);
  }
  /** The connection has proved good. */
  reset() {
    this.#attempts = 0;
  }
};

// src/lease.ts
var SAFETY = 0.9;
var Lease = class {
  #leaseMs = 0;
  #confirmed;
  #hello;
  #answers = [];
  /** Notes that a hello is sent now. */
  helloSent() {
    this.#hello = now();
  }
  /** The welcome confirms the hello. */
  welcomed(leaseMs) {
    this.#leaseMs = leaseMs;
    this.#confirmed = this.#hello;
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
    return since ? this.#leaseMs * SAFETY - elapsedMs(since) : 0;
  }
  /** The lease has ended, or its session has. */
  end() {
    this.#confirmed = void 0;
    this.#answers = [];
  }
};
function now() {
  return { monotonicMs: performance.now(), wallMs: Date.now() };
}
function elapsedMs(since) {
  return Math.max(performance.now() - since.monotonicMs, Date.now() - since.wallMs);
}

// src/outbox.ts
var WINDOW_FRAMES = 4096;
var WINDOW_UNITS = 1 << 20;
var BACKLOG_FRAMES = 262144;
var Outbox = class {
  /** Sent and unacknowledged bodies, from `#head` on; the first of them has the number `#acknowledged + 1`. */
  #window = [];
  #head = 0;
  #windowUnits = 0;
  #acknowledged = 0;
  #backlog = [];
  #backlogHead = 0;
  /** The number of the last frame that was given one. */
  get lastSeq() {
    return this.#acknowledged + this.#window.length - this.#head;
  }
  /** Whether no more requests should be taken; what ends them still may. */
  get isFull() {
    return this.#backlog.length - this.#backlogHead >= BACKLOG_FRAMES;
  }
  /** Numbers the body and keeps it until it is acknowledged. Returns its number, or 0 if it has to wait. */
  number(body) {
    if (this.#hasBacklog() || !this.#hasRoom()) {
      this.#backlog.push({ body, numbered: true });
      return 0;
    }
    return this.#keep(body);
  }
  /** Puts an unnumbered body behind what waits. Returns false if nothing does, so that it may be sent at once. */
  queueBehind(body) {
    if (!this.#hasBacklog()) return false;
    this.#backlog.push({ body, numbered: false });
    return true;
  }
  /** Drops what the other side has processed. Returns false if it says more than was ever sent. */
  acknowledge(seq) {
    if (seq > this.lastSeq) return false;
    while (this.#acknowledged < seq) {
      this.#windowUnits -= this.#window[this.#head]?.length ?? 0;
      this.#window[this.#head] = "";
      this.#head += 1;
      this.#acknowledged += 1;
    }
    if (this.#head > 1024 && this.#head * 2 > this.#window.length) {
      this.#window = this.#window.slice(this.#head);
      this.#head = 0;
    }
    return true;
  }
  /** Takes the next waiting frame that now may be sent; `seq` is 0 for an unnumbered one. */
  next() {
    const waiting = this.#backlog[this.#backlogHead];
    if (!waiting || waiting.numbered && !this.#hasRoom()) return void 0;
    this.#backlogHead += 1;
    if (this.#backlogHead === this.#backlog.length || this.#backlogHead > 1024) {
      this.#backlog = this.#backlog.slice(this.#backlogHead);
      this.#backlogHead = 0;
    }
    return { body: waiting.body, seq: waiting.numbered ? this.#keep(waiting.body) : 0 };
  }
  /** Forgets the unnumbered frames that wait: after a resume they are asked anew. */
  dropUnnumbered() {
    this.#backlog = this.#backlog.slice(this.#backlogHead).filter((waiting) => waiting.numbered);
    this.#backlogHead = 0;
  }
  /** The unacknowledged frames, to be sent again after a resume. */
  unacknowledged() {
    return this.#window.slice(this.#head).map((body, index) => ({ body, seq: this.#acknowledged + 1 + index }));
  }
  #keep(body) {
    this.#window.push(body);
    this.#windowUnits += body.length;
    return this.lastSeq;
  }
  #hasRoom() {
    return this.#window.length - this.#head < WINDOW_FRAMES && this.#windowUnits < WINDOW_UNITS;
  }
  #hasBacklog() {
    return this.#backlog.length > this.#backlogHead;
  }
};

// src/session.ts
var CLIENT_LABEL = "lockhouse-js/0.1.0";
var DIAL_TIMEOUT_MS = 1e4;
var ACK_AFTER = 64;
var SILENT_HEARTBEATS = 3;
var CLOSE_NORMAL = 1e3;
var CLOSE_ABNORMAL = 1006;
var CLOSE_SILENT = 4e3;
var CLOSE_LEASE_EXPIRED = 4408;
var CLOSES_OF_ENDED = /* @__PURE__ */ new Set([4409, 4429]);
var CLOSES_OF_BAD_FRAME = /* @__PURE__ */ new Set([1003, 1009, 4400]);
var Session = class {
  #dial;
  #user;
  #lease = new Lease();
  #backoff = new Backoff();
  #state = "connecting";
  #asleep = false;
  #socket;
  /** Whether the welcome of this connection has come, so that frames may be sent. */
  #greeted = false;
  /** What a resume presents; undefined while there is no session. */
  #identity;
  #outbox = new Outbox();
  #received = 0;
  #unreported = 0;
  #heardAtMs = 0;
  #silenceMs = 0;
  #frameBytes = 65536;
  #lastFatal = "";
  #dialTimer;
  #watchTimer;
  constructor(dial, user) {
    this.#dial = dial;
    this.#user = user;
  }
  /** Connects. An error of the WebSocket constructor, such as for mixed content, is thrown the first time. */
  open() {
    this.#connect(this.#dial());
  }
  /** Sends a numbered frame, given without its closing brace. Returns false if there is no session to send it in. */
  post(body) {
    if (!this.#identity || this.isOverdue()) return false;
    const seq = this.#outbox.number(body);
    if (seq > 0 && this.#greeted) this.#transmit(body, seq);
    return true;
  }
  /** Sends an unnumbered frame, given without its closing brace, behind all that was posted. After a resume it is not sent again. */
  ask(body) {
    if (!this.#greeted || this.isOverdue()) return;
    if (!this.#outbox.queueBehind(body)) this.#transmit(body, 0);
  }
  /** Whether the deadline of the lease has passed. If so, the session is over, and this client connects anew. */
  isOverdue() {
    if (!this.#identity || this.#lease.remainingMs() > 0) return false;
    this.abandon("expired");
    return true;
  }
  /** Ends the session, on the server too, and connects anew. */
  abandon(reason, failure2) {
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
    this.#identity = void 0;
    this.#lease.end();
    if (left && !socket) this.#sayGoodbye(left);
    if (left && socket)
      socket.onclose = (event) => event.code === CLOSE_ABNORMAL && this.#sayGoodbye(left);
    this.#setState("closed");
  }
  get state() {
    return this.#state;
  }
  /** The longest frame, in bytes, that the server takes. */
  get frameBytes() {
    return this.#frameBytes;
  }
  /** Whether so much waits to be sent that no more requests should be taken. */
  get isFull() {
    return this.#outbox.isFull;
  }
  #connect(socket) {
    this.#socket = socket;
    this.#lastFatal = "";
    socket.onopen = () => this.#greet(socket);
    socket.onmessage = (event) => this.#receive(event.data);
    socket.onerror = () => {
    };
    socket.onclose = (event) => this.#closed(event.code);
    this.#dialTimer = setTimeout(() => this.#notAnswered(), DIAL_TIMEOUT_MS);
  }
  #notAnswered() {
    this.#lose();
    this.#tellUnreachable(`no answer within ${DIAL_TIMEOUT_MS} ms`);
  }
  #greet(socket) {
    if (this.isOverdue()) return;
    const resume = this.#identity && { ...this.#identity, received: this.#received };
    this.#lease.helloSent();
    socket.send(helloText(resume));
  }
  #receive(data) {
    if (this.isOverdue()) return;
    this.#heardAtMs = performance.now();
    try {
      const frame = parseFrame(data);
      if (this.#greeted) this.#handle(frame);
      else if (frame.type === "fatal") this.#lastFatal = readFatal(frame).message;
      else this.#welcome(frame);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.accuse(error);
    }
  }
  #handle(frame) {
    if (frame.ack != null) this.#acknowledged(count(frame, "ack"));
    switch (frame.type) {
      case "ping":
        this.#pinged(frame);
        return;
      case "ack":
      case "closing":
        return;
      case "fatal":
        this.#lastFatal = readFatal(frame).message;
        return;
    }
    const notice = readNotice(frame);
    if (!notice) throw new ProtocolError(`a frame of unknown type ${String(frame.type).slice(0, 64)}`);
    if (notice.type !== "snapshot") this.#countIn(frame);
    this.#backoff.reset();
    this.#user.noticed(notice);
    if (this.#unreported >= ACK_AFTER && this.#greeted) this.#transmit(ACK_BODY, 0);
  }
  #countIn(frame) {
    if (count(frame, "seq") !== this.#received + 1) {
      throw new ProtocolError(`seq ${String(frame.seq)} where ${this.#received + 1} was due`);
    }
    this.#received += 1;
    this.#unreported += 1;
  }
  #welcome(frame) {
    if (frame.type !== "welcome") throw new ProtocolError("the first frame is not a welcome");
    const welcome = readWelcome(frame);
    if (welcome.resumed && welcome.session !== this.#identity?.session)
      throw new ProtocolError("resumed what was not asked for");
    if (!welcome.resumed) this.#end("terminated");
    if (this.#state === "closed") return;
    clearTimeout(this.#dialTimer);
    this.#identity = { session: welcome.session, secret: welcome.secret };
    this.#frameBytes = welcome.frameBytes;
    this.#silenceMs = SILENT_HEARTBEATS * welcome.heartbeatMs;
    this.#lease.welcomed(welcome.leaseMs);
    this.#greeted = true;
    if (welcome.resumed) this.#resume(welcome.received);
    else this.#user.begun();
    this.#watch();
    this.#setState("open");
  }
  #resume(received) {
    if (!this.#outbox.acknowledge(received)) throw new ProtocolError(`received ${received}, which was never sent`);
    this.#outbox.dropUnnumbered();
    for (const { body, seq } of this.#outbox.unacknowledged()) this.#transmit(body, seq);
    this.#flush();
    this.#user.resumed();
  }
  #pinged(frame) {
    const ping = readPing(frame);
    this.#backoff.reset();
    this.#lease.answered(ping.answered);
    this.#lease.answerSent(ping.n);
    this.#transmit(pongBody(ping.n), 0);
  }
  #acknowledged(seq) {
    if (!this.#outbox.acknowledge(seq)) throw new ProtocolError(`ack ${seq}, which was never sent`);
    this.#flush();
  }
  #flush() {
    for (let next = this.#outbox.next(); next; next = this.#outbox.next()) this.#transmit(next.body, next.seq);
  }
  #transmit(body, seq) {
    this.#unreported = 0;
    this.#socket?.send(body + frameTail(seq, this.#received));
  }
  #closed(code) {
    const wasGreeted = this.#greeted;
    this.#hangUp();
    if (code === CLOSE_LEASE_EXPIRED) this.#end("expired");
    else if (CLOSES_OF_ENDED.has(code)) this.#end("terminated");
    else if (CLOSES_OF_BAD_FRAME.has(code) && wasGreeted)
      this.#end("terminated", refusedByServer(code, this.#lastFatal));
    this.#reconnect();
    this.#tellUnreachable(`close code ${code}${this.#lastFatal && `, ${this.#lastFatal}`}`);
  }
  #tellUnreachable(why) {
    if (this.#state === "connecting") this.#user.unreachable(why);
  }
  /** The connection is of no use any more, though nobody closed it; the session may still be resumed. */
  #lose() {
    this.#hangUp(CLOSE_SILENT);
    this.#reconnect();
  }
  /** Turns away from the present connection, and closes it if a code is given. */
  #hangUp(code) {
    const socket = this.#socket;
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
    this.#identity = void 0;
    this.#lease.end();
    this.#outbox = new Outbox();
    this.#received = 0;
    this.#unreported = 0;
    this.#user.ended(reason, failure2);
  }
  #reconnect() {
    if (this.#state === "closed" || this.#asleep || this.#socket) return;
    clearTimeout(this.#dialTimer);
    this.#dialTimer = setTimeout(() => this.#redial(), this.#backoff.nextMs());
    this.#watch();
    this.#setState("lost");
  }
  /** While the connection is down the server would keep the session for its lease: resumes it once more, only to end it. */
  #sayGoodbye(identity) {
    try {
      const socket = this.#dial();
      const timer = setTimeout(() => socket.close(CLOSE_NORMAL), DIAL_TIMEOUT_MS);
      socket.onopen = () => socket.send(helloText({ ...identity, received: this.#received }));
      socket.onmessage = () => socket.close(CLOSE_NORMAL);
      socket.onerror = () => {
      };
      socket.onclose = () => clearTimeout(timer);
    } catch {
    }
  }
  #redial() {
    if (this.#state === "closed" || this.#asleep || this.#socket) return;
    try {
      this.#connect(this.#dial());
    } catch {
      this.#reconnect();
    }
  }
  /** Looks again when the lease would end or the server has been silent for too long; one timer for the whole session. */
  #watch() {
    clearTimeout(this.#watchTimer);
    if (!this.#identity) return;
    const silentMs = this.#greeted ? performance.now() - this.#heardAtMs : 0;
    const nextMs = Math.min(this.#lease.remainingMs(), this.#silenceMs - silentMs);
    this.#watchTimer = setTimeout(() => this.#look(), Math.max(1, nextMs));
    if (typeof this.#watchTimer === "object") this.#watchTimer.unref?.();
  }
  #look() {
    if (this.isOverdue()) return;
    const isSilent = this.#greeted && performance.now() - this.#heardAtMs >= this.#silenceMs;
    if (isSilent) this.#lose();
    else this.#watch();
  }
  /** Comes last in whatever changes the state, since the user may do anything when told of it. */
  #setState(state) {
    if (this.#state === "closed" || this.#state === state) return;
    if (this.#state === "connecting" && state === "lost") return;
    this.#state = state;
    this.#user.stateChanged(state);
  }
};
function helloText(resume) {
  return JSON.stringify({ type: "hello", client: CLIENT_LABEL, ...resume && { resume } });
}
function refusedByServer(code, message) {
  const why = message === "" ? `close code ${code}` : message;
  return domError("NetworkError", `The lock server refused a frame of this client: ${why}`);
}

// src/tasks.ts
var TaskQueue = class {
  #steps = [];
  #turnTaken = false;
  /** Runs the step now if this turn has run none yet, else in a later task. Must be called from a task's top level. */
  run(step) {
    if (this.#turnTaken || this.#steps.length > 0) {
      this.later(step);
      return;
    }
    this.#take(step);
  }
  /** Runs the step in a later task. */
  later(step) {
    this.#steps.push(step);
    if (this.#steps.length === 1) scheduleTask(this.#next);
  }
  /** Forgets the steps that have not run. */
  clear() {
    this.#steps.length = 0;
  }
  #next = () => {
    const step = this.#steps.shift();
    if (!step) return;
    if (this.#steps.length > 0) scheduleTask(this.#next);
    this.#take(step);
  };
  #take(step) {
    this.#turnTaken = true;
    queueMicrotask(this.#turnOver);
    step();
  }
  #turnOver = () => {
    this.#turnTaken = false;
  };
};
var scheduleTask = pickScheduler();
function pickScheduler() {
  const scope2 = globalThis;
  if (typeof scope2.setImmediate === "function") return scope2.setImmediate;
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

// src/agent.ts
var OPEN_LIMIT = 262144;
var FRAME_OVERHEAD_BYTES = 64;
var LONGEST_TIMEOUT_MS = 2 ** 31 - 1;
var Agent = class {
  #clientId;
  #session;
  /** What the present session has told, to be obeyed; forgotten with the session. */
  #tasks = new TaskQueue();
  /** Steps that concern no session. */
  #turns = new TaskQueue();
  #onstate;
  /** All that is open, by id and so in the order of asking. */
  #open = /* @__PURE__ */ new Map();
  #lastId = 0;
  #number = 1;
  constructor(clientId, dial, onstate, onunreachable) {
    this.#clientId = clientId;
    this.#onstate = onstate;
    this.#session = new Session(dial, {
      begun: () => this.#begin(),
      resumed: () => this.#askQueriesAnew(),
      ended: (reason, failure2) => this.#endAll(reason, failure2),
      noticed: (notice) => this.#tasks.run(() => this.#obey(notice)),
      stateChanged: (state) => this.#onstate(state),
      unreachable: onunreachable
    });
  }
  /** The session, to be opened, put to sleep and woken. */
  get session() {
    return this.#session;
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
        resolve,
        reject,
        hold: void 0,
        asked: false,
        unwatch: void 0
      };
      this.#open.set(id, request);
      if (ask.signal || ask.loss || ask.timeout !== void 0) this.#watch(request);
      request.asked = this.#session.post(body);
    });
  }
  /** Asks for a snapshot: https://w3c.github.io/web-locks/#snapshot-the-lock-state */
  query() {
    return new Promise((resolve, reject) => {
      this.#admit();
      runDueAbortAlgorithms();
      this.#lastId += 1;
      const id = this.#lastId;
      this.#open.set(id, { kind: "query", id, resolve, reject, held: [], pending: [] });
      this.#session.ask(queryBody(id));
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
  #admit() {
    if (this.#session.state === "closed") throw domError("InvalidStateError", "The lockhouse client is closed.");
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
    const timer = timeout === void 0 || timeout > LONGEST_TIMEOUT_MS ? void 0 : setTimeout(() => this.#withdraw(request, timedOut(request.ask)), timeout);
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
    switch (notice.type) {
      case "granted":
        this.#start(notice.id, notice.token);
        return;
      case "refused":
        this.#callBackWithNull(notice.id);
        return;
      case "lost":
        this.#lose(notice.id, notice.reason);
        return;
      case "ended":
        this.#agentEnded(notice.agent, notice.reason);
        return;
      case "snapshot":
        this.#gather(notice);
        return;
      case "error": {
        const entry = this.#open.get(notice.id);
        if (entry && !(entry.kind === "request" && entry.hold)) {
          this.#close(entry);
          entry.reject(serverError(notice.detail, notice.message));
        }
        return;
      }
      case "released":
        return;
    }
  }
  /** The steps on the event loop for a grant: https://w3c.github.io/web-locks/#process-the-lock-request-queue */
  #start(id, token) {
    if (this.#session.isOverdue()) return;
    const request = this.#open.get(id);
    if (!request) {
      if (id > this.#lastId) this.#session.accuse(new ProtocolError(`granted: id ${id} was never asked for`));
      else this.#session.post(releaseBody(id));
      return;
    }
    if (request.kind !== "request" || request.hold) {
      this.#session.accuse(new ProtocolError(`granted: id ${id} does not wait for a lock`));
      return;
    }
    const { signal } = request.ask;
    if (signal?.aborted) {
      this.#close(request);
      this.#session.post(releaseBody(id));
      request.reject(signal.reason);
      return;
    }
    request.unwatch?.();
    const { name, mode, callback, wrap } = request.ask;
    const hold = new Hold(name, mode, token, () => this.#session.isOverdue());
    request.hold = hold;
    const waiting = new Promise((resolve) => resolve(callback(wrap(hold))));
    waiting.then(
      (value) => this.#release(request, hold) && request.resolve(value),
      (error) => this.#release(request, hold) && request.reject(error)
    );
  }
  /** The waiting promise has settled. Returns false if the lock was lost before, so that its promise is settled already. */
  #release(request, hold) {
    if (hold.loss || this.#session.isOverdue()) return false;
    this.#open.delete(request.id);
    this.#session.post(releaseBody(request.id));
    return true;
  }
  #callBackWithNull(id) {
    if (this.#session.isOverdue()) return;
    const request = this.#open.get(id);
    if (request?.kind !== "request" || request.hold) return;
    this.#close(request);
    try {
      request.resolve(request.ask.callback(null));
    } catch (error) {
      request.reject(error);
    }
  }
  #lose(id, reason) {
    const request = this.#open.get(id);
    if (request?.kind === "request" && request.hold) this.#tellLoss([request], reason);
  }
  #agentEnded(agent, reason) {
    if (agent !== this.#number) return;
    if (reason === "expired") {
      this.#session.abandon("expired");
      return;
    }
    this.#number += 1;
    this.#session.post(joinBody(this.#number, this.#clientId));
    this.#endRequests(reason, domError("AbortError", "The client was ended by an operator."));
  }
  #gather(part) {
    const query = this.#open.get(part.id);
    if (query?.kind !== "query") return;
    query.held = query.held.concat(part.held);
    query.pending = query.pending.concat(part.pending);
    if (part.more) return;
    this.#open.delete(query.id);
    query.resolve({ held: query.held, pending: query.pending });
  }
  /** A fresh session: the agent joins and all that is open is asked, in its order. */
  #begin() {
    this.#session.post(joinBody(this.#number, this.#clientId));
    for (const entry of this.#open.values()) {
      if (entry.kind === "query") this.#session.ask(queryBody(entry.id));
      else entry.asked = this.#session.post(requestBody(entry.id, this.#number, entry.ask));
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
      this.#session.ask(queryBody(query.id));
    }
  }
  /** The session is over: locks are lost, and what is pending fails or waits to be asked again. */
  #endAll(reason, failure2) {
    this.#tasks.clear();
    for (const query of this.#open.values()) {
      if (query.kind !== "query") continue;
      query.held = [];
      query.pending = [];
      if (failure2) {
        this.#open.delete(query.id);
        query.reject(failure2);
      }
    }
    this.#endRequests(reason, failure2);
  }
  #endRequests(reason, failure2) {
    const held = [];
    for (const request of this.#open.values()) {
      if (request.kind === "query") continue;
      if (request.hold) {
        held.push(request);
      } else if (failure2 || request.ask.steal && request.asked) {
        this.#close(request);
        request.reject(failure2 ?? outcomeUnknown(request.ask));
      }
    }
    this.#tellLoss(held, reason);
  }
  /** Changes all state first, since listeners of the signals run at once. */
  #tellLoss(held, reason) {
    for (const request of held) {
      this.#open.delete(request.id);
      request.reject(request.hold?.lose(reason));
    }
    for (const request of held) request.hold?.announceLoss();
  }
  #close(entry) {
    this.#open.delete(entry.id);
    if (entry.kind === "request") entry.unwatch?.();
  }
};
function timedOut(ask) {
  return domError("TimeoutError", `The lock was not granted within ${ask.timeout} ms.`);
}
function outcomeUnknown(ask) {
  const name = JSON.stringify(ask.name.slice(0, 64));
  return domError("OperationError", `outcome unknown: the server was lost while ${name} was being stolen`);
}

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
function toUSVString(value) {
  return toDOMString(value).replace(/[\ud800-\udfff]/gu, "\uFFFD");
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
    metadata: "metadata" in options ? toOptionalString(options.metadata) : void 0,
    timeout: "timeout" in options ? toMilliseconds(method, "timeout", options.timeout, 0, Infinity) : void 0
  };
}
function tooFewArguments(method, required, present) {
  return failure(method, `${required} arguments required, but only ${present} present.`);
}
function toLockMode(value, method) {
  if (value === void 0) return "exclusive";
  const mode = toDOMString(value);
  if (mode === "exclusive" || mode === "shared") return mode;
  throw badMember(method, "mode", `The provided value '${mode}' is not a valid enum value of type LockMode.`);
}
function toAbortSignal(value, method) {
  if (value === void 0) return void 0;
  try {
    isAborted.call(value);
    if (isProxy?.(value)) throw new TypeError("a proxy");
  } catch {
    throw badMember(method, "signal", "Failed to convert value to 'AbortSignal'.");
  }
  return value;
}
var isAborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted")?.get;
var { process } = globalThis;
var isProxy = process?.getBuiltinModule?.("node:util").types.isProxy;
function toMilliseconds(method, member, value, least, most) {
  if (value === void 0) return void 0;
  const ms = Number(value);
  if (ms >= least && ms <= most) return Number.isFinite(ms) ? Math.ceil(ms) : ms;
  throw badMember(
    method,
    member,
    `The provided value ${toDOMString(value)} is not a number of milliseconds of at least ${least}.`
  );
}
function toOptionalString(value) {
  return value === void 0 ? void 0 : toUSVString(value);
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

// src/request-all.ts
var UNAVAILABLE = /* @__PURE__ */ Symbol();
function toTargets(value) {
  const isIterable = typeof value === "object" && value !== null && Symbol.iterator in value;
  if (isIterable) return value;
  const shown = typeof value === "string" ? JSON.stringify(value.slice(0, 64)) : String(value);
  const message = `parameter 1 is ${shown}, but it must be an iterable object of names, such as ["a", "b"].`;
  throw new TypeError(failureText("requestAll", message));
}
function convertTargets(targets, defaultMode) {
  const modes = /* @__PURE__ */ new Map();
  for (const target of targets) {
    const isRecord = typeof target === "object" && target !== null;
    const name = toDOMString(isRecord ? target.name : target);
    const mode = isRecord && target.mode !== void 0 ? toLockMode(target.mode, "requestAll") : defaultMode;
    if (modes.get(name) !== "exclusive") modes.set(name, mode);
  }
  return [...modes].map(([name, mode]) => ({ name, mode })).sort((a, b) => compareNames(a.name, b.name));
}
async function requestInOrder(agent, targets, options, callback) {
  const startedAt = performance.now();
  const locks = [];
  const loss = new AbortController();
  const step = (index) => {
    const target = targets[index];
    if (!target) return callback(locks);
    return agent.request({
      ...options,
      ...target,
      timeout: remaining(options.timeout, startedAt),
      loss: loss.signal,
      wrap: newHeldLock,
      callback: (lock) => {
        if (!lock) return UNAVAILABLE;
        const held = lock;
        held.signal.addEventListener("abort", () => loss.abort(held.signal.reason));
        locks.push(held);
        if (options.signal?.aborted && index + 1 < targets.length) throw options.signal.reason;
        return step(index + 1);
      }
    });
  };
  if (targets.length === 0) await agent.nextTurn();
  const result = await step(0);
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
  /** Takes a snapshot of what is held and what waits in this bucket. It may be out of date by the time it is seen. */
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
  acquire(name, options) {
    return new Promise((resolve, reject) => {
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
      const released = admitted(sourceOf2(this), [name, options, callback], wrap);
      released.catch(reject);
    });
  }
  async requestAll(...args) {
    const source = sourceOf2(this);
    if (args.length < 2) throw tooFewArguments("requestAll", 2, args.length);
    const options = toLockOptions(args.length > 2 ? args[1] : void 0, "requestAll");
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
  source.admit();
  checkRequest(name, options, "request");
  const { mode, ifAvailable, steal, signal, metadata, maxHold, timeout } = options;
  return source.agent().request({ name, mode, ifAvailable, steal, signal, metadata, maxHold, timeout, callback, wrap });
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

// src/partition.ts
function currentPartition() {
  const frame = globalThis;
  if (!frame.document || frame.parent === globalThis) return "";
  return partitionFor(frame.origin ?? "null", ancestorsOf(frame));
}
function partitionFor(origin, ancestors) {
  const top = ancestors.at(-1);
  if (top === void 0) return "";
  const own = siteOf(origin);
  if (ancestors.every((ancestor) => ancestor !== "null" && siteOf(ancestor) === own)) return "";
  return `${siteOf(top)} cross-site`;
}
function siteOf(origin) {
  if (!URL.canParse(origin)) return origin;
  const { protocol, hostname } = new URL(origin);
  const isAddress = hostname.startsWith("[") || /^[\d.]+$/.test(hostname);
  const host = isAddress ? hostname : hostname.replace(/\.$/, "").split(".").slice(-2).join(".");
  return `${protocol}//${host}`;
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

// src/url.ts
var SOCKET_PROTOCOLS = { "http:": "ws:", "https:": "wss:", "ws:": "ws:", "wss:": "wss:" };
var DEFAULT_BUCKET = "default";
var LONGEST_BYTES = 256;
var SHOWN_UNITS = 64;
function serverUrl(address) {
  const text2 = `${address}`;
  if (!URL.canParse(text2)) throw new TypeError(`url: ${JSON.stringify(text2)}, but it must be an absolute URL`);
  const url = new URL(text2);
  const protocol = SOCKET_PROTOCOLS[url.protocol];
  if (!protocol) throw new TypeError(`url: the protocol ${url.protocol}, but it must be http:, https:, ws: or wss:`);
  url.protocol = protocol;
  if (url.pathname === "/") url.pathname = "/v1/ws";
  url.hash = "";
  return url;
}
function bucketOf(url) {
  return url.searchParams.get("bucket") ?? DEFAULT_BUCKET;
}
function fitting(field, value) {
  const bytes = utf8Length(value);
  if (bytes <= LONGEST_BYTES) return value;
  const shown = JSON.stringify(`${value.slice(0, SHOWN_UNITS)}\u2026`);
  throw new TypeError(`${field}: ${shown} has ${bytes} bytes of UTF-8, but at most ${LONGEST_BYTES} are allowed`);
}
function scoped(url, { bucket, partition }) {
  const result = new URL(url);
  if (bucket !== void 0) result.searchParams.set("bucket", bucket);
  if (partition !== void 0 && partition !== "") result.searchParams.set("partition", partition);
  if (partition === "") result.searchParams.delete("partition");
  return result;
}

// src/connect.ts
var contextId;
function connect(url, options = {}) {
  return new LockhouseClient(url, options);
}
var LockhouseClient = class {
  onstate;
  name;
  partition;
  locks;
  #url;
  #clientId;
  #WebSocket;
  #agents = /* @__PURE__ */ new Map();
  #buckets = /* @__PURE__ */ new Map();
  #unwatch = () => {
  };
  #state = "connecting";
  #hasWarned = false;
  constructor(url, options) {
    const server = serverUrl(url);
    const partition = options.partition ?? server.searchParams.get("partition") ?? currentPartition();
    this.partition = fitting("partition", toUSVString(partition));
    this.#url = scoped(
      server,
      options.bucket === void 0 ? { partition: this.partition } : { ...options, partition: this.partition }
    );
    this.name = fitting("bucket", bucketOf(this.#url));
    this.onstate = options.onstate ?? null;
    this.#clientId = fitting("clientId", toUSVString(options.clientId ?? ownContextId()));
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
    this.locks = this.bucket(this.name).locks;
    if (isStorageDenied() || !isSecure()) {
      this.#state = "closed";
      queueMicrotask(() => this.#tell("closed"));
      return;
    }
    if (!this.#WebSocket) {
      throw new TypeError(
        "WebSocket: this platform has none, so the option must give a constructor, such as that of ws"
      );
    }
    this.#agent(this.name);
    this.#unwatch = watchLifecycle({ sleep: () => this.#sleep(), wake: () => this.#wake() });
    queueMicrotask(() => this.#state === "connecting" && this.#tell("connecting"));
  }
  get state() {
    return this.#state;
  }
  bucket(name) {
    const key = `${name}`;
    const existing = this.#buckets.get(key);
    if (existing) return existing;
    const bucket = { name: key, locks: newExtendedLockManager(this.source(key)) };
    this.#buckets.set(key, bucket);
    return bucket;
  }
  /** Where the calls of a manager for this bucket go. Throws a TypeError for a name that is too long. */
  source(bucket) {
    fitting("bucket", bucket);
    return { admit: () => this.#admit(), agent: () => this.#agent(bucket) };
  }
  close() {
    if (this.#state === "closed") return;
    this.#unwatch();
    this.#state = "closed";
    for (const agent of this.#agents.values()) agent.close();
    this.#tell("closed");
  }
  #admit() {
    checkEnvironment();
    if (!isSecure()) throw domError("SecurityError", "Locks are to be had in secure contexts only.");
    if (this.#state === "closed") throw domError("InvalidStateError", "The lockhouse client is closed.");
  }
  #agent(bucket) {
    const existing = this.#agents.get(bucket);
    if (existing) return existing;
    const url = scoped(this.#url, { bucket }).href;
    const WebSocket = this.#WebSocket;
    const onstate = bucket === this.name ? (state) => this.#setState(state) : () => {
    };
    const warn = (why) => this.#warn(why);
    const agent = new Agent(this.#clientId, () => new WebSocket(url, "lockhouse.v1"), onstate, warn);
    agent.session.open();
    this.#agents.set(bucket, agent);
    return agent;
  }
  #setState(state) {
    if (this.#state === "closed" || this.#state === state) return;
    this.#state = state;
    this.#tell(state);
  }
  /** Says once that the server may not be where the URL says; the query, which may hold what is private, is left out. */
  #warn(why) {
    if (this.#hasWarned || this.#state !== "connecting") return;
    this.#hasWarned = true;
    console.warn(`lockhouse: cannot connect to ${this.#url.origin}${this.#url.pathname} (${why}); trying again`);
  }
  /** Calls the user's listener, whose errors are its own: the session goes on. */
  #tell(state) {
    try {
      this.onstate?.(state);
    } catch (error) {
      reportException(error);
    }
  }
  #sleep() {
    for (const agent of this.#agents.values()) agent.session.sleep();
  }
  #wake() {
    for (const agent of this.#agents.values()) agent.session.wake();
  }
};
function ownContextId() {
  contextId ??= typeof crypto.randomUUID === "function" ? crypto.randomUUID() : randomId();
  return contextId;
}
function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] ?? 0) & 15 | 64;
  bytes[8] = (bytes[8] ?? 0) & 63 | 128;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
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
  const own = globalThis.navigator;
  const checkBrand = brandCheck(prototype);
  defineAccessor(prototype, "locks", function() {
    checkBrand(this);
    return this === own ? locks : this.locks;
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
  ExtendedLockManager,
  HeldLock,
  Lock,
  LockManager,
  connect,
  currentPartition,
  heldLock,
  install
};
