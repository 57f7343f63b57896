//! A proxy that keeps answers to itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Forwards to a server. The answers to requests that begin like that are withheld: the server has given
/// them, the client waits.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pattern: Mutex<Option<String>>,
    /// How many answers were withheld.
    withheld: watch::Sender<usize>,
    cut: Mutex<CancellationToken>,
}

impl Proxy {
    pub(crate) async fn new(server: SocketAddr) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            pattern: Mutex::default(),
            withheld: watch::Sender::new(0),
            cut: Mutex::default(),
        });
        tokio::spawn(proxy.clone().run(listener, server));
        proxy
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on the answers to such requests are withheld.
    pub(crate) fn withhold(&self, pattern: &str) {
        *self.pattern.lock() = Some(pattern.to_owned());
    }

    /// Waits until an answer was withheld, and lets the next ones pass.
    pub(crate) async fn has_withheld(&self) {
        self.withheld.subscribe().wait_for(|count| *count > 0).await.unwrap();
        *self.pattern.lock() = None;
        self.withheld.send_replace(0);
    }

    /// Breaks every present connection.
    pub(crate) fn cut(&self) {
        std::mem::take(&mut *self.cut.lock()).cancel();
    }

    async fn run(self: Arc<Self>, listener: TcpListener, server: SocketAddr) {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            // While the server is away, connections break at once.
            let Ok(server) = TcpStream::connect(server).await else { continue };
            let (proxy, cut) = (self.clone(), self.cut.lock().clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = proxy.forward(client, server) => {}
                    () = cut.cancelled() => {}
                }
            });
        }
    }

    async fn forward(&self, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let withholding = AtomicBool::new(false);
        let there = async {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                let begins = |pattern: &String| buffer[..count].starts_with(pattern.as_bytes());
                if self.pattern.lock().as_ref().is_some_and(begins) {
                    withholding.store(true, Ordering::SeqCst);
                }
                if to_server.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        };
        let back = async {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = from_server.read(&mut buffer).await {
                if withholding.load(Ordering::SeqCst) {
                    self.withheld.send_modify(|count| *count += 1);
                    // Nothing breaks: the client goes on waiting.
                    std::future::pending::<()>().await;
                }
                if to_client.write_all(&buffer[..count]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = there => {}
            () = back => {}
        }
    }
}
