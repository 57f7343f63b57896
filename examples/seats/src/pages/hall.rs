//! The hall with all its seats.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use askama::Template;
use lockhouse::FencingToken;

use super::{Countdown, in_words, millis};
use crate::hall::Seat;
use crate::office::Occupancy;

/// The seat map.
#[derive(Debug, Template)]
#[template(path = "hall.html")]
pub(crate) struct HallPage {
    name: String,
    hold: String,
    /// The visitor's seats, with the time that is left to pay.
    mine: Vec<(Seat, Option<Countdown>)>,
    mine_version: String,
    rows: Vec<(char, Vec<Place>)>,
    free: usize,
    held: usize,
    booked: usize,
}

/// A seat of the map.
#[derive(Debug)]
struct Place {
    seat: Seat,
    taken: Option<Taken>,
}

/// The visitor that has a seat, as the map shows.
#[derive(Debug)]
struct Taken {
    whose: String,
    is_mine: bool,
    kind: &'static str,
    label: String,
    version: String,
    left: Option<Countdown>,
}

impl HallPage {
    /// For a visitor of that name with stubs of those numbers.
    pub(crate) fn new(
        occupancies: &HashMap<Seat, Occupancy>,
        name: &str,
        stubs: &HashMap<Seat, FencingToken>,
        now: SystemTime,
        hold: Duration,
    ) -> Self {
        let place = |seat: Seat| {
            let occupancy = occupancies.get(&seat);
            let taken = occupancy.map(|it| Taken::new(it, stubs.get(&seat) == Some(&it.number), now));
            Place { seat, taken }
        };
        let rows: Vec<(char, Vec<_>)> =
            Seat::rows().map(|(row, seats)| (row, seats.map(place).collect())).collect();
        let places = || rows.iter().flat_map(|(_, places)| places);
        let mine =
            || places().filter_map(|place| Some((place.seat, place.taken.as_ref().filter(|it| it.is_mine)?)));
        let booked = occupancies.values().filter(|it| it.hold.is_none()).count();
        Self {
            name: name.to_owned(),
            hold: in_words(hold),
            mine: mine().map(|(seat, taken)| (seat, taken.left)).collect(),
            mine_version: mine().map(|(seat, taken)| format!("{seat} {} ", taken.version)).collect(),
            free: places().count() - occupancies.len(),
            held: occupancies.len() - booked,
            booked,
            rows,
        }
    }
}

impl Taken {
    fn new(occupancy: &Occupancy, is_mine: bool, now: SystemTime) -> Self {
        let Occupancy { by, number, hold } = occupancy;
        let whose = if is_mine { "you" } else { by };
        let (kind, label) = match (hold, is_mine) {
            (Some(_), true) => ("held mine", format!("held for {whose}")),
            (Some(_), false) => ("held", format!("held for {whose}")),
            (None, true) => ("booked mine", format!("booked by {whose}")),
            (None, false) => ("booked", format!("booked by {whose}")),
        };
        Self {
            whose: whose.to_owned(),
            is_mine,
            kind,
            label,
            version: format!("{number}-{}", hold.map_or(0, |hold| millis(hold.until))),
            left: hold.map(|hold| Countdown::new(hold.until, now)),
        }
    }
}
