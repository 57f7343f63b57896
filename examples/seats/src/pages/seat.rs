//! One seat, as the visitor stands with it.

use std::time::{Duration, SystemTime};

use lockhouse::FencingToken;
use maud::{Markup, html};

use super::{Known, countdown, euros, in_words, layout, millis};
use crate::hall::Seat;
use crate::office::{Hold, Occupancy};
use crate::payments::Payment;

/// How a claim has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Somebody else has claimed the seat since.
    Lost,
    /// Nobody has.
    Expired,
}

/// Nobody has it.
pub(crate) fn free(seat: Seat, known: &Known<'_>, hold: Duration) -> Markup {
    let body = html! {
        p { "It costs " (euros(seat.price_cents())) ", and is held for you for " (in_words(hold)) " while you pay." }
        form method="post" action=(action(seat, "claim")) {
            label for="name" { "Your name" }
            input #name name="name" value=[known.name] required maxlength="40" autocomplete="name";
            button { "Choose " (seat) }
        }
    };
    page(seat, &format!("{seat} is free"), "free", &body)
}

/// Somebody else has it.
pub(crate) fn taken(seat: Seat, by: &Occupancy, now: SystemTime) -> Markup {
    let title = match by.hold {
        Some(_) => format!("{seat} is held for {}", by.by),
        None => format!("{seat} is booked by {}", by.by),
    };
    let body = html! {
        (who_has_it(Some(by), now))
        p { a.button href="/" { "Choose another seat" } }
    };
    page(seat, &title, &version("taken", Some(by)), &body)
}

/// It is held for the visitor, who has to pay.
pub(crate) fn held(seat: Seat, hold: Hold, renewable: bool, now: SystemTime) -> Markup {
    let price = euros(seat.price_cents());
    let body = html! {
        (time_left(hold, now))
        form.pay method="post" action=(action(seat, "pay")) {
            fieldset {
                legend { "How do you pay?" }
                label.choice {
                    input type="radio" name="method" value="card" checked;
                    span { strong { "By card" } " Your bank answers at once." }
                }
                label.choice {
                    input type="radio" name="method" value="slow";
                    span { strong { "With a slow bank" } " It answers when you tell it to: see what happens if the time is over by then." }
                }
            }
            button { "Pay " (price) }
        }
        div.ways {
            @if renewable { (button(seat, "renew", "Hold it longer")) }
            (button(seat, "give-back", "Give it back"))
        }
    };
    page(seat, &format!("{seat} is held for you"), &format!("held {renewable}"), &body)
}

/// The visitor's bank is at work.
pub(crate) fn paying(seat: Seat, hold: Hold, now: SystemTime) -> Markup {
    let body = html! {
        (time_left(hold, now))
        p { "The bank has been asked for " (euros(seat.price_cents())) ". Nothing is charged before it has answered and the seat is yours." }
        form method="post" action=(action(seat, "bank")) { button { "Let the bank answer now" } }
        div.ways { (button(seat, "give-back", "Give the seat back")) }
    };
    page(seat, &format!("Your bank is at work on {seat}"), "paying", &body)
}

/// The visitor's bank is at work, and the hold is over.
pub(crate) fn overdue(seat: Seat, by: Option<&Occupancy>, now: SystemTime) -> Markup {
    let body = html! {
        p.bad { "The time for " (seat) " was over before your bank has answered. Nothing has been charged." }
        (who_has_it(by, now))
        form method="post" action=(action(seat, "bank")) { button { "Let the bank answer now" } }
        div.ways { (button(seat, "give-back", "Stop paying")) }
    };
    page(seat, &format!("Your bank is late for {seat}"), &version("overdue", by), &body)
}

/// It is the visitor's.
pub(crate) fn booked(seat: Seat, number: FencingToken, known: &Known<'_>) -> Markup {
    let body = html! {
        dl.ticket {
            dt { "Seat" } dd { (seat) }
            dt { "For" } dd { (known.name.unwrap_or("you")) }
            dt { "Charged" } dd { (euros(seat.price_cents())) }
            dt { "Booking" } dd { (number) }
        }
        p { a.button href="/" { "To the hall" } }
        div.ways { (button(seat, "give-back", "Give it back, and be refunded")) }
    };
    page(seat, &format!("{seat} is yours"), "booked", &body)
}

/// It was held for the visitor, who has come too late.
pub(crate) fn over(
    seat: Seat,
    ending: Ending,
    payment: Option<Payment>,
    by: Option<&Occupancy>,
    now: SystemTime,
) -> Markup {
    let price = euros(seat.price_cents());
    let (title, story) = match ending {
        Ending::Lost => (
            format!("Lost: somebody else has {seat}"),
            "The time for which it was held for you was over, and somebody else has claimed it since.",
        ),
        Ending::Expired => (
            format!("Expired: the time for {seat} is over"),
            "It was held for you, but the time was over before you had paid.",
        ),
    };
    let body = html! {
        p.bad { (story) }
        p {
            strong { "You were not charged. " }
            @match payment {
                Some(Payment::Refunded) => { "What you had paid, " (price) ", was refunded." },
                Some(_) => { "The " (price) " that your bank kept ready are released." },
                None => { "Your bank was not even asked." },
            }
        }
        (who_has_it(by, now))
        @if by.is_none() { (button(seat, "claim", &format!("Choose {seat} again"))) }
        p { a.button href="/" { "Choose another seat" } }
    };
    page(seat, &title, &version("over", by), &body)
}

fn page(seat: Seat, title: &str, version: &str, body: &Markup) -> Markup {
    let body = html! {
        section.card.narrow {
            p.where { "Seat " (seat) " · " (euros(seat.price_cents())) }
            h1 tabindex="-1" { (title) }
            (body)
        }
    };
    layout(title, Some(version), &body)
}

/// Apart from the page's version, as it changes with every renewal, and what is being filled in shall stay.
fn time_left(hold: Hold, now: SystemTime) -> Markup {
    html! {
        p.time #time data-version=(millis(hold.until)) {
            span { "Held for you for" }
            strong { (countdown(hold.until, now)) }
        }
    }
}

fn who_has_it(by: Option<&Occupancy>, now: SystemTime) -> Markup {
    html! {
        p {
            @match by {
                Some(Occupancy { by, hold: Some(hold), .. }) => {
                    "It is held for " strong { (by) } " for " (countdown(hold.until, now)) " more. If it is not paid by then, it is free again."
                },
                Some(Occupancy { by, hold: None, .. }) => { strong { (by) } " has booked it." },
                None => { "Nobody has it now." },
            }
        }
    }
}

fn version(what: &str, by: Option<&Occupancy>) -> String {
    let by = by.map(|by| format!("{} {}", by.number, by.hold.map_or(0, |hold| millis(hold.until))));
    format!("{what} {}", by.unwrap_or_default())
}

fn action(seat: Seat, step: &str) -> String {
    format!("/seats/{seat}/{step}")
}

fn button(seat: Seat, step: &str, label: &str) -> Markup {
    html! { form method="post" action=(action(seat, step)) { button.quiet { (label) } } }
}
