//! One client that does one pair after another and takes the time of each.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::codec::{Codec, Event};
use crate::server::load::connect_patiently;

/// Pairs on `name` until `stop`; how long each took, in µs.
pub(super) async fn pairs<C: Codec>(
    address: SocketAddr,
    name: &str,
    stop: Rc<Cell<bool>>,
) -> Result<Vec<f64>> {
    let names: Rc<[String]> = Rc::new([name.to_owned()]);
    let (mut stream, mut codec) = connect_patiently::<C>(address, names).await?;
    let (mut input, mut out, mut took_us) = (Vec::new(), Vec::new(), Vec::new());
    while !stop.get() {
        let start = Instant::now();
        codec.lock(0, &mut out);
        expect(Event::Granted(0), &mut codec, &mut stream, &mut input, &mut out).await?;
        codec.unlock(0, true, &mut out);
        expect(Event::Unlocked(0), &mut codec, &mut stream, &mut input, &mut out).await?;
        took_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    codec.close(&mut out);
    stream.write_all(&out).await?;
    stream.shutdown().await?;
    Ok(took_us)
}

async fn expect<C: Codec>(
    event: Event,
    codec: &mut C,
    stream: &mut TcpStream,
    input: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<()> {
    loop {
        codec.end_turn(out);
        stream.write_all(out).await?;
        out.clear();
        while let Some(decoded) = codec.decode(input, out)? {
            input.drain(..decoded.length);
            match decoded.event {
                Some(found) if found == event => return Ok(()),
                Some(found) => bail!("{found:?} instead of {event:?}"),
                None => {}
            }
        }
        if !out.is_empty() {
            continue;
        }
        if stream.read_buf(input).await? == 0 {
            bail!("the server hung up");
        }
    }
}

/// The value below which that share of the values lies.
pub(super) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
