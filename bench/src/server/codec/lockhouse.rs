//! Ours: WebSocket text frames of `protocol/PROTOCOL.md`, sent and read without a library, as the peers'
//! protocols are.

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use tokio::net::TcpStream;

use super::{Codec, Decoded, Event, exchange, find, leading_number, put};

/// A session with one agent.
pub(crate) struct Lockhouse {
    names: Rc<[String]>,
    /// The request of each client.
    ids: Vec<u64>,
    last_id: u64,
    sent: u64,
    received: u64,
    acknowledged: u64,
    /// The frames of the message that is being made, each behind a bracket or a comma.
    message: Vec<u8>,
    frames: usize,
    /// Where the next frame of the array begins that is being read.
    next: usize,
}

/// A request's id ends with the number of its client.
const CLIENT_BITS: u32 = 10;
/// How many frames may be unacknowledged before the next frame carries an `ack`; the protocol allows 64.
const ACK_AFTER: u64 = 32;
/// The bounds of a message, and the longest frame of these.
const BATCH_FRAMES: usize = 1024;
const FRAME_BYTES: usize = 65_536;
const LONGEST: usize = 1024;
/// A real client picks the key at random for each frame; to the server any key costs the same.
const MASK: [u8; 4] = [0x5b, 0x1d, 0xe4, 0x97];

