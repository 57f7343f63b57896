//! The hop from the node that a client has come to, to the node that has its bucket.
//!
//! A node that hands a request on proves that it has the secret of the fleet, and says who the caller is: the
//! address, and the certificate of its connection. The same headers of a client are left out.

use std::net::{IpAddr, Ipv6Addr};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use data_encoding::{BASE64, HEXLOWER};
use lockhouse::store::{NodeId, Slot};
use rustls::pki_types::CertificateDer;

use super::replays::{Replays, Sender};
use super::secret::ClusterSecret;
use crate::limits::Network;

/// The proof.
pub(crate) const HOP: HeaderName = HeaderName::from_static("lockhouse-hop");

/// The address of the caller.
const CALLER: HeaderName = HeaderName::from_static("lockhouse-caller");

/// The certificates that the caller showed, in base64, with commas between them.
const CERTIFICATE: HeaderName = HeaderName::from_static("lockhouse-certificate");

/// The slot that a WebSocket is about, whose bucket is known only by the frame behind its handshake.
const SLOT: HeaderName = HeaderName::from_static("lockhouse-slot");

/// The caller whose request is handed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HopCaller {
    pub(crate) from: Option<Network>,
    /// As it was shown, its own first; empty if none was.
    pub(crate) certificate: Vec<CertificateDer<'static>>,
    /// The slot that the request is about, if it does not say so itself.
    pub(crate) slot: Option<Slot>,
}

/// The mark of a request that another node hands on, among its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forwarded {
    pub(crate) slot: Option<Slot>,
}

/// The headers of a request that is none of a client, without a proof for this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is handed on to another node, or by one with another secret")]
pub(crate) struct Misdirected;

/// What the proof is of, apart from the caller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// The node that the request is for.
    pub(super) node: NodeId,
    pub(super) method: &'a str,
    /// Path and query.
    pub(super) path: &'a str,
}

/// What is known of the caller; a header is left out if its text is empty.
const OF_CALLER: [HeaderName; 3] = [CALLER, CERTIFICATE, SLOT];

/// Takes the headers of a hop out, which only other nodes may send.
fn strip(headers: &mut HeaderMap) {
    [HOP, CALLER, CERTIFICATE, SLOT].iter().for_each(|name| _ = headers.remove(name));
}

/// Adds the headers of a hop.
pub(super) fn sign(
    headers: &mut HeaderMap,
    secret: &ClusterSecret,
    (sender, number): (Sender, u64),
    target: Target<'_>,
    caller: &HopCaller,
) {
    strip(headers);
    let value = |text: &str| HeaderValue::try_from(text).expect("it is ASCII");
    let texts = texts(caller);
    let number = number.to_be_bytes();
    let proof = secret.prove(&parts(&sender, &number, target, &texts, &target.node.0.to_be_bytes()));
    let hop: [&[u8]; 3] = [&sender, &number, &proof];
    headers.insert(HOP, value(&HEXLOWER.encode(&hop.concat())));
    for (name, text) in OF_CALLER.into_iter().zip(&texts).filter(|(_, text)| !text.is_empty()) {
        headers.insert(name, value(text));
    }
}

/// Takes the headers of a hop out, if they are for this node and have not come before.
///
/// # Errors
///
/// [`Misdirected`].
pub(super) fn verify(
    headers: &mut HeaderMap,
    secret: &ClusterSecret,
    replays: &Replays,
    target: Target<'_>,
) -> Result<HopCaller, Misdirected> {
    let text =
        |name: &HeaderName| headers.get(name).map_or(Ok(""), HeaderValue::to_str).map_err(|_| Misdirected);
    let [from, certificate, slot] = OF_CALLER.map(|name| text(&name).map(str::to_owned));
    let texts = [from?, certificate?, slot?];
    let hop = HEXLOWER.decode(text(&HOP)?.as_bytes()).map_err(|_| Misdirected)?;
    let (sender, rest) = hop.split_first_chunk::<16>().ok_or(Misdirected)?;
    let (number, proof) = rest.split_first_chunk::<8>().ok_or(Misdirected)?;
    let node = target.node.0.to_be_bytes();
    if !secret.is_proven(&parts(sender, number, target, &texts, &node), proof)
        || !replays.is_new(*sender, u64::from_be_bytes(*number))
    {
        return Err(Misdirected);
    }
    strip(headers);
    let [from, certificate, slot] = &texts;
    let slot =
        (!slot.is_empty()).then(|| slot.parse().map(Slot::new).map_err(|_| Misdirected)).transpose()?;
    Ok(HopCaller { from: network(from)?, certificate: chain(certificate)?, slot })
}

