//! One seat, as the visitor stands with it.

use std::time::{Duration, SystemTime};

use askama::Template;
use lockhouse::FencingToken;

use super::{Countdown, in_words, millis};
use crate::hall::Seat;
use crate::office::{Occupancy, Standing};
use crate::payments::Payment;

/// The page of a seat.
#[derive(Debug, Template)]
#[template(path = "seat.html")]
pub(crate) struct SeatPage {
    seat: Seat,
    title: String,
    version: String,
    scene: Scene,
}

/// How a claim has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Another visitor has claimed the seat since.
    Lost,
    /// No visitor had claimed the seat at that moment.
    Expired,
}

/// The subject of the page.
#[derive(Debug)]
enum Scene {
    Free { name: String, hold: String },
    Taken { now: Who },
    Held { left: Countdown, until: u128, renewable: bool },
    Paying { left: Countdown, until: u128 },
    Overdue { now: Who },
    Booked { name: String, number: FencingToken, charged: bool },
    Over { ending: Ending, money: String, now: Who, is_free: bool },
}

/// The visitor that has the seat, as a paragraph: the name, and how much longer unless it is booked.
#[derive(Debug, Template)]
#[template(path = "who.html")]
struct Who {
    by: Option<(String, Option<Countdown>)>,
}

impl SeatPage {
    /// For a visitor of that name.
    pub(crate) fn new(seat: Seat, standing: Standing, name: &str, length: Duration, now: SystemTime) -> Self {
        let (title, version, scene) = match standing {
            Standing::Free => {
                let scene = Scene::Free { name: name.to_owned(), hold: in_words(length) };
                (format!("{seat} is free"), "free".to_owned(), scene)
            }
            Standing::Taken(by) => {
                let how = if by.hold.is_some() { "held for" } else { "booked by" };
                let scene = Scene::Taken { now: Who::new(Some(&by), now) };
                (format!("{seat} is {how} {}", by.by), version("taken", Some(&by)), scene)
            }
            Standing::Held { hold, paying, renewable } => {
                // The time is no part of the version, as it changes with every renewal, and a form that is
                // being filled in shall stay.
                let (left, until) = (Countdown::new(hold.until, now), millis(hold.until));
                if paying {
                    let scene = Scene::Paying { left, until };
                    (format!("Your bank is at work on {seat}"), "paying".to_owned(), scene)
                } else {
                    let scene = Scene::Held { left, until, renewable };
                    (format!("{seat} is held for you"), format!("held {renewable}"), scene)
                }
            }
            Standing::Booked { number, charged } => {
                let scene = Scene::Booked { name: name.to_owned(), number, charged };
                (format!("{seat} is yours"), format!("booked {charged}"), scene)
            }
            Standing::Over { payment: Some(Payment::Reserved), now: by } => {
                let scene = Scene::Overdue { now: Who::new(by.as_ref(), now) };
                (format!("Your bank is late for {seat}"), version("overdue", by.as_ref()), scene)
            }
            Standing::Over { payment, now: by } => {
                let ending = if by.is_some() { Ending::Lost } else { Ending::Expired };
                return Self::over(seat, ending, payment, by.as_ref(), now);
            }
        };
        Self { seat, title, version, scene }
    }

    /// For a visitor who has come too late with that payment, if the bank was asked at all.
    pub(crate) fn over(
        seat: Seat,
        ending: Ending,
        payment: Option<Payment>,
        by: Option<&Occupancy>,
        now: SystemTime,
    ) -> Self {
        let title = match ending {
            Ending::Lost => format!("Lost: somebody else has {seat}"),
            Ending::Expired => format!("Expired: the time for {seat} is over"),
        };
        let price = seat.price();
        let money = match payment {
            Some(Payment::Refunding) => format!("What you had paid, {price}, is being refunded."),
            Some(Payment::Refunded) => format!("What you had paid, {price}, has been refunded."),
            Some(_) => {
                format!("You were not charged: the {price} that your bank kept ready have been released.")
            }
            None => "You were not charged: your bank was not even asked.".to_owned(),
        };
        let scene = Scene::Over { ending, money, now: Who::new(by, now), is_free: by.is_none() };
        Self { seat, title, version: version("over", by), scene }
    }
}

impl Who {
    fn new(by: Option<&Occupancy>, now: SystemTime) -> Self {
        let left = |it: &Occupancy| it.hold.map(|hold| Countdown::new(hold.until, now));
        Self { by: by.map(|it| (it.by.clone(), left(it))) }
    }
}

impl askama::filters::HtmlSafe for Who {}

fn version(what: &str, by: Option<&Occupancy>) -> String {
    let until = |it: &Occupancy| it.hold.map_or(0, |hold| millis(hold.until));
    let by = by.map(|it| format!("{}-{}", it.number, until(it)));
    format!("{what} {}", by.unwrap_or_default())
}
