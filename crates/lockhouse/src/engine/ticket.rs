//! Tickets: with them agents bring back the web locks that they held before a restart of the server, which
//! keeps none.
//!
//! A ticket is a keyed hash over all properties of the lock, so that no client can make one up or use it for
//! another lock. A ticket is sent to the holder alone, and never logged.

use std::fmt;

use data_encoding::HEXLOWER;
use lockhouse_core::{FencingToken, Mode, Name};
use subtle::ConstantTimeEq;

use crate::engine::key::BucketKey;
use crate::keyed_hash::KeyedHash;

/// How much of the hash a ticket has.
const MAC_BYTES: usize = 16;

/// The label that separates this use of the key from every other.
const PURPOSE: &[u8] = b"lockhouse ticket 1";

/// Issues the tickets of one life of the server and checks those of earlier ones.
#[derive(Clone)]
pub(crate) struct Tickets {
    keyed: KeyedHash,
    epoch: u64,
    since: u64,
}

/// The lock that a ticket speaks of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticketed<'a> {
    /// The bucket.
    pub(crate) bucket: &'a BucketKey,
    /// The label of the agent that holds it.
    pub(crate) client_id: &'a str,
    /// The resource name.
    pub(crate) name: Name<'a>,
    /// How it is held.
    pub(crate) mode: Mode,
    /// The token of its grant.
    pub(crate) token: FencingToken,
}

impl Tickets {
    /// The tickets of this epoch. Tickets from before epoch `since`, in which the last recovery was
    /// completed, are void.
    pub(crate) fn new(key: &[u8; 32], epoch: u64, since: u64) -> Self {
        Self { keyed: KeyedHash::new(key), epoch, since }
    }

    /// The ticket of a lock that is granted now: the epoch, a dot, and the hash in hexadecimal digits.
    pub(crate) fn issue(&self, lock: &Ticketed<'_>) -> String {
        format!("{}.{}", self.epoch, HEXLOWER.encode(&self.hash(lock, self.epoch)))
    }

    /// Whether it is the ticket of that lock, from an earlier epoch whose locks may still be brought back.
    /// How long it takes says nothing of how much of the hash is right.
    pub(crate) fn verify(&self, lock: &Ticketed<'_>, ticket: &str) -> bool {
        let Some((epoch, mac)) = parse(ticket) else { return false };
        (self.since..self.epoch).contains(&epoch) && self.hash(lock, epoch).ct_eq(&mac).into()
    }

