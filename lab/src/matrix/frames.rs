//! The cells of the frames.

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use lockhouse_wire::frames_of;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::credentials::{BUCKET, Credential, Expected, State, Whose};
use super::table::{FRAMES, Frame, Needs};
use super::world::{PATIENCE, Words, World, filled};
use super::{ENOUGH, RunTally};

/// Ids of the frames of a session.
const ID: u64 = 2;
const MARK: u64 = 1000;

/// Every frame of the protocol's document stands in the table.
pub(super) fn check_document(root: &Path, tally: &mut RunTally) -> Result<()> {
    let text = std::fs::read_to_string(root.join("protocol/PROTOCOL.md"))?;
    let section = text.split("\n## ").find(|section| section.starts_with("5. Client frames"));
    let section = section.context("PROTOCOL.md has a section of client frames")?;
    let of_row =
        |row: &str| row.strip_prefix("| `").and_then(|rest| rest.split('`').next()).map(str::to_owned);
    let mut documented: BTreeSet<String> = section.lines().filter_map(of_row).collect();
    ensure!(documented.len() > 5, "PROTOCOL.md has no table of client frames");
    // `hello` has a section of its own.
    documented.insert("hello".to_owned());
    let word = |frame: &Frame| frame.name.split(' ').next().unwrap_or_default().to_owned();
    let known: BTreeSet<String> = FRAMES.iter().map(word).collect();
    for frame in documented.symmetric_difference(&known) {
        tally.wrong(format!("the frame {frame} stands in only one of PROTOCOL.md and the table"));
    }
    Ok(())
}

/// All frames with all credentials.
pub(super) async fn run(world: &World, tally: &mut RunTally) -> Result<()> {
    let prepared = world.words().await?;
    for frame in FRAMES {
        if tally.wrong.len() >= ENOUGH {
            return Ok(());
        }
        for credential in &world.credentials.all {
            let expected = credential.expected(frame.needs);
            let made = if matches!(expected, Expected::Done(_)) { Some(world.words().await?) } else { None };
            let words = made.as_ref().unwrap_or(&prepared);
            let wrong = judge(world, frame, credential, expected, words).await.unwrap_or_else(failure);
            if let Some(words) = &made {
                world.tidy(words).await?;
            }
            tally.judge(wrong.map(|why| format!("{} with {}: {why}", frame.name, credential.name)));
        }
        for credential in
            world.credentials.all.iter().filter(|it| matches!(it.state, State::Deleted | State::Curbed))
        {
            if tally.wrong.len() >= ENOUGH {
                return Ok(());
            }
            let words = world.words().await?;
            let wrong = judge_end(world, frame, credential, &words).await.unwrap_or_else(failure);
            world.reload(&world.credentials.settings)?;
            world.tidy(&words).await?;
            tally.judge(
                wrong.map(|why| format!("{} and then without {}: {why}", frame.name, credential.name)),
            );
        }
    }
    Ok(())
}

/// A failure that prevents a judgement, in words.
#[allow(clippy::needless_pass_by_value, reason = "as it is called")]
fn failure(error: anyhow::Error) -> Option<String> {
    Some(format!("{error:#}"))
}

/// The complaint, if there is one.
async fn judge(
    world: &World,
    frame: &Frame,
    credential: &Credential,
    expected: Expected,
    words: &Words,
) -> Result<Option<String>> {
    let mut client = Client::open(world, credential).await?;
    client.hello(credential).await?;
    let first = client.next().await?;
    let may_connect = credential.expected(Needs::Anything);
    if !matches!(may_connect, Expected::Done(_)) {
        return refused_at_hello(&mut client, &first, may_connect).await;
    }
    if first["type"] != "welcome" {
        return Ok(Some(format!("a welcome was expected, but it is {first}")));
    }
    client.call(json!({"type": "join", "agent": 1, "clientId": "a"})).await?;
    let answers = client.ask(frame, words).await?;
    let answered = |kind: &str| answers.iter().find(|answer| answer["type"] == kind && answer["id"] == ID);
    let forbidden = answers.iter().find(|answer| answer["code"] == "forbidden");
    let complaint = match (expected, frame.answer) {
        (Expected::Forbidden(_), _) if forbidden.is_some_and(|error| error["id"] == ID) => {
            // The frame had no effect.
            answered("granted")
                .or(answered("snapshot"))
                .map(|answer| format!("it was forbidden, and done: {answer}"))
        }
        (Expected::Done(_), _) if forbidden.is_some() => Some("it was forbidden".to_owned()),
        (Expected::Done(whose), Some(kind)) => match answered(kind) {
            Some(answer) if kind == "snapshot" => strange_sight(answer, whose),
            Some(_) => None,
            None => Some(format!("{kind} was expected")),
        },
        (Expected::Done(_), None) => None,
        (expected, _) => Some(format!("{expected:?} was expected")),
    };
    Ok(complaint.map(|why| format!("{why}: {answers:?}")))
}

/// Callers of other tenants see nothing of the prepared state.
fn strange_sight(snapshot: &Value, whose: Whose) -> Option<String> {
    let held = snapshot["held"].as_array().is_some_and(|held| !held.is_empty());
    (held != (whose == Whose::Ours)).then(|| format!("{whose:?} sees {snapshot}"))
}

async fn refused_at_hello(client: &mut Client, first: &Value, expected: Expected) -> Result<Option<String>> {
    let (code, close) =
        if expected == Expected::Unauthenticated { ("unauthenticated", 4401) } else { ("forbidden", 4403) };
    if first["type"] != "fatal" || first["code"] != code {
        return Ok(Some(format!("fatal {code} was expected, but it is {first}")));
    }
    let closed = client.closed().await?;
    Ok((closed != Some(close)).then(|| format!("close {close} was expected, but it is {closed:?}")))
}

