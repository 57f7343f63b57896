//! Did two hold a name at once that exclude each other?

pub(crate) mod fence;

use std::collections::HashSet;

use super::breach::{Breach, Kind, Reporter};
use super::story::{Fact, Story};

/// More pairs of one name than this are not listed one by one: they are one disaster.
const MAX_PAIRS: usize = 1000;

/// Goes through the certain holding intervals in their order and compares each with those that still last.
pub(crate) fn judge(story: &Story<'_>, reporter: &Reporter, breaches: &mut Vec<Breach>) {
    let granted: HashSet<u64> = story.facts.iter().filter(|fact| !fact.seen).map(|fact| fact.token).collect();
    let holds = story.facts.iter().filter(|fact| {
        fact.thing.is_hold() && fact.since < fact.until && !(fact.seen && granted.contains(&fact.token))
    });
    let mut pairs = HashSet::new();
    let mut active: Vec<&Fact<'_>> = Vec::new();
    for hold in holds {
        active.retain(|other| other.until > hold.since);
        for other in &active {
            if other.token != hold.token && other.thing.excludes(&hold.thing) {
                report(story, reporter, &mut pairs, (other, hold), breaches);
            }
        }
        active.push(hold);
    }
    for sight in &story.sights {
        let shown: Vec<_> = sight.shown().collect();
        for (nth, one) in shown.iter().enumerate() {
            for two in &shown[nth + 1..] {
                if one.thing.excludes(&two.thing)
                    && pairs.insert(ordered(one.token, two.token))
                    && pairs.len() <= MAX_PAIRS
                {
                    let what =
                        format!("token {} and token {} are shown as held at once", one.token, two.token);
                    breaches.push(reporter.breach(
                        Kind::Overlap,
                        story.bucket,
                        Some(story.name),
                        &what,
                        &[sight.source],
                    ));
                }
            }
        }
    }
}

fn report(
    story: &Story<'_>,
    reporter: &Reporter,
    pairs: &mut HashSet<(u64, u64)>,
    (one, two): (&Fact<'_>, &Fact<'_>),
    breaches: &mut Vec<Breach>,
) {
    if pairs.len() < MAX_PAIRS && pairs.insert(ordered(one.token, two.token)) {
        let what = format!("{}; {}", reporter.fact(one), reporter.fact(two));
        breaches.push(reporter.breach(
            Kind::Overlap,
            story.bucket,
            Some(story.name),
            &what,
            &[one.source, two.source],
        ));
    }
}

fn ordered(a: u64, b: u64) -> (u64, u64) {
    (a.min(b), a.max(b))
}