    fn hash(&self, lock: &Ticketed<'_>, epoch: u64) -> [u8; MAC_BYTES] {
        self.keyed.of([
            PURPOSE,
            lock.bucket.partition.as_bytes(),
            lock.bucket.bucket.as_bytes(),
            lock.client_id.as_bytes(),
            lock.name.as_wtf8(),
            &[u8::from(lock.mode == Mode::Shared)],
            &lock.token.get().to_be_bytes(),
            &epoch.to_be_bytes(),
        ])
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

/// Takes only the form that [`Tickets::issue`] writes.
fn parse(ticket: &str) -> Option<(u64, [u8; MAC_BYTES])> {
    let (epoch, hex) = ticket.split_once('.')?;
    let epoch = epoch.parse().ok().filter(|number: &u64| number.to_string() == epoch)?;
    let mac = HEXLOWER.decode(hex.as_bytes()).ok()?;
    Some((epoch, mac.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockhouse_core::NameBuf;
    use lockhouse_wire::TICKET_BYTES;

    const KEY: [u8; 32] = [7; 32];

    fn key(partition: &str, bucket: &str) -> BucketKey {
        BucketKey { bucket: bucket.to_owned(), partition: partition.to_owned() }
    }

    fn lock<'a>(bucket: &'a BucketKey, name: &'a NameBuf) -> Ticketed<'a> {
        let token = FencingToken::new(17);
        Ticketed { bucket, client_id: "a", name: name.as_name(), mode: Mode::Exclusive, token }
    }

    #[test]
    fn a_ticket_holds_in_later_epochs_and_not_in_its_own() {
        let (bucket, name) = (key("", "default"), NameBuf::new("n").unwrap());
        let ticket = Tickets::new(&KEY, 5, 3).issue(&lock(&bucket, &name));
        for (epoch, since, good) in
            [(5, 3, false), (6, 3, true), (9, 5, true), (9, 6, false), (9, 9, false), (4, 1, false)]
        {
            let tickets = Tickets::new(&KEY, epoch, since);
            assert_eq!(tickets.verify(&lock(&bucket, &name), &ticket), good, "epoch {epoch} since {since}");
        }
    }

    #[test]
    fn a_ticket_is_of_one_lock_only() {
        let (bucket, name) = (key("p", "default"), NameBuf::new("n").unwrap());
        let right = lock(&bucket, &name);
        let ticket = Tickets::new(&KEY, 5, 1).issue(&right);
        let later = Tickets::new(&KEY, 6, 1);
        assert!(later.verify(&right, &ticket));
        let (other_bucket, other_partition, shifted) =
            (key("p", "other"), key("q", "default"), key("pd", "efault"));
        let (other_name, lone) = (NameBuf::new("m").unwrap(), NameBuf::from_units(&[0xD800]).unwrap());
        let wrong = [
            Ticketed { bucket: &other_bucket, ..right },
            Ticketed { bucket: &other_partition, ..right },
            Ticketed { bucket: &shifted, ..right },
            Ticketed { client_id: "b", ..right },
            Ticketed { client_id: "", ..right },
            Ticketed { name: other_name.as_name(), ..right },
            Ticketed { name: lone.as_name(), ..right },
            Ticketed { mode: Mode::Shared, ..right },
            Ticketed { token: FencingToken::new(18), ..right },
        ];
        for lock in wrong {
            assert!(!later.verify(&lock, &ticket), "{lock:?}");
        }
        assert!(!Tickets::new(&[8; 32], 6, 1).verify(&right, &ticket), "another key");
        let moved = ticket.replacen("5.", "4.", 1);
        assert!(!later.verify(&right, &moved), "another epoch");
    }

    #[test]
    fn what_is_no_ticket_is_refused_whatever_it_looks_like() {
        let (bucket, name) = (key("", "default"), NameBuf::new("n").unwrap());
        let right = lock(&bucket, &name);
        let good = Tickets::new(&KEY, 5, 1).issue(&right);
        let later = Tickets::new(&KEY, 6, 1);
        assert!(later.verify(&right, &good));
        let mut bad = vec![
            String::new(),
            ".".to_owned(),
            "5.".to_owned(),
            format!("+{good}"),
            format!("0{good}"),
            format!(" {good}"),
            format!("{good} "),
            format!("{good}00"),
            good.to_uppercase(),
            good[..good.len() - 1].to_owned(),
            good[..good.len() - 2].to_owned(),
            good.replace('.', ""),
            good.replacen("5.", "5..", 1),
            good.replacen("5.", "99999999999999999999.", 1),
            good.replacen("5.", "5.é", 1),
        ];
        let start = good.find('.').unwrap() + 1;
        for at in start..good.len() {
            let mut one = good.clone();
            let digit = if &good[at..=at] == "0" { "1" } else { "0" };
            one.replace_range(at..=at, digit);
            bad.push(one);
        }
        for ticket in bad {
            assert!(!later.verify(&right, &ticket), "{ticket}");
        }
    }

    #[test]
    fn a_ticket_fits_the_protocol_and_shows_no_key() {
        let (bucket, name) = (key("", "default"), NameBuf::from_units(&[0xD800; 4096]).unwrap());
        let tickets = Tickets::new(&KEY, u64::MAX, 1);
        assert!(tickets.issue(&lock(&bucket, &name)).len() <= TICKET_BYTES);
        assert_eq!(format!("{tickets:?}"), "Tickets { epoch: 18446744073709551615, .. }");
    }

    /// Locks are held over upgrades of the server, so that this must never change.
    #[test]
    fn tickets_are_written_as_ever() {
        let (bucket, name) = (key("", "default"), NameBuf::new("n").unwrap());
        assert_eq!(
            Tickets::new(&KEY, 5, 1).issue(&lock(&bucket, &name)),
            "5.0ad2e1e840cf6a27908bb6e77fd3427a"
        );
    }
}
