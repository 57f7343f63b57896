//! Redis: `SET name token NX PX`, and compare-and-delete by a script, over RESP.

use std::collections::VecDeque;
use std::io::Write as _;
use std::rc::Rc;

use anyhow::{Result, bail, ensure};
use tokio::net::TcpStream;

use super::{Codec, Decoded, Event, exchange, find, put};

const UNLOCK: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// One connection. Answers come in the order of the commands.
pub(crate) struct Redis {
    /// As they stand in a command.
    names: Vec<Vec<u8>>,
    /// The beginning of the command that unlocks.
    unlock: Vec<u8>,
    tokens: Vec<u64>,
    last_token: u64,
    /// The subjects of the answers to come: a client, and whether it asked for its lock.
    awaited: VecDeque<(usize, Asked)>,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Lock,
    Unlock,
    /// The answer does not matter.
    UnlockUnanswered,
}

impl Codec for Redis {
    async fn open(stream: &mut TcpStream, names: Rc<[String]>) -> Result<Self> {
        let mut load = Vec::new();
        command(&["SCRIPT", "LOAD", UNLOCK], &mut load);
        let both_lines =
            |answer: &[u8]| Ok((answer.iter().filter(|b| **b == b'\n').count() == 2).then_some(answer.len()));
        let answer = String::from_utf8(exchange(stream, &load, both_lines).await?)?;
        let sha = answer.lines().nth(1).unwrap_or_default().to_owned();
        ensure!(sha.len() == 40, "SCRIPT LOAD said {answer:?}");
        let unlock = format!("*5\r\n$7\r\nEVALSHA\r\n$40\r\n{sha}\r\n$1\r\n1\r\n").into_bytes();
        let tokens = vec![0; names.len()];
        let names = names.iter().map(|name| format!("${}\r\n{name}\r\n", name.len()).into_bytes()).collect();
        Ok(Self { names, unlock, tokens, last_token: 0, awaited: VecDeque::new() })
    }

    fn lock(&mut self, client: usize, out: &mut Vec<u8>) {
        self.last_token += 1;
        self.tokens[client] = self.last_token;
        let token = hex(self.last_token);
        put(
            out,
            &[
                b"*6\r\n$3\r\nSET\r\n",
                &self.names[client],
                b"$16\r\n",
                &token,
                b"\r\n$2\r\nNX\r\n$2\r\nPX\r\n$5\r\n30000\r\n",
            ],
        );
        self.awaited.push_back((client, Asked::Lock));
    }

    fn unlock(&mut self, client: usize, answered: bool, out: &mut Vec<u8>) {
        let token = hex(self.tokens[client]);
        put(out, &[&self.unlock, &self.names[client], b"$16\r\n", &token, b"\r\n"]);
        self.awaited.push_back((client, if answered { Asked::Unlock } else { Asked::UnlockUnanswered }));
    }

    fn decode(&mut self, input: &[u8], _: &mut Vec<u8>) -> Result<Option<Decoded>> {
        let Some(line) = find(input, b"\r\n") else { return Ok(None) };
        let Some((client, asked)) = self.awaited.pop_front() else { bail!("an answer to nothing") };
        let event = match (&input[..line], asked) {
            (b"+OK", Asked::Lock) => Some(Event::Granted(client)),
            (b"$-1", Asked::Lock) => Some(Event::Refused(client)),
            (b":1", Asked::Unlock) => Some(Event::Unlocked(client)),
            (b":1", Asked::UnlockUnanswered) => None,
            (answer, _) => bail!("Redis answered {:?} to {asked:?}", String::from_utf8_lossy(answer)),
        };
        Ok(Some(Decoded::new(line + 2, event)))
    }
}

fn command(words: &[&str], out: &mut Vec<u8>) {
    _ = write!(out, "*{}\r\n", words.len());
    words.iter().for_each(|word| _ = write!(out, "${}\r\n{word}\r\n", word.len()));
}

/// Sixteen digits, so that all tokens are of one length.
fn hex(token: u64) -> [u8; 16] {
    std::array::from_fn(|digit| b"0123456789abcdef"[(token >> (60 - 4 * digit) & 15) as usize])
}
