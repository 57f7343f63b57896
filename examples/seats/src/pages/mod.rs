//! How it looks: HTML from the server, which works without scripts. With them, `live.js` fetches the page anew after every change, and
//! takes over whatever has another `data-version`.

mod hall;
mod seat;

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use lockhouse::FencingToken;
use maud::{DOCTYPE, Markup, html};

pub(crate) use self::hall::hall;
pub(crate) use self::seat::{Ending, booked, free, held, over, overdue, paying, taken};
use crate::hall::Seat;

/// What the pages show of the visitor.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    pub(crate) name: Option<&'a str>,
    /// The fencing tokens of the visitor's claims, whether they are current or not.
    pub(crate) numbers: HashMap<Seat, FencingToken>,
}

/// A page about something that cannot be done.
pub(crate) fn trouble(title: &str, advice: &str, href: &str, label: &str) -> Markup {
    let body = html! {
        section.card.narrow {
            h1 { (title) }
            p { (advice) }
            p { a.button href=(href) { (label) } }
        }
    };
    layout(title, None, &body)
}

/// A page. One with a version follows the hall; it is replaced as a whole when its version changes.
fn layout(title: &str, version: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · The Dining Philosophers" }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/page.css";
                @if version.is_some() { script src="/live.js" defer {} }
            }
            body {
                header {
                    a.brand href="/" { "The Dining Philosophers" }
                    p { "A comedy with five forks. Tonight at eight." }
                    @if version.is_some() { p #link hidden {} }
                }
                main id="main" data-version=[version] { (body) }
                p #news.unseen role="status" {}
                footer {
                    p {
                        "A sample application of lockhouse: a seat is claimed while you pay, and becomes yours only if the claim is "
                        "still current at that moment."
                    }
                }
            }
        }
    }
}

/// Time that is left; a script counts it down.
fn countdown(until: SystemTime, now: SystemTime) -> Markup {
    let left = until.duration_since(now).unwrap_or_default();
    html! { span.countdown data-left-ms=(left.as_millis()) { (minutes(left)) } }
}

/// As `2:05`.
fn minutes(length: Duration) -> String {
    let seconds = length.as_millis().div_ceil(1000);
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

/// As `2 minutes` or `90 seconds`.
fn in_words(length: Duration) -> String {
    match length.as_secs() {
        1 => "1 second".to_owned(),
        60 => "1 minute".to_owned(),
        seconds if seconds.is_multiple_of(60) => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

/// As `45.00 €`.
fn euros(cents: u32) -> String {
    format!("{}.{:02}\u{a0}€", cents / 100, cents % 100)
}

fn millis(at: SystemTime) -> u128 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis()
}
