//! The language of the scripts.
//!
//! A line that begins with two spaces is output: a result of the command above it. All other lines are input:
//!
//! ```text
//! # a remark
//! limits requests_per_agent=2 names=3        first, if at all; what is not named is plenty
//! tokens above 41                            the manager continues a former one
//! bucket two                                 from here on another manager, with its own agents
//! A joins as "tab 1" lease 10s               a joining agent that is not refused has no output
//! A requests printer shared if-available steal metadata "m" hold 5s as a1
//! release a1 / abort a1 / status a1
//! A renews / A ends / alive A
//! after 10s / at 12s                         time passes; the manager is not called
//! timeout / wakes                            it is called; when it wants to be called next
//! sweep 2                                    at most two void locks end
//! snapshot / counts / close
//!
//! O opens as "Ann" ttl 20s max 8h metadata "m"        an owner; without `ttl` 10 minutes
//! O touches / O ends / owner O / owners / locks of O
//! O locks a and b shared metadata "m"
//! O unlocks a token 3 and b / O unlocks all but a
//! O undoes a token 3 fresh and b token 4 upgraded
//! claim a for "Ann" ttl 10s metadata "m"
//! renew a token 3 / give back a token 3 / finalize a token 3 / unassign a token 3
//! claim of a / assignment of a / assignments
//! break a token 3 by ops because "she has left"
//!
//! recover until 10s / recovery ends / recovering
//! A reclaims a shared token 3 as a1
//! restart                                    a new manager, without agents, from the changes
//!                                            that the old one reported
//! show reservations                          from here on, also those of tokens; prints the present mark
//! ```
//!
//! Outcomes come first, then the effects, as `-> whom: what`, and the changes, as `=> what`. Names are words
//! or JSON strings, so that `"\ud800"` can be written. Snapshots are sorted by name; where the specification
//! promises no order, by token.

mod parse;
mod text;
mod world;

use std::collections::BTreeMap;

use lockhouse_core::Limits;
use parse::Line;
use world::World;

/// The script with all results of its commands.
pub(crate) fn run(script: &str) -> Result<String, String> {
    let mut limits = Limits::DEFAULT;
    let mut buckets: BTreeMap<String, World> = BTreeMap::new();
    let mut bucket = String::new();
    let mut played = String::new();
    for (number, text) in (1..).zip(script.lines()) {
        if text.starts_with("  ") {
            continue;
        }
        played += text;
        played += "\n";
        let line = parse::line(text).map_err(|wrong| format!("line {number}, {text:?}: {wrong}"))?;
        match line {
            Line::Remark => {}
            Line::Limits(set) => limits = set,
            Line::Bucket(name) => bucket = name,
            Line::Command(command) => {
                let world = buckets.entry(bucket.clone()).or_insert_with(|| World::new(limits));
                let lines =
                    world.play(&command).map_err(|wrong| format!("line {number}, {text:?}: {wrong}"))?;
                lines.iter().for_each(|line| played += &format!("  {line}\n"));
            }
        }
    }
    Ok(played)
}
