//! A WebSocket whose server sends back what it gets: the messages of a lock and its unlock, and no lock.

use std::rc::Rc;

use anyhow::Result;
use tokio::net::TcpStream;

use super::lockhouse::{frame, message, upgrade};
use super::{Codec, Decoded, Event, leading_number};

/// The clients of one connection.
pub(crate) struct Echo;

/// Texts as long as those of ours; the number of the client follows, and a bracket.
const LOCK: &[u8] = br#"["request","seq":100000,"id":100000000,"agent":1,"name":"bench-10",1,"#;
const UNLOCK: &[u8] = br#"["release","seq":100000,"id":100000000,"reply":true,0,"#;

impl Codec for Echo {
    async fn open(stream: &mut TcpStream, _names: Rc<[String]>) -> Result<Self> {
        upgrade(stream).await?;
        Ok(Self)
    }

    fn lock(&mut self, client: usize, out: &mut Vec<u8>) {
        frame(&[LOCK, client.to_string().as_bytes(), b"]"].concat(), out);
    }

    fn unlock(&mut self, client: usize, answered: bool, out: &mut Vec<u8>) {
        if answered {
            frame(&[UNLOCK, client.to_string().as_bytes(), b"]"].concat(), out);
        }
    }

    fn decode(&mut self, input: &[u8], _out: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some((start, end)) = message(input)? else { return Ok(None) };
        let text = &input[start..end];
        let (event, rest): (fn(usize) -> Event, _) = match text.strip_prefix(LOCK) {
            Some(rest) => (Event::Granted, rest),
            None => (Event::Unlocked, text.strip_prefix(UNLOCK).unwrap_or_default()),
        };
        Ok(Some(Decoded::new(end, Some(event(leading_number(rest) as usize)))))
    }
}
