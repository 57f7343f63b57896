//! Every bound of the server that operators do not set, in one place. `docs/limits.md` lists all of them.

use std::time::Duration;

use lockhouse_wire::{ACK_EVERY, FRAME_BYTES, FRAME_WEIGHT};

/// How long the last words and the closing handshake of a connection may take.
pub(crate) const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// As [`FAREWELL_TIMEOUT`], of all connections together, where the store has failed: another server may be at
/// work by then.
pub(crate) const FAILED_FAREWELL_TIMEOUT: Duration = Duration::from_millis(500);

/// The time between two looks at whether the database file is in its place.
pub(crate) const FILE_CHECK: Duration = Duration::from_millis(250);

/// Bucket names with a label of their own in the metrics; all others share one.
pub(crate) const METRIC_LABELS: usize = 100;

/// Connections at once to the listener of the metrics.
pub(crate) const METRICS_CONNECTIONS: u32 = 16;

/// The time between two readings of the metrics.
pub(crate) const METRICS_PAUSE: Duration = Duration::from_secs(1);

/// The id that a client gives its request, in `x-request-id`.
pub(crate) const REQUEST_ID_BYTES: usize = 128;

/// Agents of a session at once, at most.
pub(crate) const AGENTS_PER_SESSION: usize = 1024;

/// Requests and locks of an agent at once.
pub(crate) const REQUESTS_PER_AGENT: u32 = 100_000;

/// Requests and locks of a session at once, at most: those of one agent, as every one of them may be granted,
/// and lost, in one moment.
pub(crate) const REQUESTS_PER_SESSION: usize = REQUESTS_PER_AGENT as usize;

/// Watches of a connection at once.
pub(crate) const WATCHES_PER_SESSION: usize = 16;

/// Changes within this time are sent in one snapshot of a watch.
pub(crate) const WATCH_GATHERING: Duration = Duration::from_millis(100);

/// Frames that a session may get at once without having asked: a grant and a loss of each request, and the
/// end of each agent.
pub(crate) const UNASKED_FRAMES: usize = 2 * REQUESTS_PER_SESSION + AGENTS_PER_SESSION;

/// No such frame is longer.
pub(crate) const UNASKED_FRAME_BYTES: usize = 170;

/// Bytes of frames that a client may have under way, each with [`FRAME_WEIGHT`] more. With the rest of a
/// message before them they are less than what is read ahead, so that a pong behind them is always read.
pub(crate) const WINDOW_BYTES: usize = HELD_BACK_BYTES - FRAME_BYTES;

/// After so many bytes without an acknowledgement of ours the client gets one, even if they are few frames:
/// its window never fills up with frames that are carried out.
pub(crate) const ACK_BYTES: usize = WINDOW_BYTES / 4;

/// No answer to a numbered frame is longer.
pub(crate) const ANSWER_BYTES: usize = 4096;

/// Answers of a session that wait for the store at once. They come together, once it can write again.
/// Requests that are not to wait count as well while they do, for the store or for the end of a recovery.
pub(crate) const WAITING_ANSWERS: usize = 4096;

/// Numbered frames that wait for their acknowledgement: all that the session did not ask for, so that no
/// client that reads is dropped, and this much more.
pub(crate) const RESEND_FRAMES: usize = UNASKED_FRAMES + 4 * WAITING_ANSWERS;

/// Bytes of numbered frames that wait for their acknowledgement, counted alike. Each frame of a window may be
/// answered by one before we see what the client acknowledges behind them.
pub(crate) const RESEND_BYTES: usize =
    UNASKED_FRAMES * UNASKED_FRAME_BYTES + (WINDOW_BYTES / FRAME_WEIGHT + WAITING_ANSWERS) * ANSWER_BYTES;

/// A session whose client has no more than this to take goes on, however much the others of its tenant have:
/// a client that acknowledges as it should has no more.
pub(crate) const SPARED_BYTES: usize = ACK_EVERY as usize * ANSWER_BYTES;

/// A backlog of a session up to this size is not counted.
pub(crate) const UNCOUNTED_BYTES: usize = 4 << 10;

