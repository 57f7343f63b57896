//! The hall with all its seats.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use maud::{Markup, html};

use super::{Known, countdown, euros, in_words, layout, millis};
use crate::hall::Seat;
use crate::office::Occupancy;

type Occupancies = HashMap<Seat, Occupancy>;

/// The seat map.
pub(crate) fn hall(seats: &Occupancies, known: &Known<'_>, now: SystemTime, hold: Duration) -> Markup {
    let body = html! {
        h1 { "Choose your seat" }
        form method="post" action="/name" {
            div.you {
                label for="name" { "Your name" }
                input #name name="name" value=[known.name] required maxlength="40" autocomplete="name" placeholder="Ada";
                // The first button of a form is the one that Enter presses: it must not choose a seat.
                button.quiet { "Save" }
                p.hint { "A seat that you choose is held for you for " (in_words(hold)) " while you pay. Others see your name on it." }
            }
            (mine(seats, known, now))
            div.scroll {
                p.stage aria-hidden="true" { "Stage" }
                table #hall aria-label="Seats, row A is nearest to the stage" {
                    tbody {
                        @for (row, places) in Seat::rows() {
                            tr {
                                th scope="row" { span.unseen { "Row " } (row) }
                                @for seat in places { td { (place(seat, seats.get(&seat), known, now)) } }
                            }
                        }
                    }
                }
            }
        }
        (legend(seats))
    };
    layout("Choose your seat", Some("hall"), &body)
}

/// A seat is a button while it can be chosen, and otherwise a link to what is known of it.
fn place(seat: Seat, occupancy: Option<&Occupancy>, known: &Known<'_>, now: SystemTime) -> Markup {
    let id = format!("seat-{seat}");
    let Some(Occupancy { by, number, hold }) = occupancy else {
        let price = euros(seat.price_cents());
        return html! {
            button.seat.free #(id) data-version="free" formaction=(format!("/seats/{seat}/claim"))
                aria-label=(format!("{seat}, free, {price}")) {
                span.number { (seat.number()) }
                span.note { (price) }
            }
        };
    };
    let is_mine = known.numbers.get(&seat) == Some(number);
    let whose = if is_mine { "you" } else { by };
    let (how, until) = match hold {
        Some(hold) => ("held", millis(hold.until)),
        None => ("booked", 0),
    };
    let verb = if hold.is_some() { "held for" } else { "booked by" };
    html! {
        a.seat.(how).mine[is_mine] #(id) data-version=(format!("{number} {until}")) href=(format!("/seats/{seat}"))
            aria-label=(format!("{seat}, {verb} {whose}")) title=(format!("{seat}, {verb} {whose}")) {
            span.number { (seat.number()) }
            span.note { (whose) }
            @if let Some(hold) = hold { span.left { (countdown(hold.until, now)) } }
        }
    }
}

/// The seats that are held for the visitor, or booked.
fn mine(seats: &Occupancies, known: &Known<'_>, now: SystemTime) -> Markup {
    let mut mine: Vec<_> =
        seats.iter().filter(|(seat, it)| known.numbers.get(seat) == Some(&it.number)).collect();
    mine.sort_unstable_by_key(|(seat, _)| **seat);
    let version = |(seat, it): &(&Seat, &Occupancy)| {
        format!("{seat} {} {} ", it.number, it.hold.map_or(0, |hold| millis(hold.until)))
    };
    let versions: String = mine.iter().map(version).collect();
    html! {
        div #mine data-version=(versions) {
            @if !mine.is_empty() {
                ul.mine aria-label="Your seats" {
                    @for (seat, it) in mine {
                        li {
                            a href=(format!("/seats/{seat}")) {
                                @match it.hold {
                                    Some(hold) => { strong { (seat) } " is held for you: pay within " (countdown(hold.until, now)) },
                                    None => { strong { (seat) } " is yours" },
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn legend(seats: &Occupancies) -> Markup {
    let booked = seats.values().filter(|it| it.hold.is_none()).count();
    let held = seats.len() - booked;
    let free = Seat::rows().flat_map(|(_, places)| places).count() - seats.len();
    html! {
        ul.legend #legend data-version=(format!("{held} {booked}")) aria-label="How many seats" {
            li { span.seat.free aria-hidden="true" {} (free) " free" }
            li { span.seat.held aria-hidden="true" {} (held) " held while somebody pays" }
            li { span.seat.booked aria-hidden="true" {} (booked) " booked" }
        }
    }
}