impl Codec for Lockhouse {
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self> {
        ensure!(names.len() <= 1 << CLIENT_BITS, "{} clients on one connection", names.len());
        upgrade(stream).await?;
        let mut hello = Vec::new();
        frame(br#"{"type":"hello","client":"lockhouse-bench"}"#, &mut hello);
        let welcome = exchange(stream, &hello, |answer| Ok(message(answer)?.map(|(_, end)| end))).await?;
        ensure!(
            find(&welcome, b"\"welcome\"").is_some(),
            "no welcome: {}",
            String::from_utf8_lossy(&welcome)
        );
        let mut join = Vec::new();
        frame(br#"{"type":"join","seq":1,"agent":1,"clientId":"bench"}"#, &mut join);
        exchange(stream, &join, |_| Ok(Some(0))).await?;
        let ids = vec![0; names.len()];
        Ok(Self {
            names,
            ids,
            last_id: 0,
            sent: 1,
            received: 0,
            acknowledged: 0,
            message: Vec::new(),
            frames: 0,
            next: 0,
        })
    }

    fn lock(&mut self, client: usize, out: &mut Vec<u8>) {
        self.last_id += 1;
        let id = self.last_id << CLIENT_BITS | client as u64;
        self.ids[client] = id;
        self.begin(br#"{"type":"request","seq":"#, out);
        let mut buffer = itoa::Buffer::new();
        let id = buffer.format(id).as_bytes();
        put(
            &mut self.message,
            &[br#","id":"#, id, br#","agent":1,"name":""#, self.names[client].as_bytes(), b"\"}"],
        );
    }

    fn unlock(&mut self, client: usize, answered: bool, out: &mut Vec<u8>) {
        self.begin(br#"{"type":"release","seq":"#, out);
        let mut buffer = itoa::Buffer::new();
        let id = buffer.format(self.ids[client]).as_bytes();
        let end: &[u8] = if answered { br#","reply":true}"# } else { b"}" };
        put(&mut self.message, &[br#","id":"#, id, end]);
    }

    fn end_turn(&mut self, out: &mut Vec<u8>) {
        match std::mem::take(&mut self.frames) {
            0 => return,
            1 => frame(&self.message[1..], out),
            _ => {
                self.message.push(b']');
                frame(&self.message, out);
            }
        }
        self.message.clear();
    }

    fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some((start, end)) = message(input)? else { return Ok(None) };
        let (mut text, mut length) = (&input[start..end], end);
        if text.starts_with(b"[") {
            // No frame of these has an object in it, or a brace in a string.
            let from = self.next.max(start + 1);
            let until = find(&input[from..end], b"}").context("an array without an end")? + from + 1;
            text = &input[from..until];
            let is_last = input[until] == b']';
            (self.next, length) = if is_last { (0, end) } else { (until + 1, 0) };
        }
        let numbered = |event: fn(usize) -> Event| {
            let id = find(text, b"\"id\":").map(|at| leading_number(&text[at + 5..]));
            Ok(event((id.context("an answer without id")? & ((1 << CLIENT_BITS) - 1)) as usize))
        };
        let event: Result<Event> = if text.starts_with(br#"{"type":"granted""#) {
            numbered(Event::Granted)
        } else if text.starts_with(br#"{"type":"released""#) {
            numbered(Event::Unlocked)
        } else if text.starts_with(br#"{"type":"ping""#) {
            let n = find(text, b"\"n\":")
                .map(|at| leading_number(&text[at + 4..]))
                .context("a ping without n")?;
            frame(format!(r#"{{"type":"pong","n":{n}}}"#).as_bytes(), out);
            return Ok(Some(Decoded::new(length, None)));
        } else if text.starts_with(br#"{"type":"ack""#) {
            return Ok(Some(Decoded::new(length, None)));
        } else {
            bail!("the server said {}", String::from_utf8_lossy(text))
        };
        self.received += 1;
        Ok(Some(Decoded::new(length, Some(event?))))
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        frame(br#"{"type":"bye"}"#, out);
    }
}

impl Lockhouse {
    /// Begins a frame, in a message of its own if it might not fit in the present one.
    fn begin(&mut self, head: &[u8], out: &mut Vec<u8>) {
        if self.frames == BATCH_FRAMES || self.message.len() + LONGEST > FRAME_BYTES {
            self.end_turn(out);
        }
        self.message.push(if self.frames == 0 { b'[' } else { b',' });
        self.frames += 1;
        self.sent += 1;
        let mut buffer = itoa::Buffer::new();
        put(&mut self.message, &[head, buffer.format(self.sent).as_bytes()]);
        if self.received - self.acknowledged >= ACK_AFTER {
            self.acknowledged = self.received;
            put(&mut self.message, &[br#","ack":"#, buffer.format(self.received).as_bytes()]);
        }
    }
}

/// The handshake of a WebSocket.
pub(super) async fn upgrade(stream: &mut TcpStream) -> Result<()> {
    let host = stream.peer_addr()?;
    let upgrade = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: lockhouse.v1\r\n\r\n"
    );
    let end_of_head = |answer: &[u8]| Ok(find(answer, b"\r\n\r\n").map(|at| at + 4));
    let head = exchange(stream, upgrade.as_bytes(), end_of_head).await?;
    ensure!(head.starts_with(b"HTTP/1.1 101"), "no upgrade: {}", String::from_utf8_lossy(&head));
    Ok(())
}

/// Appends a masked text frame.
pub(super) fn frame(text: &[u8], out: &mut Vec<u8>) {
    out.push(0x81);
    if text.len() < 126 {
        out.push(0x80 | text.len() as u8);
    } else {
        out.push(0x80 | 126);
        out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    }
    out.extend_from_slice(&MASK);
    let start = out.len();
    out.extend_from_slice(text);
    out[start..].iter_mut().zip(MASK.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

/// Where the first message begins and ends, once it is there wholly.
pub(super) fn message(input: &[u8]) -> Result<Option<(usize, usize)>> {
    let [kind, short, rest @ ..] = input else { return Ok(None) };
    ensure!(*kind == 0x81, "a WebSocket frame of kind {kind:#x} instead of text");
    let (start, length) = match (*short, rest) {
        (126, [high, low, ..]) => (4, usize::from(u16::from_be_bytes([*high, *low]))),
        (126, _) => return Ok(None),
        (127.., _) => bail!("a WebSocket frame longer than the protocol allows"),
        (length, _) => (2, usize::from(length)),
    };
    Ok((input.len() >= start + length).then_some((start, start + length)))
}
