//! The program that listens at an address already.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The most bytes of an answer that are read.
const ANSWER_BYTES: u64 = 16 << 10;

/// What is known of it.
#[derive(Debug)]
pub(super) struct Occupant {
    /// How it is, if it is a lockhouse and speaks no TLS.
    pub(super) health: Option<RunningHealth>,
    /// Its process and the name of that, if the system lets this user see it.
    pub(super) process: Option<(u32, String)>,
}

/// How a running server is.
#[derive(Debug)]
pub(super) struct RunningHealth {
    pub(super) version: String,
    /// Why it cannot be given clients, if it cannot.
    pub(super) not_ready: Option<String>,
}

/// The program at `HOST:PORT`.
pub(super) async fn at(listen: &str) -> Occupant {
    let found = timeout(PATIENCE, lookup_host(listen)).await;
    let addresses: Vec<SocketAddr> = found.ok().and_then(Result::ok).into_iter().flatten().collect();
    let mut health = None;
    for address in &addresses {
        health = timeout(PATIENCE, health_at(*address)).await.ok().flatten();
        if health.is_some() {
            break;
        }
    }
    let process = addresses.first().and_then(|address| process_at(address.port()));
    Occupant { health, process }
}

async fn health_at(address: SocketAddr) -> Option<RunningHealth> {
    let live = get(address, "/livez").await?;
    // Its members are those of no other program.
    let version = live["version"].as_str().filter(|_| live["epoch"].is_string())?.to_owned();
    let ready = get(address, "/readyz").await?;
    let not_ready = match ready["status"].as_str() {
        Some("ready") => None,
        status => Some(ready["reason"].as_str().or(status).unwrap_or("it does not say why").to_owned()),
    };
    Some(RunningHealth { version, not_ready })
}

/// The JSON that is there.
async fn get(address: SocketAddr, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let host = match address.ip() {
        ip if ip.is_unspecified() => format!("localhost:{}", address.port()),
        _ => address.to_string(),
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 ").then(|| serde_json::from_str(body).ok()).flatten()
}

/// The process that listens at a port, by what Linux shows.
#[cfg(target_os = "linux")]
fn process_at(port: u16) -> Option<(u32, String)> {
    use std::fs;

    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let inode = tables.iter().flat_map(|table| table.lines()).find_map(|line| {
        // 0: 0100007F:1CFC 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 …
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, "0A", _, _, _, _, _, inode, ..] = words[..] else { return None };
        let is_there = u16::from_str_radix(local.rsplit(':').next()?, 16).ok()? == port;
        is_there.then(|| inode.to_owned())
    })?;
    let socket = format!("socket:[{inode}]");
    let has_socket = |process: &fs::DirEntry| {
        let open = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let mut open = open.filter_map(|file| fs::read_link(file.path()).ok());
        open.any(|file| file.as_os_str() == &*socket)
    };
    let process = fs::read_dir("/proc").ok()?.flatten().find(has_socket)?;
    let pid = process.file_name().to_str()?.parse().ok()?;
    let name = fs::read_to_string(process.path().join("comm")).ok()?;
    Some((pid, name.trim().to_owned()))
}

#[cfg(not(target_os = "linux"))]
fn process_at(_: u16) -> Option<(u32, String)> {
    None
}
