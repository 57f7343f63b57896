//! A client of HTTPS.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::Files;

/// An open connection.
pub(crate) struct Https(BufReader<TlsStream<TcpStream>>);

/// The answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Https {
    /// Believes the CA in that file.
    pub(crate) async fn connect(address: SocketAddr, ca: &Path) -> io::Result<Self> {
        Self::connect_as(address, ca, None).await
    }

    /// Connects as a client with that certificate, which stands beside the CA's.
    pub(crate) async fn connect_as(address: SocketAddr, ca: &Path, own: Option<&Files>) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let folder = ca.parent().unwrap();
                let chain = vec![CertificateDer::from_pem_file(folder.join(&files.cert)).unwrap()];
                let key = PrivateKeyDer::from_pem_file(folder.join(&files.key)).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        Ok(Self(BufReader::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)))
    }

    pub(crate) async fn get(&mut self, host: &str, path: &str) -> io::Result<Answer> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await
    }

    /// A call of the API with these headers, each with its line end.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<Answer> {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}");
        self.ask(&format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"))
            .await
    }

    async fn ask(&mut self, request: &str) -> io::Result<Answer> {
        self.0.write_all(request.as_bytes()).await?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        answer.body = String::from_utf8(body).unwrap();
        Ok(answer)
    }

    /// Waits for the server to end the connection.
    pub(crate) async fn ended(&mut self) {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }

    /// The certificate that the server showed.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.0.get_ref().get_ref().1.peer_certificates().unwrap()[0].to_vec()
    }

    /// The protocol that was agreed on.
    pub(crate) fn protocol(&self) -> Vec<u8> {
        self.0.get_ref().get_ref().1.alpn_protocol().unwrap().to_vec()
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The certificate in that file.
pub(crate) fn certificate_in(file: &Path) -> Vec<u8> {
    CertificateDer::from_pem_slice(&fs::read(file).unwrap()).unwrap().to_vec()
}
