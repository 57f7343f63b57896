//! The parts of a run, each with its figures.

use super::figures::Figures;
use super::node::SLOT_LEASE_MS;
use super::tally::Tally;
use super::world::World;
use crate::sim::fleet::model::StatementKind::{Bury, Commit, Load, Poll, Take};

/// Nodes stand in so many racks by turns.
const RACKS: usize = 3;

/// How long a fleet is looked at in which nothing happens.
const IDLE_MS: u64 = 10_000;

/// The figures of a fleet of so many nodes.
///
/// # Errors
///
/// Something does not come about, or a promise is broken.
pub fn run(nodes: usize, locks: usize, seed: u64) -> Result<Figures, String> {
    let (mut world, mut figures) = (World::new(seed), Figures::default());
    let named = |part: &'static str| move |why: String| format!("{part}: {why}");
    start(&mut world, nodes, &mut figures).map_err(named("start"))?;
    come(&mut world, locks, &mut figures).map_err(named("clients come"))?;
    idle(&mut world, &mut figures).map_err(named("idle"))?;
    join(&mut world, &mut figures).map_err(named("a node joins"))?;
    reconnect(&mut world, &mut figures).map_err(named("all clients reconnect"))?;
    lose_a_rack(&mut world, &mut figures).map_err(named("a rack is lost"))?;
    Ok(figures)
}

/// All nodes start at once over an empty database.
fn start(world: &mut World, nodes: usize, figures: &mut Figures) -> Result<(), String> {
    (0..nodes).try_for_each(|_| world.start_node())?;
    let served_ms = world.run_until("a node for every slot", |world| world.is_served())?;
    let part = world.next_part();
    figures.seconds("start: until every slot is served", served_ms);
    figures.count("start: statements", part.all_statements());
    figures.count("start: statements in the busiest second", part.busiest_second);
    Ok(())
}

/// All clients come.
fn come(world: &mut World, locks: usize, figures: &mut Figures) -> Result<(), String> {
    world.add_clients(locks);
    figures.count("clients", world.clients.len() as u64);
    world.run_until("a lock for every client", |world| world.incomplete == 0)?;
    let homes = world.homes();
    world.run_until("a slot at its place", |world| world.is_settled(&homes))?;
    let part = world.next_part();
    figures.count("clients come: messages", part.messages());
    figures.count("clients come: commits", part.statements(&[Commit]));
    kept(&part)
}

/// Nothing happens.
fn idle(world: &mut World, figures: &mut Figures) -> Result<(), String> {
    world.run_for(IDLE_MS)?;
    let part = world.next_part();
    let seconds = IDLE_MS as f64 / 1000.0;
    figures.rate("idle: statements a second", part.all_statements() as f64 / seconds);
    figures.rate("idle: of these, polls", part.statements(&[Poll]) as f64 / seconds);
    figures.rate("idle: of these, commits", part.statements(&[Commit]) as f64 / seconds);
    figures.rate("idle: pings a second", part.heartbeats as f64 / seconds);
    kept(&part)
}

/// Another node joins, and is given its share.
fn join(world: &mut World, figures: &mut Figures) -> Result<(), String> {
    world.start_node()?;
    let homes = world.homes();
    let settled_ms = world.run_until("the share of a new node", |world| world.is_settled(&homes))?;
    world.run_until("the return of all clients", |world| world.incomplete == 0)?;
    let part = world.next_part();
    figures.seconds("a node joins: until it has its share", settled_ms);
    figures.count("a node joins: slots that move", part.taken);
    figures.each("a node joins: statements of a take", part.statements(&[Take, Load]), part.taken);
    figures.each("a node joins: messages of clients for a slot", part.messages(), part.taken);
    figures.each("a node joins: connections between nodes for a slot", part.hops, part.taken);
    figures.seconds("a node joins: the longest that a client is away", part.longest_gap_ms);
    kept(&part)
}

/// Every connection ends.
fn reconnect(world: &mut World, figures: &mut Figures) -> Result<(), String> {
    world.disconnect_all();
    let back_ms = world.run_until("the return of all clients", |world| world.incomplete == 0)?;
    let part = world.next_part();
    figures.seconds("all clients reconnect: until the last is back", back_ms);
    figures.count("all clients reconnect: messages", part.messages());
    figures.count("all clients reconnect: connections between nodes", part.hops);
    figures.count("all clients reconnect: slots that are taken", part.taken);
    if part.resumed < world.clients.len() as u64 {
        return Err(format!("only {} sessions of {} went on", part.resumed, world.clients.len()));
    }
    kept(&part)
}

/// A third of the nodes is gone, with some clients.
fn lose_a_rack(world: &mut World, figures: &mut Figures) -> Result<(), String> {
    let lost: Vec<usize> = world.nodes.running().filter(|number| number % RACKS == 1).collect();
    let (begun_ms, slots) = (world.now_ms, world.lose_nodes(&lost));
    let gone = world.lose_clients(&slots);
    let mut probes = World::probes(&slots);
    figures.count("a rack is lost: nodes", lost.len() as u64);
    figures.count("a rack is lost: slots", slots.len() as u64);
    let passed = |world: &World| world.now_ms - begun_ms;
    let dead = lost.len() as u64;
    world.run_until("the death of a node", |world| world.tally.buried >= dead)?;
    figures.seconds("a rack is lost: until its nodes are declared dead", passed(world));
    world.run_until("a node for every slot", |world| world.is_served())?;
    figures.seconds("a rack is lost: until every slot is served", passed(world));
    world.run_until("a claim", |world| world.try_again(&mut probes))?;
    figures.seconds("a rack is lost: until a claim is granted in each of its slots", passed(world));
    let waiters = gone.len();
    world.run_until("the return of all clients", |world| world.incomplete <= waiters)?;
    figures.seconds("a rack is lost: until all clients are back with their locks", passed(world));
    let returned = world.tally.clone();
    world.run_until("the lock of a client that is gone", |world| world.incomplete == 0)?;
    figures.seconds("a rack is lost: until the locks of clients that are gone are granted", passed(world));
    let part = world.next_part();
    let slots = slots.len() as u64;
    figures.each("a rack is lost: statements of a takeover", part.statements(&[Take, Load]), slots);
    figures.count("a rack is lost: statements that declare nodes dead", part.statements(&[Bury]));
    figures.count("a rack is lost: statements in the busiest second", part.busiest_second);
    figures.each("a rack is lost: messages of clients for a slot", returned.messages(), slots);
    figures.each("a rack is lost: attempts to connect for a slot", returned.attempts, slots);
    figures.each("a rack is lost: connections between nodes for a slot", returned.hops, slots);
    figures.each("a rack is lost: locks brought back for a slot", returned.reclaimed, slots);
    figures.count("locks lost, of clients that came back", part.locks_lost);
    for (gone, waiter) in gone {
        let granted_ms = world.clients[waiter].first_complete_ms.unwrap_or_default();
        let relied_ms = world.clients[gone].deadline_ms().max(begun_ms + SLOT_LEASE_MS);
        if granted_ms < relied_ms {
            return Err(format!(
                "a lock is granted at {granted_ms} ms on which another one relies until {relied_ms} ms"
            ));
        }
    }
    kept(&part)
}

/// No client that came back in time has lost a lock.
fn kept(part: &Tally) -> Result<(), String> {
    if part.locks_lost == 0 { Ok(()) } else { Err(format!("{} locks were lost", part.locks_lost)) }
}