/// A session whose credential is deleted or curbed ends at once, and its locks are free.
async fn judge_end(
    world: &World,
    frame: &Frame,
    credential: &Credential,
    words: &Words,
) -> Result<Option<String>> {
    if frame.name == "bye" {
        return Ok(None);
    }
    let mut client = Client::open(world, credential).await?;
    client.hello(credential).await?;
    ensure!(client.next().await?["type"] == "welcome", "{} is not taken", credential.name);
    client.call(json!({"type": "join", "agent": 1, "clientId": "a"})).await?;
    client.ask(frame, words).await?;
    world.reload(&world.credentials.later)?;
    let expected =
        if credential.state == State::Deleted { Expected::Unauthenticated } else { Expected::NothingHere };
    // A session that goes on gets heartbeats until its lease ends.
    let end = async {
        loop {
            let next = client.next().await?;
            if matches!(next["type"].as_str(), Some("fatal" | "closed")) {
                return anyhow::Ok(next);
            }
        }
    };
    let Ok(end) = timeout(PATIENCE, end).await else { return Ok(Some("its session goes on".to_owned())) };
    let end = end?;
    if end["type"] == "closed" {
        return Ok(Some("it was closed without a word".to_owned()));
    }
    if let Some(why) = refused_at_hello(&mut client, &end, expected).await? {
        return Ok(Some(why));
    }
    // The next client is granted the locks that the session held.
    let maker = world.credentials.named("everything")?;
    let mut next = Client::open(world, maker).await?;
    next.hello(maker).await?;
    ensure!(next.next().await?["type"] == "welcome", "the maker is not taken");
    next.call(json!({"type": "join", "agent": 1, "clientId": "a"})).await?;
    next.call(json!({"type": "request", "id": ID, "agent": 1, "name": words["free"]})).await?;
    loop {
        let answer = next.next().await?;
        if answer["id"] == ID {
            let is_granted = answer["type"] == "granted";
            return Ok((!is_granted).then(|| format!("its lock is not free: {answer}")));
        }
    }
}

struct Client {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    /// The frames of a message that are still to be read.
    frames: VecDeque<Value>,
    seq: u64,
}

impl Client {
    async fn open(world: &World, credential: &Credential) -> Result<Self> {
        let mut request = format!("wss://{}/v1/ws?bucket={BUCKET}", world.address).into_client_request()?;
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("lockhouse.v1"));
        let opening = async {
            let stream = TcpStream::connect(world.address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::from(world.address.ip());
            let stream = TlsConnector::from(credential.client.tls.clone()).connect(name, stream).await?;
            Ok::<_, anyhow::Error>(client_async(request, stream).await?.0)
        };
        let socket = timeout(PATIENCE, opening).await??;
        Ok(Self { socket, frames: VecDeque::new(), seq: 0 })
    }

    async fn send(&mut self, text: String) -> Result<()> {
        Ok(self.socket.send(Message::text(text)).await?)
    }

    async fn hello(&mut self, credential: &Credential) -> Result<()> {
        self.send(json!({"type": "hello", "client": "matrix", "credential": credential.text}).to_string())
            .await
    }

    async fn call(&mut self, mut frame: Value) -> Result<()> {
        self.seq += 1;
        frame["seq"] = json!(self.seq);
        self.send(frame.to_string()).await
    }

    /// The next frame that means something; `closed` at the end.
    async fn next(&mut self) -> Result<Value> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                match frame["type"].as_str() {
                    Some("ping") => self.send(json!({"type": "pong", "n": frame["n"]}).to_string()).await?,
                    Some("ack") => {}
                    _ => return Ok(frame),
                }
                continue;
            }
            let message = timeout(PATIENCE, self.socket.next()).await.context("the server says nothing")?;
            let text = match message {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(frame))) => {
                    return Ok(json!({"type": "closed", "code": frame.map(|frame| u16::from(frame.code))}));
                }
                None | Some(Err(_)) => return Ok(json!({"type": "closed"})),
                Some(Ok(_)) => continue,
            };
            traces::answer(&text);
            let frames = frames_of(&text).map_err(|problem| anyhow::anyhow!("{problem}"))?;
            self.frames = frames.into_iter().map(serde_json::from_str).collect::<Result<_, _>>()?;
        }
    }

    async fn closed(&mut self) -> Result<Option<u64>> {
        let next = self.next().await?;
        Ok(next["code"].as_u64().filter(|_| next["type"] == "closed"))
    }

    /// Sends the frame, and gives what comes up to the answer to a mark behind it, or up to the end.
    async fn ask(&mut self, frame: &Frame, words: &Words) -> Result<Vec<Value>> {
        if !frame.text.is_empty() {
            let mut text = filled(frame.text, words).replace("{id}", &ID.to_string());
            if text.contains("{seq}") {
                self.seq += 1;
                text = text.replace("{seq}", &self.seq.to_string());
            }
            self.send(text).await?;
        }
        if frame.name != "bye" {
            self.call(json!({"type": "release", "id": MARK, "reply": true})).await?;
        }
        let mut answers = Vec::new();
        let mut is_marked = false;
        loop {
            // An answer that depends on a commit may come after the mark.
            let is_complete = frame.answer.is_none() || !answers.is_empty();
            if is_marked && is_complete {
                return Ok(answers);
            }
            let next = self.next().await?;
            match next["type"].as_str() {
                Some("closed") if frame.name == "bye" => return Ok(answers),
                Some("closed") => bail!("{} was answered by the end: {next}", frame.name),
                _ if next["id"] == MARK => is_marked = true,
                _ => answers.push(next),
            }
        }
    }
}
