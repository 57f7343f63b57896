//! etcd: the v3lock service through the JSON gateway, over HTTP/1.1.

use std::io::Write as _;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use tokio::net::TcpStream;

use super::claims::field;
use super::{Codec, Decoded, Event, exchange, find, leading_number};

/// One connection with a lease of its own, which has one client.
pub(crate) struct Etcd {
    name: String,
    lease: String,
    key: Vec<u8>,
    locking: bool,
}

impl Codec for Etcd {
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self> {
        ensure!(names.len() == 1, "an HTTP connection carries one client");
        let mut grant = Vec::new();
        post("/v3/lease/grant", br#"{"TTL":60}"#, &mut grant);
        let answer = exchange(stream, &grant, |answer| Ok(response(answer)?.map(|(_, end)| end))).await?;
        let lease = field(&answer, b"\"ID\":\"").context("the lease has no ID")?;
        let lease = String::from_utf8(lease.to_vec())?;
        Ok(Self { name: base64(names[0].as_bytes()), lease, key: Vec::new(), locking: false })
    }

    fn lock(&mut self, _: usize, out: &mut Vec<u8>) {
        self.locking = true;
        let body = format!(r#"{{"name":"{}","lease":"{}"}}"#, self.name, self.lease);
        post("/v3/lock/lock", body.as_bytes(), out);
    }

    fn unlock(&mut self, _: usize, answered: bool, out: &mut Vec<u8>) {
        assert!(answered, "etcd is measured with every answer awaited");
        self.locking = false;
        let mut body = br#"{"key":""#.to_vec();
        body.extend_from_slice(&self.key);
        body.extend_from_slice(br#""}"#);
        post("/v3/lock/unlock", &body, out);
    }

    fn decode(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some((head, end)) = response(input)? else { return Ok(None) };
        if !self.locking {
            return Ok(Some(Decoded::new(end, Some(Event::Unlocked(0)))));
        }
        let key = field(&input[head..end], b"\"key\":\"").context("a lock without a key")?;
        self.key = key.to_vec();
        Ok(Some(Decoded::new(end, Some(Event::Granted(0)))))
    }
}

fn post(path: &str, body: &[u8], out: &mut Vec<u8>) {
    _ = write!(out, "POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
    out.extend_from_slice(body);
}

/// Where the body begins and ends, once it is there wholly.
fn response(input: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = find(input, b"\r\n\r\n").map(|at| at + 4) else { return Ok(None) };
    ensure!(input.starts_with(b"HTTP/1.1 200"), "etcd said {}", String::from_utf8_lossy(input));
    let end = match find(&input[..head], b"\r\nContent-Length: ") {
        Some(at) => Some(head + leading_number(&input[at + 18..]) as usize),
        // Chunked: the last chunk is empty.
        None => find(&input[head..], b"\r\n0\r\n\r\n").map(|at| head + at + 7),
    };
    Ok(end.filter(|end| input.len() >= *end).map(|end| (head, end)))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let is_padding = digit > chunk.len();
            let value = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(if is_padding { '=' } else { char::from(DIGITS[value]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_pads_to_fours() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
    }
}
