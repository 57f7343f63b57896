//! Ours over HTTP/1.1: claims, which like `SET NX PX` are refused at once where another client has the name,
//! end by themselves, and are released only with their token.

use std::io::Write as _;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use tokio::net::TcpStream;

use super::{Codec, Decoded, Event, find, leading_number};

/// One connection, which has one client.
pub(crate) struct Claims {
    /// The whole requests; in the second, only the token changes.
    claim: Vec<u8>,
    release: Vec<u8>,
    claiming: bool,
}

/// How long the token of a claim is.
const TOKEN: usize = 40;

impl Codec for Claims {
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self> {
        let [name] = &*names else { bail!("an HTTP connection carries one client") };
        let host = stream.peer_addr()?.to_string();
        let (mut claim, mut release) = (Vec::new(), Vec::new());
        let body = format!(r#"{{"resource":"{name}","claimant":"bench","ttlMs":30000}}"#);
        post(&host, "/v1/buckets/default/claims", "", body.as_bytes(), &mut claim);
        let body = format!(r#"{{"resource":"{name}","token":"{:TOKEN$}"}}"#, "");
        post(&host, "/v1/buckets/default/claims/release", "", body.as_bytes(), &mut release);
        Ok(Self { claim, release, claiming: false })
    }

    fn lock(&mut self, _: usize, out: &mut Vec<u8>) {
        self.claiming = true;
        out.extend_from_slice(&self.claim);
    }

    fn unlock(&mut self, _: usize, answered: bool, out: &mut Vec<u8>) {
        assert!(answered, "claims are measured with every answer awaited");
        self.claiming = false;
        out.extend_from_slice(&self.release);
    }

    fn decode(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some(answer) = Answer::read(input)? else { return Ok(None) };
        let event = match (answer.status, self.claiming) {
            (201, true) => {
                let token = field(answer.body, b"\"token\":\"").context("a claim without a token")?;
                ensure!(token.len() == TOKEN, "a token of {} characters", token.len());
                let end = self.release.len() - "\"}".len();
                self.release[end - TOKEN..end].copy_from_slice(token);
                Event::Granted(0)
            }
            (409, true) => Event::Refused(0),
            (200, false) => Event::Unlocked(0),
            (status, _) => bail!("{status} {}", String::from_utf8_lossy(answer.body)),
        };
        Ok(Some(Decoded::new(answer.length, Some(event))))
    }
}

/// Appends a request. `more` are lines of its head, each with its end.
pub(crate) fn post(host: &str, path: &str, more: &str, body: &[u8], out: &mut Vec<u8>) {
    _ = write!(
        out,
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    out.extend_from_slice(body);
}

/// An answer of HTTP.
pub(crate) struct Answer<'a> {
    pub(crate) status: u64,
    pub(crate) body: &'a [u8],
    /// With its head.
    pub(crate) length: usize,
}

impl<'a> Answer<'a> {
    /// Reads it, once it is there wholly.
    pub(crate) fn read(input: &'a [u8]) -> Result<Option<Self>> {
        let Some(head) = find(input, b"\r\n\r\n").map(|at| at + 4) else { return Ok(None) };
        let status = input.strip_prefix(b"HTTP/1.1 ").context("no HTTP")?;
        let length = match find(&input[..head], b"content-length: ") {
            Some(at) => leading_number(&input[at + 16..]) as usize,
            None => 0,
        };
        let body = input.get(head..head + length);
        Ok(body.map(|body| Self { status: leading_number(status), body, length: head + length }))
    }
}

/// The text between `before` and the next quotation mark.
pub(crate) fn field<'a>(text: &'a [u8], before: &[u8]) -> Option<&'a [u8]> {
    let value = &text[find(text, before)? + before.len()..];
    value.split(|byte| *byte == b'"').next()
}