/// While more bytes than this wait to be written, nothing that the client sends is carried out.
pub(crate) const OUTBOX_HIGH_WATER_BYTES: usize = 256 << 10;

/// Bytes of frames that are read meanwhile, and while a session waits for its turn, in search of pongs, and
/// carried out later.
pub(crate) const HELD_BACK_BYTES: usize = 256 << 10;

/// Notices of a bucket that wait for a session to take them. A session takes the answer to each question at
/// once.
pub(crate) const INBOX_NOTICES: usize = RESEND_FRAMES;

/// Frames that are read at most before what they brought about is written.
pub(crate) const READ_BATCH: usize = 128;

/// Work without a pause, in frames. Until the next pause input for other sessions may go unnoticed: a worker
/// that was woken for one thing alone looks for others only after that.
pub(crate) const GIVE_WAY_FRAMES: u32 = 8;

/// The most bytes of a partition that lists the origins of a frame and its ancestors.
pub(crate) const ORIGINS_BYTES: usize = 4096;

/// The most bytes of the head of an HTTP request, up to twice that where they come at once.
pub(crate) const HEAD_BYTES: usize = 64 << 10;

/// The most bytes of the body of an HTTP request.
pub(crate) const HTTP_BODY_BYTES: usize = 256 << 10;

/// The most bytes of a body that no request needs, of a GET or outside of the API.
pub(crate) const STRAY_BODY_BYTES: usize = 4 << 10;

/// A body of more, or of unknown length, that has not come with its head needs a place among [`LATE_BODIES`].
pub(crate) const SMALL_BODY_BYTES: usize = 16 << 10;

/// Such bodies that are waited for or being answered at once.
pub(crate) const LATE_BODIES: usize = 256;

/// Lines of the audit log about a client that is denied the same again and again, in [`AUDIT_WHILE`].
pub(crate) const AUDIT_LINES: u32 = 10;

/// After so long as many lines are logged again.
pub(crate) const AUDIT_WHILE: Duration = Duration::from_secs(60);

/// So many clients that are denied something are counted separately.
pub(crate) const AUDIT_SERIES: usize = 1024;

/// For how long the answer to a request with an `Idempotency-Key` is remembered.
pub(crate) const IDEMPOTENCY_AGE: Duration = Duration::from_secs(600);

/// Requests with an `Idempotency-Key` that are under way or remembered, in one bucket and in all.
pub(crate) const IDEMPOTENCY_KEYS_PER_BUCKET: usize = 10_000;
pub(crate) const IDEMPOTENCY_KEYS: usize = 100_000;

/// Bytes of the remembered answers of a tenant, and of all tenants.
pub(crate) const IDEMPOTENCY_BYTES_PER_TENANT: usize = 128 << 20;
pub(crate) const IDEMPOTENCY_BYTES: usize = 512 << 20;

/// A WebSocket that takes nothing is given up this much later than `write_timeout`, where the server does not
/// watch the connection itself.
pub(crate) const WRITE_GRACE: Duration = Duration::from_secs(1);

/// Connections at once that get the reason of their refusal.
pub(crate) const REFUSED_AT_ONCE: usize = 64;

/// How long a connection that is refused may take to ask, and to take the reason.
pub(crate) const REFUSED_FOR: Duration = Duration::from_secs(2);

/// No more is read of a connection that ends.
pub(crate) const UNWANTED_BYTES: u64 = 64 << 10;

/// Buckets that may stay in use after a call, of each of two generations, and a share of them of each tenant;
/// others are in use only during their calls.
pub(crate) const WARM_BUCKETS: usize = 1024;

/// How long a bucket stays in use after a call at least; at most twice as long.
pub(crate) const WARM_FOR: Duration = Duration::from_secs(10);

/// Assignments of a bucket that one query looks at.
pub(crate) const ASSIGNMENTS_LOOKED_AT: usize = 10_000;

/// For how long the overview of a bucket, and who waits for whom in it, is answered again as it was.
pub(crate) const VIEW_AGE: Duration = Duration::from_secs(1);

