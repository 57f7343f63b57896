//! Whole conversations over the WebSocket of a real server.
//!
//! An input is the client's side of a session, a message in each line, with `$SESSION` and `$SECRET` for the
//! values in the last `welcome`. A line that begins with `!` stands for something else:
//!
//! ```text
//! {"type":"hello"}
//! {"type":"join","seq":1,"agent":1,"clientId":"tab"}
//! !raw 88 80 00           bytes of the socket, in hexadecimal
//! !binary text            a binary message
//! !close 1001             a close of the client's own
//! !cut                    the connection breaks off, and another one begins
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use lockhouse::{Mode, NameBuf};
use lockhouse_server::{Config, Server, router};
use lockhouse_wire::{
    ClientFrame, Envelope, FRAME_BYTES, MessageCursor, NUMBER_LIMIT, ServerEvent, ServerFrame, SnapshotPage,
    close, frames_of,
};
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::promise;

/// More messages add nothing but time.
const MESSAGES: usize = 64;

/// No answer to a frame is longer (protocol/PROTOCOL.md, section 4).
const ANSWER_BYTES: usize = 4096;

/// A server that has nothing else to do and does not answer for so long has hung.
const SILENCE: Duration = Duration::from_secs(5);

/// The server sends only frames that the protocol allows: frames in bounds that parse, numbered without a
/// gap. No request is granted twice, no snapshot shows holders that exclude each other, and a fatal error is
/// sent before the close that the protocol has for it.
pub fn session(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime of one thread").block_on(play(data));
}

async fn play(data: &[u8]) {
    let app = router(Server::new(Config::default()));
    let mut client = Client { app, socket: None, announced: Announced::default() };
    let lines = data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for line in lines.take(MESSAGES) {
        client.say(line).await;
    }
    client.ask_for_everything().await;
}

struct Client {
    app: axum::Router,
    /// None once it is closed, until a `!cut`.
    socket: Option<WebSocketStream<DuplexStream>>,
    announced: Announced,
}

/// The facts that the server has announced over all connections.
#[derive(Default)]
struct Announced {
    session: String,
    secret: String,
    welcomed: bool,
    /// The number that the last `hello` acknowledged.
    received: u64,
    next_seq: u64,
    /// The highest number that has come in this session, over all connections.
    seen: u64,
    granted: BTreeSet<u64>,
    /// A message that is fatal has come: the close has to follow.
    fatal: Option<u16>,
    answered: bool,
}

/// The id of the query at the end.
const LAST_QUERY: u64 = NUMBER_LIMIT - 1;

impl Client {
    async fn say(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let text =
            line.replace("$SESSION", &self.announced.session).replace("$SECRET", &self.announced.secret);
        let Some(command) = text.strip_prefix('!') else {
            let mut cursor = MessageCursor::default();
            if let Ok(first) = cursor.next(&text)
                && let Ok(Envelope { frame: ClientFrame::Hello(hello), .. }) =
                    Envelope::<ClientFrame<'_>>::parse(&text[first])
            {
                self.announced.received = hello.resume.map_or(0, |resume| resume.received);
            }
            return self.send(Message::text(text)).await;
        };
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match word {
            "raw" => {
                let digits: Vec<u8> =
                    rest.split(' ').map_while(|pair| u8::from_str_radix(pair, 16).ok()).collect();
                if let Some(socket) = &mut self.socket {
                    // A server that has gone hears it no more.
                    let _ = socket.get_mut().write_all(&digits).await;
                }
            }
            "binary" => self.send(Message::binary(rest.as_bytes().to_vec())).await,
            "close" => {
                let code = rest.parse().unwrap_or(close::NORMAL);
                let frame = CloseFrame { code: code.into(), reason: Utf8Bytes::default() };
                self.send(Message::Close(Some(frame))).await;
            }
            "cut" => self.socket = None,
            _ => {}
        }
    }

    async fn send(&mut self, message: Message) {
        let is_first = self.socket.is_none();
        if is_first {
            self.socket = Some(connect(&self.app).await);
            (self.announced.welcomed, self.announced.fatal) = (false, None);
        }
        let Some(socket) = &mut self.socket else { return };
        // A server that has closed takes no more; what it said before is read all the same.
        let _ = timeout(SILENCE, socket.send(message)).await.expect("the server reads");
        if is_first {
            // The client waits for the welcome, or for the close that comes instead.
            self.hear().await;
        }
    }