fn parts<'a>(
    sender: &'a Sender,
    number: &'a [u8; 8],
    target: Target<'a>,
    texts: &'a [String; 3],
    node: &'a [u8; 8],
) -> [&'a [u8]; 9] {
    let [from, certificate, slot] = texts.each_ref().map(String::as_bytes);
    let (method, path) = (target.method.as_bytes(), target.path.as_bytes());
    [b"hop", sender, number, node, method, path, from, certificate, slot]
}

/// The caller as the headers have it that are [`OF_CALLER`].
fn texts(caller: &HopCaller) -> [String; 3] {
    let from = caller.from.map(|from| match from {
        Network::V4(address) => address.to_string(),
        Network::V6([a, b, c, d]) => Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string(),
    });
    let certificates: Vec<String> = caller.certificate.iter().map(|der| BASE64.encode(der)).collect();
    let slot = caller.slot.map(|slot| slot.get().to_string());
    [from.unwrap_or_default(), certificates.join(","), slot.unwrap_or_default()]
}

fn network(text: &str) -> Result<Option<Network>, Misdirected> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: IpAddr = text.parse().map_err(|_| Misdirected)?;
    Ok(Some(address.into()))
}

fn chain(text: &str) -> Result<Vec<CertificateDer<'static>>, Misdirected> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let der = |part: &str| BASE64.decode(part.as_bytes()).map(CertificateDer::from).map_err(|_| Misdirected);
    parts.map(der).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> HopCaller {
        let certificate = [vec![1, 2, 3], vec![4]].map(CertificateDer::from).to_vec();
        HopCaller { from: Some(Network::V4([10, 0, 0, 7].into())), certificate, slot: Some(Slot::new(5)) }
    }

    fn target(node: u64, path: &str) -> Target<'_> {
        Target { node: NodeId(node), method: "POST", path }
    }

    #[test]
    fn a_hop_is_taken_once_and_only_by_its_node_for_its_path_and_with_the_secret() {
        let (secret, sender) = (ClusterSecret::new(&[7; 32]), ([1; 16], 5));
        let mut signed = HeaderMap::new();
        sign(&mut signed, &secret, sender, target(1, "/a"), &caller());
        let replays = Replays::default();
        let take = |headers: &HeaderMap, secret: &ClusterSecret, target| {
            verify(&mut headers.clone(), secret, &replays, target)
        };
        assert_eq!(take(&signed, &secret, target(2, "/a")), Err(Misdirected));
        assert_eq!(take(&signed, &secret, target(1, "/b")), Err(Misdirected));
        assert_eq!(take(&signed, &ClusterSecret::new(&[8; 32]), target(1, "/a")), Err(Misdirected));
        for (name, value) in [(CALLER, "10.0.0.8"), (SLOT, "6")] {
            let mut other = signed.clone();
            other.insert(name, HeaderValue::from_static(value));
            assert_eq!(take(&other, &secret, target(1, "/a")), Err(Misdirected));
        }
        assert_eq!(take(&signed, &secret, target(1, "/a")), Ok(caller()));
        assert_eq!(take(&signed, &secret, target(1, "/a")), Err(Misdirected), "again");
        verify(&mut signed, &secret, &Replays::default(), target(1, "/a")).expect("it is for this node");
        assert!(signed.is_empty(), "nothing of it is handed on");
    }

    #[test]
    fn what_a_client_claims_is_left_out() {
        let mut headers = HeaderMap::new();
        let value = || HeaderValue::from_static("10.0.0.1");
        [HOP, CALLER, CERTIFICATE, SLOT].into_iter().for_each(|name| _ = headers.append(name, value()));
        strip(&mut headers);
        assert!(headers.is_empty());
    }
}
