//! The box office: from a free seat by way of a claim to a booking.
//!
//! ```text
//!          choose                    pay: the bank is asked         the bank answers
//!   free ──────────▶ held (a claim) ──────────────────────▶ paying ───────────────────▶ booked
//!    ▲                │ renew ↺                               │        finalize           │ (an assignment)
//!    └── give back ───┴──── give back, or the hold ends ──────┴──────── give back ────────┘
//! ```
//!
//! The right to go on is decided in one place, [`finalize`](lockhouse::Claims::finalize), at the moment at
//! which it counts; an earlier hold of the claim proves nothing.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use lockhouse::{
    Assignment, Claim, ClaimError, ClaimInfo, Claims, FencingToken, HolderKind, House, LockInfo, Secret,
    StoreError,
};
use tokio::sync::watch;

use crate::hall::Seat;
use crate::payments::{Payment, Payments};

/// How often the length of a hold a seat may be kept without being paid.
const LONGEST_HOLDS: u32 = 5;

/// The box office. Cheap to clone; every clone is the same office.
#[derive(Clone, Debug)]
pub struct BoxOffice {
    house: House,
    bucket: lockhouse::Bucket,
    claims: Claims,
    payments: Payments,
    hold: Duration,
}

/// The part of a claim that a visitor's browser has. The token is the right to the claim; the number only
/// shows whose it is.
#[derive(Clone, Debug)]
pub struct Stub {
    /// The claim's fencing token.
    pub number: FencingToken,
    /// The claim's token.
    pub token: Secret,
}

/// The visitor that has a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// The claimant's name.
    pub by: String,
    /// The fencing token of the claim.
    pub number: FencingToken,
    /// Until when it is held, and since when; None if it is booked.
    pub hold: Option<Hold>,
}

/// A seat that is held for a visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Since when.
    pub since: SystemTime,
    /// Until when.
    pub until: SystemTime,
}

/// How a visitor stands with a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The seat is free.
    Free,
    /// Another visitor has the seat.
    Taken(Occupancy),
    /// The seat is held for the visitor.
    Held {
        /// Since and until when.
        hold: Hold,
        /// Whether the visitor's bank is at work.
        paying: bool,
        /// Whether it may be held longer.
        renewable: bool,
    },
    /// The seat is the visitor's.
    Booked {
        /// The fencing token of the claim that was made final: the booking's number.
        number: FencingToken,
        /// Whether the price is charged, as it is a moment later.
        charged: bool,
    },
    /// The seat was held for the visitor, and no longer is.
    Over {
        /// The visitor's payment.
        payment: Option<Payment>,
        /// The visitor that has the seat now.
        now: Option<Occupancy>,
    },
}

/// How the visitor pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaymentMethod {
    /// The bank answers at once.
    Card,
    /// The bank takes its time.
    Slow,
}

/// How far a payment has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The bank has been asked and has not answered.
    Paying,
    /// The seat is the payer's.
    Booked,
}

/// Why the box office cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum OfficeError {
    /// Lockhouse's refusal of the claim.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The payments cannot be stored.
    #[error("the payments cannot be kept: {0}")]
    Payments(#[from] rusqlite::Error),
    /// There is no payment that the bank could answer.
    #[error("the bank has not been asked")]
    NotAsked,
    /// The seat has been held for as long as it can be.
    #[error("it has been held for too long to be held longer")]
    HeldTooLong,
}

impl From<StoreError> for OfficeError {
    fn from(error: StoreError) -> Self {
        Self::Claim(error.into())
    }
}

impl BoxOffice {
    /// Opens with the seats that are held and booked, and the payments that were made.
    ///
    /// # Errors
    ///
    /// [`OfficeError`].
    pub async fn open(house: &House, payments: Payments, hold: Duration) -> Result<Self, OfficeError> {
        let bucket = house.bucket("hall");
        let office = Self { house: house.clone(), claims: bucket.claims(), bucket, payments, hold };
        office.charge_what_was_booked().await?;
        office.refund_what_was_given_back().await?;
        Ok(office)
    }

    /// Holds a seat for a visitor. Asking again, as with a double click, gives the same claim.
    ///
    /// # Errors
    ///
    /// [`OfficeError::Claim`], for instance with the faster visitor.
    pub async fn choose(&self, seat: Seat, name: &str, visitor: &str) -> Result<Claim, OfficeError> {
        Ok(self.claims.claim(&seat.resource(), name, self.hold).idempotency_key(visitor).await?)
    }