/// The memory of an overview: a few names, labels and metadata of the longest.
pub(crate) const OVERVIEW_BYTES: usize = 192 << 10;

/// Waits of requests for others that are shown at once.
pub(crate) const WAIT_EDGES: usize = 500;

/// The most bytes of the list of the buckets of another node: a page of the longest names.
pub(crate) const BUCKETS_BYTES: usize = 4 << 20;

/// Characters of the words of a client about itself that are shown.
pub(crate) const USER_AGENT_CHARS: usize = 256;

/// Client ids of a session that are shown.
pub(crate) const CLIENT_IDS_SHOWN: usize = 10;

/// How often one call about the history looks at the next rows of the store. Each look after the first costs
/// as much as a call.
pub(crate) const HISTORY_STEPS: usize = 10;

/// Streams of events at once, in all, of a tenant, and of a credential.
pub(crate) const EVENT_STREAMS: usize = 4096;
pub(crate) const EVENT_STREAMS_PER_TENANT: usize = 1024;
pub(crate) const EVENT_STREAMS_PER_CREDENTIAL: usize = 512;

/// A stream of events has something to read at least so often.
pub(crate) const STREAM_HEARTBEAT: Duration = Duration::from_secs(15);

/// A reader that has all that has happened looks again this much later at the earliest, so that many readers
/// of a busy bucket do not keep it from its work.
pub(crate) const EVENT_GATHERING: Duration = Duration::from_millis(50);

/// Bytes of text that a stream has ready at once; a single event more may come on top.
pub(crate) const EVENT_BATCH: usize = 64 << 10;

/// The most bytes of text of one event, or of one entry of the present state, about.
pub(crate) const EVENT_TEXT: usize = 32 << 10;

/// The present state is copied for a stream no sooner than this after the last time.
pub(crate) const EVENT_STATE_PAUSE: Duration = Duration::from_secs(2);

/// Entries of the present state in one event.
pub(crate) const EVENT_STATE_ENTRIES: usize = 100;

/// Calls about the history that look at the store at once, each of another tenant.
pub(crate) const HISTORY_AT_ONCE: usize = 2;

/// More members of a JSON object than any request has are noise, and a search would take its time.
pub(crate) const BODY_MEMBERS: usize = 64;

/// Locks that are given back, or spared, by one call.
pub(crate) const RELEASES: usize = 1000;

/// Characters of a name in the audit log. A name that is not admitted may be as long as a request.
pub(crate) const AUDIT_NAME_CHARS: usize = 256;

/// How long a bucket that moves between two nodes is waited for.
pub(crate) const MOVING_PATIENCE: Duration = Duration::from_secs(1);

/// So many clients come again each second, after their connections were closed for a while.
pub(crate) const RETURNS_PER_SECOND: u32 = 2_000;

/// No client is kept away for longer.
pub(crate) const LONGEST_TURN: Duration = Duration::from_secs(5);

/// How many bytes of a WebSocket that is handed on are under way each way at once.
pub(crate) const RELAY_BYTES: usize = 8192;

/// How long a WebSocket may wait for the node that has its bucket. Clients with several URLs give an attempt
/// up after 2 s.
pub(crate) const HAND_ON_PATIENCE: Duration = Duration::from_millis(1500);

/// How long a connection to another node may take.
pub(crate) const HOP_CONNECT: Duration = Duration::from_secs(1);

/// How long another node may take to give a slot back.
pub(crate) const RELEASE_PATIENCE: Duration = Duration::from_secs(10);

/// How long another node may take to say how it is.
pub(crate) const NODE_STATE_PATIENCE: Duration = Duration::from_secs(1);

/// Nodes of which it is remembered that they were not reached.
pub(crate) const NODES_REMEMBERED: usize = 1024;

/// Idle connections to each other node, and how long one may be idle: less than nodes keep them.
pub(crate) const HOP_IDLE_CONNECTIONS: usize = 64;
pub(crate) const HOP_IDLE: Duration = Duration::from_secs(5);