    /// Waits until the server has seen all that was sent, or has closed.
    async fn ask_for_everything(&mut self) {
        if self.socket.is_none() {
            return;
        }
        self.send(Message::text(format!(r#"{{"type":"query","id":{LAST_QUERY},"detail":true}}"#))).await;
        while !self.announced.answered && self.hear().await {}
    }

    /// Takes one message; false if there will be no more.
    async fn hear(&mut self) -> bool {
        let Some(socket) = &mut self.socket else { return false };
        match timeout(SILENCE, socket.next()).await.expect("the server answers or closes") {
            Some(Ok(Message::Text(text))) => self.announced.hear(&text),
            Some(Ok(Message::Close(frame))) => {
                let (code, fatal) = (frame.map(|frame| frame.code.into()), self.announced.fatal);
                promise!(fatal.is_none() || fatal == code, "{code:?} closes after {fatal:?}");
                return false;
            }
            Some(Ok(Message::Binary(bytes))) => panic!("the server sends binary: {bytes:?}"),
            Some(Ok(_)) => {}
            Some(Err(error @ (Error::Utf8(_) | Error::Capacity(_)))) => {
                panic!("the server sends what is no message: {error}")
            }
            Some(Err(_)) | None => return false,
        }
        true
    }
}

async fn connect(app: &axum::Router) -> WebSocketStream<DuplexStream> {
    let (ours, theirs) = duplex(1 << 20);
    let service = TowerToHyperService::new(app.clone());
    let serving = http1::Builder::new().serve_connection(TokioIo::new(theirs), service).with_upgrades();
    tokio::spawn(async move { drop(serving.await) });
    let mut request = "ws://127.0.0.1:7420/v1/ws".into_client_request().expect("a plain request");
    let protocol = lockhouse_wire::SUBPROTOCOL.parse().expect("a plain word");
    request.headers_mut().insert("sec-websocket-protocol", protocol);
    client_async(request, ours).await.expect("a server that is new takes everybody").0
}

impl Announced {
    fn hear(&mut self, message: &str) {
        promise!(message.len() <= FRAME_BYTES, "a message of {} bytes", message.len());
        match frames_of(message) {
            Ok(frames) => frames.into_iter().for_each(|frame| self.hear_frame(frame)),
            Err(problem) => panic!("{message}: {problem}"),
        }
    }

    fn hear_frame(&mut self, text: &str) {
        let envelope = Envelope::<ServerFrame<'_>>::parse(text);
        let Ok(Envelope { frame, .. }) = envelope else { panic!("{text}: {envelope:?}") };
        promise!(self.fatal.is_none(), "{text} comes after what was fatal");
        match frame {
            ServerFrame::Welcome(welcome) => {
                promise!(!self.welcomed, "{text} is a second welcome");
                self.welcomed = true;
                if welcome.resumed {
                    promise!(welcome.session == self.session, "{text} resumes another session");
                    self.next_seq = self.received + 1;
                } else {
                    (self.next_seq, self.seen, self.granted) = (1, 0, BTreeSet::new());
                }
                (self.session, self.secret) = (welcome.session.into_owned(), welcome.secret.into_owned());
            }
            ServerFrame::Fatal { code, .. } => self.fatal = Some(code.close_code()),
            _ => {
                promise!(self.welcomed, "{text} comes before the welcome");
                self.hear_in_session(text, frame);
            }
        }
    }

    fn hear_in_session(&mut self, text: &str, frame: ServerFrame<'_>) {
        match frame {
            ServerFrame::Numbered { seq, event } => {
                assert_eq!(seq, self.next_seq, "{text}");
                self.next_seq += 1;
                promise!(text.len() <= ANSWER_BYTES, "{} bytes: {text}", text.len());
                let is_new = seq > self.seen;
                self.seen = self.seen.max(seq);
                match event {
                    ServerEvent::Granted { id, .. } if is_new => {
                        promise!(self.granted.insert(id), "{text} is granted twice");
                    }
                    ServerEvent::Error { id: Some(LAST_QUERY), .. } => self.answered = true,
                    _ => {}
                }
            }
            // The locks of one client fit into one page, or else the last one shows some of them.
            ServerFrame::Snapshot(page) if page.id == LAST_QUERY && !page.more => {
                exclusive_alone(&page);
                self.answered = true;
            }
            _ => {}
        }
    }
}

fn exclusive_alone(page: &SnapshotPage<'_>) {
    let mut holders: BTreeMap<&NameBuf, Vec<Mode>> = BTreeMap::new();
    for entry in &page.held {
        holders.entry(&entry.name).or_default().push(entry.mode);
    }
    for (name, modes) in holders {
        promise!(modes.len() == 1 || !modes.contains(&Mode::Exclusive), "{name:?} is held {modes:?}");
    }
}