    /// Holds it longer: its time runs anew, but not for ever.
    ///
    /// # Errors
    ///
    /// [`OfficeError::HeldTooLong`], [`OfficeError::Claim`].
    pub async fn renew(&self, seat: Seat, stub: &Stub) -> Result<(), OfficeError> {
        let claim = self.claims.get(&seat.resource()).await?;
        let hold = claim.map(|claim| Hold { since: claim.since, until: claim.expires_at });
        if hold.is_some_and(|hold| !self.is_renewable(hold)) {
            return Err(OfficeError::HeldTooLong);
        }
        self.claims.renew(&seat.resource(), &stub.token).await?;
        Ok(())
    }

    /// Asks the bank for the price, and books the seat if that answers at once. The bank has the whole length
    /// of the hold for it.
    ///
    /// # Errors
    ///
    /// As [`bank_answers`](Self::bank_answers).
    pub async fn pay(&self, seat: Seat, stub: &Stub, method: PaymentMethod) -> Result<Progress, OfficeError> {
        match self.renew(seat, stub).await {
            Ok(()) | Err(OfficeError::HeldTooLong) => {}
            // Either too late, or paid already: finalize decides.
            Err(OfficeError::Claim(ClaimError::ClaimExpired | ClaimError::ClaimLost { .. })) => {
                return self.book(seat, stub).await;
            }
            Err(error) => return Err(error),
        }
        self.payments.reserve(seat, &stub.token, stub.number).await?;
        match method {
            PaymentMethod::Card => self.book(seat, stub).await,
            PaymentMethod::Slow => Ok(Progress::Paying),
        }
    }

    /// The bank keeps the money ready. Now it counts: the seat becomes the payer's and the money is charged,
    /// or neither. Doing it again answers the same.
    ///
    /// # Errors
    ///
    /// [`ClaimError::ClaimLost`] if another visitor has claimed the seat meanwhile,
    /// [`ClaimError::ClaimExpired`] if none has: nothing is charged then, and the other's claim stays as it
    /// is. [`OfficeError::NotAsked`]. Other errors say nothing of the claim: try again.
    pub async fn bank_answers(&self, seat: Seat, stub: &Stub) -> Result<Progress, OfficeError> {
        match self.payments.of(seat, &stub.token).await? {
            Some(_) => self.book(seat, stub).await,
            None => Err(OfficeError::NotAsked),
        }
    }

