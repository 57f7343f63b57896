//! The orders to the bank: a table of the application's own, beside the claims.
//!
//! A payment is first reserved, then charged or released; a charge is refunded by way of `refunding`, so that
//! a visitor who is cut off between giving the seat back and getting the money back goes on with it. One
//! claim has one payment, so that paying twice charges once.

use std::path::Path;
use std::sync::Arc;

use lockhouse::{FencingToken, Secret};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use sha2::{Digest, Sha256};

use crate::hall::Seat;

/// `claim` is a hash of the seat and the claim's token: a visitor with the token has the payment, for that
/// seat and no other, and the table gives no token away. `number` is the claim's fencing token.
const TABLE: &str = "\
create table if not exists payments (
    claim blob primary key,
    number integer not null,
    seat text not null,
    cents integer not null,
    state text not null check (state in ('reserved', 'charged', 'released', 'refunding', 'refunded'))
) without rowid";

/// The payments of all claims. Cheap to clone; every clone is the same table.
#[derive(Clone, Debug)]
pub struct Payments(Arc<Mutex<Connection>>);

/// How a payment stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payment {
    /// The bank keeps the money ready; nothing was charged.
    Reserved,
    /// The money was charged.
    Charged,
    /// The money was reserved and never charged.
    Released,
    /// The money was charged, and is given back as soon as the seat is.
    Refunding,
    /// The money was charged and given back.
    Refunded,
}

/// A payment that was under way when the application ended.
#[derive(Clone, Debug)]
pub(crate) struct Unsettled {
    claim: [u8; 32],
    pub(crate) number: FencingToken,
    pub(crate) seat: Seat,
}

impl Payments {
    /// Opens the table in that file, or makes it.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub fn open(path: impl AsRef<Path>) -> rusqlite::Result<Self> {
        let db = Connection::open(path)?;
        db.pragma_update(None, "journal_mode", "wal")?;
        db.pragma_update(None, "synchronous", "full")?;
        db.execute_batch(TABLE)?;
        Ok(Self(Arc::new(Mutex::new(db))))
    }

    /// The bank keeps the price of the seat ready, unless it was asked for this claim before.
    pub(crate) async fn reserve(
        &self,
        seat: Seat,
        claim: &Secret,
        number: FencingToken,
    ) -> rusqlite::Result<()> {
        let claim = hash(seat, claim);
        self.run(move |db| {
            let sql = "insert or ignore into payments values (?1, ?2, ?3, ?4, 'reserved')";
            db.execute(sql, params![claim, number_of(number), seat.to_string(), seat.price_cents()])
        })
        .await?;
        Ok(())
    }

    /// Charges the reserved money.
    pub(crate) async fn charge(&self, seat: Seat, claim: &Secret) -> rusqlite::Result<()> {
        self.settle(hash(seat, claim), Payment::Reserved, Payment::Charged).await
    }

    /// Releases the reserved money.
    pub(crate) async fn release(&self, seat: Seat, claim: &Secret) -> rusqlite::Result<()> {
        self.settle(hash(seat, claim), Payment::Reserved, Payment::Released).await
    }

    /// Notes that the charged money is to be given back. From now on the refund is not forgotten, whatever
    /// happens.
    pub(crate) async fn begin_refund(&self, seat: Seat, claim: &Secret) -> rusqlite::Result<()> {
        self.settle(hash(seat, claim), Payment::Charged, Payment::Refunding).await
    }

    /// Gives the money back that was to be given back.
    pub(crate) async fn refund(&self, seat: Seat, claim: &Secret) -> rusqlite::Result<()> {
        self.settle(hash(seat, claim), Payment::Refunding, Payment::Refunded).await
    }

    /// The payment of a claim, if the bank was asked.
    pub(crate) async fn of(&self, seat: Seat, claim: &Secret) -> rusqlite::Result<Option<Payment>> {
        let claim = hash(seat, claim);
        self.run(move |db| {
            let sql = "select state from payments where claim = ?1";
            db.query_row(sql, [claim], |row| row.get(0)).optional()
        })
        .await
    }

    /// Every payment that stands so.
    pub(crate) async fn unsettled(&self, state: Payment) -> rusqlite::Result<Vec<Unsettled>> {
        let read = |row: &Row<'_>| {
            let seat: String = row.get(2)?;
            let seat = seat.parse().map_err(|error| invalid(2, error))?;
            Ok(Unsettled {
                claim: row.get(0)?,
                number: FencingToken::new(row.get::<_, i64>(1)? as u64),
                seat,
            })
        };
        self.run(move |db| {
            let sql = "select claim, number, seat from payments where state = ?1";
            db.prepare(sql)?.query_map([state], read)?.collect()
        })
        .await
    }

    /// As [`charge`](Self::charge), for what was left over.
    pub(crate) async fn charge_late(&self, payment: Unsettled) -> rusqlite::Result<()> {
        self.settle(payment.claim, Payment::Reserved, Payment::Charged).await
    }

    /// As [`refund`](Self::refund), for what was left over.
    pub(crate) async fn refund_late(&self, payment: Unsettled) -> rusqlite::Result<()> {
        self.settle(payment.claim, Payment::Refunding, Payment::Refunded).await
    }

    /// The money that was charged and not given back, in cents.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn takings_cents(&self) -> rusqlite::Result<u32> {
        let sql = "select coalesce(sum(cents), 0) from payments where state in ('charged', 'refunding')";
        self.run(move |db| db.query_row(sql, [], |row| row.get(0))).await
    }

    /// A payment that is not in the state `from` stays as it is.
    async fn settle(&self, claim: [u8; 32], from: Payment, to: Payment) -> rusqlite::Result<()> {
        self.run(move |db| {
            let sql = "update payments set state = ?3 where claim = ?1 and state = ?2";
            db.execute(sql, params![claim, from, to])
        })
        .await?;
        Ok(())
    }

    /// Waits for the disk without holding up other requests.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> rusqlite::Result<T> {
        let db = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&db.lock())).await;
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

impl Payment {
    const ALL: [Self; 5] = [Self::Reserved, Self::Charged, Self::Released, Self::Refunding, Self::Refunded];

    fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "reserved",
            Self::Charged => "charged",
            Self::Released => "released",
            Self::Refunding => "refunding",
            Self::Refunded => "refunded",
        }
    }
}

impl ToSql for Payment {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

impl rusqlite::types::FromSql for Payment {
    fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
        let text = value.as_str()?;
        let known = Self::ALL.into_iter().find(|payment| payment.as_str() == text);
        known.ok_or(rusqlite::types::FromSqlError::InvalidType)
    }
}

fn hash(seat: Seat, claim: &Secret) -> [u8; 32] {
    Sha256::digest(format!("{seat} {}", claim.reveal())).into()
}

/// Fencing tokens are below 2^53.
fn number_of(token: FencingToken) -> i64 {
    token.get() as i64
}

fn invalid(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
}
