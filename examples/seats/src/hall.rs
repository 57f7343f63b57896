//! The hall: which seats there are, and what each costs.

use std::fmt;
use std::str::FromStr;

/// The rows, from the stage.
const ROWS: &[u8] = b"ABCDEF";

/// How many seats a row has, numbered from 1.
const SEATS_PER_ROW: u8 = 10;

/// How many rows at the stage cost more.
const DEAR_ROWS: &[u8] = b"AB";

/// A seat of the hall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seat {
    row: u8,
    number: u8,
}

/// The hall has no such seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no such seat: rows are A to F, seats 1 to 10")]
pub struct NoSuchSeat;

impl Seat {
    /// Every row with its seats, from the stage.
    pub fn rows() -> impl Iterator<Item = (char, impl Iterator<Item = Self>)> {
        let seats = |row| (1..=SEATS_PER_ROW).map(move |number| Self { row, number });
        ROWS.iter().map(move |row| (char::from(*row), seats(*row)))
    }

    /// The name under which it is claimed.
    pub fn resource(self) -> String {
        format!("seat/{self}")
    }

    /// The seat that is claimed under that name.
    pub fn of_resource(name: &str) -> Option<Self> {
        name.strip_prefix("seat/")?.parse().ok()
    }

    /// The price, in cents.
    pub fn price_cents(self) -> u32 {
        if DEAR_ROWS.contains(&self.row) { 65_00 } else { 45_00 }
    }

    /// The same as `45.00 €`.
    pub fn price(self) -> String {
        let cents = self.price_cents();
        format!("{}.{:02}\u{a0}€", cents / 100, cents % 100)
    }

    /// Its number in its row.
    pub fn number(self) -> u8 {
        self.number
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(self.row), self.number)
    }
}

impl FromStr for Seat {
    type Err = NoSuchSeat;

    fn from_str(text: &str) -> Result<Self, NoSuchSeat> {
        let [row, number @ ..] = text.as_bytes() else { return Err(NoSuchSeat) };
        let number: u8 = str::from_utf8(number).ok().and_then(|n| n.parse().ok()).ok_or(NoSuchSeat)?;
        let seat = Self { row: *row, number };
        let exists = ROWS.contains(row) && (1..=SEATS_PER_ROW).contains(&number);
        // One seat has one name: "A01" and "A+1" are none.
        if exists && seat.to_string() == text { Ok(seat) } else { Err(NoSuchSeat) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_has_one_name() {
        for seat in Seat::rows().flat_map(|(_, seats)| seats) {
            assert_eq!(seat.to_string().parse(), Ok(seat));
            assert_eq!(Seat::of_resource(&seat.resource()), Some(seat));
        }
        for wrong in ["", "A", "A0", "A01", "A+1", "A11", "G1", "a1", "Ä1", "A1 "] {
            assert_eq!(wrong.parse::<Seat>(), Err(NoSuchSeat), "{wrong}");
        }
    }
}