    /// Gives a seat back, whether held or booked; a charge is refunded. A visitor that no longer has the seat
    /// has nothing to give back, which is fine.
    ///
    /// # Errors
    ///
    /// Those of the databases: try again.
    pub async fn give_back(&self, seat: Seat, stub: &Stub) -> Result<(), OfficeError> {
        match self.claims.release(&seat.resource(), &stub.token).await {
            Ok(()) => return Ok(self.payments.release(seat, &stub.token).await?),
            Err(ClaimError::ClaimExpired | ClaimError::ClaimLost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        // Only the token of the claim that was made final is answered with its assignment.
        match self.claims.finalize(&seat.resource(), &stub.token).await {
            Ok(booking) => {
                // A booking is charged, even if its visitor has not come so far yet.
                self.payments.charge(seat, &stub.token).await?;
                self.payments.begin_refund(seat, &stub.token).await?;
                self.claims.unassign(&seat.resource(), Some(booking.fencing_token)).await?;
                Ok(self.payments.refund(seat, &stub.token).await?)
            }
            Err(ClaimError::ClaimExpired | ClaimError::ClaimLost { .. }) => {
                self.payments.release(seat, &stub.token).await?;
                // The seat was given back before, and perhaps the money was not.
                Ok(self.payments.refund(seat, &stub.token).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The seats that are taken, with their visitors; all others are free.
    ///
    /// # Errors
    ///
    /// [`OfficeError::Claim`].
    pub async fn occupancies(&self) -> Result<HashMap<Seat, Occupancy>, OfficeError> {
        let held = self.bucket.snapshot().await?.held.into_iter();
        let held = held.filter(|lock| lock.kind == HolderKind::Claim).filter_map(of_lock);
        let mut occupancies: HashMap<_, _> = held.collect();
        // Read after the claims: a claim that is made final between the two shows as booked.
        let booked = self.claims.assignments().await?.into_iter();
        occupancies.extend(booked.filter_map(|booking| Some((seat_of(&booking.resource)?, booking.into()))));
        Ok(occupancies)
    }

    /// How a visitor with that stub stands with a seat. The answer is only shown; nothing is decided by it.
    ///
    /// # Errors
    ///
    /// [`OfficeError`].
    pub async fn standing(&self, seat: Seat, stub: Option<&Stub>) -> Result<Standing, OfficeError> {
        let Some(stub) = stub else {
            return Ok(self.occupancy(seat).await?.map_or(Standing::Free, Standing::Taken));
        };
        let (payment, now) = self.aftermath(seat, stub).await?;
        Ok(match now {
            Some(Occupancy { number, hold: Some(hold), .. }) if number == stub.number => Standing::Held {
                hold,
                paying: payment == Some(Payment::Reserved),
                renewable: self.is_renewable(hold),
            },
            Some(Occupancy { number, hold: None, .. }) if number == stub.number => Standing::Booked {
                number,
                charged: matches!(payment, Some(Payment::Charged | Payment::Refunding)),
            },
            now => Standing::Over { payment, now },
        })
    }

    /// The present state of that payment and of the seat.
    ///
    /// # Errors
    ///
    /// [`OfficeError`].
    pub(crate) async fn aftermath(
        &self,
        seat: Seat,
        stub: &Stub,
    ) -> Result<(Option<Payment>, Option<Occupancy>), OfficeError> {
        Ok((self.payments.of(seat, &stub.token).await?, self.occupancy(seat).await?))
    }

    /// Changes after everything that may have changed a seat.
    pub(crate) fn changed(&self) -> watch::Receiver<()> {
        self.bucket.changed()
    }

    /// Now, by the clock that holds run by.
    pub(crate) fn now(&self) -> SystemTime {
        self.house.wall(self.house.now())
    }

    /// The length of a hold.
    pub(crate) fn hold(&self) -> Duration {
        self.hold
    }

    /// The step from claim to final state.
    async fn book(&self, seat: Seat, stub: &Stub) -> Result<Progress, OfficeError> {
        match self.claims.finalize(&seat.resource(), &stub.token).await {
            Ok(_) => {
                self.payments.charge(seat, &stub.token).await?;
                Ok(Progress::Booked)
            }
            Err(too_late @ (ClaimError::ClaimLost { .. } | ClaimError::ClaimExpired)) => {
                self.payments.release(seat, &stub.token).await?;
                Err(too_late.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn occupancy(&self, seat: Seat) -> Result<Option<Occupancy>, OfficeError> {
        if let Some(claim) = self.claims.get(&seat.resource()).await? {
            return Ok(Some(claim.into()));
        }
        Ok(self.claims.assignment(&seat.resource()).await?.map(Occupancy::from))
    }

    fn is_renewable(&self, hold: Hold) -> bool {
        self.now() + self.hold <= hold.since + self.hold * LONGEST_HOLDS
    }

    /// The office may have been cut off between booking and charging. Bookings are charged now; the rest goes
    /// on with its payer.
    async fn charge_what_was_booked(&self) -> Result<(), OfficeError> {
        for payment in self.payments.unsettled(Payment::Reserved).await? {
            let booking = self.claims.assignment(&payment.seat.resource()).await?;
            if booking.is_some_and(|booking| booking.fencing_token == payment.number) {
                self.payments.charge_late(payment).await?;
            }
        }
        Ok(())
    }

    /// The office may have been cut off while a booked seat was given back. The seat is given back now, and
    /// refunded.
    async fn refund_what_was_given_back(&self) -> Result<(), OfficeError> {
        for payment in self.payments.unsettled(Payment::Refunding).await? {
            // Without effect if that was done, even if another visitor has the seat now.
            self.claims.unassign(&payment.seat.resource(), Some(payment.number)).await?;
            self.payments.refund_late(payment).await?;
        }
        Ok(())
    }
}

impl From<ClaimInfo> for Occupancy {
    fn from(claim: ClaimInfo) -> Self {
        let hold = Hold { since: claim.since, until: claim.expires_at };
        Self { by: claim.claimant, number: claim.fencing_token, hold: Some(hold) }
    }
}

impl From<Assignment> for Occupancy {
    fn from(booking: Assignment) -> Self {
        Self { by: booking.claimant, number: booking.fencing_token, hold: None }
    }
}

fn of_lock(claim: LockInfo) -> Option<(Seat, Occupancy)> {
    let hold = Hold { since: claim.since, until: claim.expires_at? };
    let number = claim.fencing_token()?;
    Some((seat_of(&claim.name)?, Occupancy { by: claim.client_id, number, hold: Some(hold) }))
}

fn seat_of(name: &lockhouse::NameBuf) -> Option<Seat> {
    name.as_name().as_str().and_then(Seat::of_resource)
}
