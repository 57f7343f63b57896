//! Refusals of offline locks and claims on their way into the history. They go with the next commit that
//! others make, so that a caller who is refused again and again makes the store write neither much more often
//! nor much more. Where none comes for [`EventBounds::REFUSALS_PATIENCE`], they have one of their own.
//!
//! Each is one entry a minute, however often it comes. Where there are too many different ones, those that
//! are written already make room first, at the price of another entry within the minute; then new ones of the
//! tenant that has most are left out, and counted.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lockhouse_core::NameBuf;
use lockhouse_store::{HistoryKind, REFUSALS_GATHERED, RefusalRecord, Scope, Write};
use tokio::time::Instant;

use crate::engine::events::EventBounds;
use crate::engine::sync::{AtomicU64, Mutex};

/// The refusals that are gathered.
#[derive(Debug, Default)]
pub(crate) struct RefusalQueue {
    gathered: Mutex<Gathered>,
    left_out: AtomicU64,
}

#[derive(Debug, Default)]
struct Gathered {
    tenants: BTreeMap<Box<str>, OfTenant>,
    /// The memory of all, about.
    bytes: usize,
    /// Before that nothing is to be written; none if nothing is there.
    next: Option<Instant>,
    /// When the present [`EventBounds::REFUSALS_PERIOD`] began, and how many were written in it.
    period: Option<(Instant, usize)>,
    /// When a commit of their own was made last, or would have been.
    alone: Option<Instant>,
    /// The tenant whose turn was the last.
    turn: Box<str>,
}

/// What the arrival of a refusal leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Added {
    /// So many refusals are left out for it: of this one, or of others that have made room.
    pub(crate) left_out: u64,
    /// Whether something is due sooner than before.
    pub(crate) is_sooner: bool,
}

#[derive(Debug, Default)]
struct OfTenant {
    of: HashMap<Kind, State>,
    bytes: usize,
    /// How many of them are written, and wait for the end of their minute alone.
    written: usize,
}

/// What is one entry: the same name, refused to the same caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    scope: Arc<Scope>,
    kind: HistoryKind,
    name: NameBuf,
    who: Box<str>,
}

#[derive(Debug)]
struct State {
    /// What was refused since it was written; nothing, if its count is 0.
    record: RefusalRecord,
    /// No entry of it is written before.
    not_before: Instant,
}

impl RefusalQueue {
    /// Something was refused in a bucket of that tenant.
    pub(crate) fn add(&self, scope: &Arc<Scope>, tenant: &str, record: RefusalRecord, now: Instant) -> Added {
        let kind = Kind {
            scope: scope.clone(),
            kind: record.kind,
            name: record.name.clone(),
            who: record.who.clone(),
        };
        let added = self.gathered.lock().add(kind, tenant, record, now);
        if added.left_out > 0 {
            self.left_out.fetch_add(added.left_out, Ordering::Relaxed);
        }
        added
    }

    /// Takes what goes with the commit that is about to be made.
    pub(crate) fn take(&self, now: Instant, writes: &mut Vec<Write>) {
        let mut gathered = self.gathered.lock();
        if gathered.next.is_some_and(|next| next <= now) {
            gathered.take(now, writes);
        }
    }

    /// When they have a commit of their own, if no other comes before; none if nothing waits.
    pub(crate) fn patient_until(&self) -> Option<Instant> {
        let gathered = self.gathered.lock();
        let next = gathered.next?;
        Some(gathered.alone.map_or(next, |alone| alone.max(next)) + EventBounds::REFUSALS_PATIENCE)
    }

    /// Takes what has a commit of its own. Returns how many refusals that are.
    pub(crate) fn take_alone(&self, now: Instant, writes: &mut Vec<Write>) -> u64 {
        let mut gathered = self.gathered.lock();
        gathered.alone = Some(now);
        let all = gathered.count();
        gathered.take(now, writes);
        all - gathered.count()
    }

    /// Takes what goes with the last commit but one: as much as with any, whether or not its minute is over.
    /// All else is left out. Returns how many refusals are taken, and how many are left out.
    pub(crate) fn take_last(&self, now: Instant, writes: &mut Vec<Write>) -> (u64, u64) {
        let mut gathered = self.gathered.lock();
        let all = gathered.count();
        gathered.take(now + REFUSALS_GATHERED, writes);
        let left_out = std::mem::take(&mut *gathered).count();
        self.left_out.fetch_add(left_out, Ordering::Relaxed);
        (all - left_out, left_out)
    }

    /// Leaves these out, too: the store has no space for them.
    pub(crate) fn leave_out(&self, count: u64) {
        self.left_out.fetch_add(count, Ordering::Relaxed);
    }

    /// How many refusals were left out.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl Gathered {
    fn add(&mut self, kind: Kind, tenant: &str, record: RefusalRecord, now: Instant) -> Added {
        let known = self.tenants.get_mut(tenant).and_then(|it| it.again(&kind, &record));
        let (due, left_out) = match known {
            Some(not_before) => (not_before, 0),
            None => {
                let bytes = bytes_of(&record);
                let (has_space, left_out) = self.make_space(tenant, bytes);
                if !has_space {
                    let left_out = left_out + u64::from(record.count);
                    return Added { left_out, is_sooner: false };
                }
                self.bytes += bytes;
                let it = self.tenants.entry(tenant.into()).or_default();
                it.bytes += bytes;
                it.of.insert(kind, State { record, not_before: now });
                (now, left_out)
            }
        };
        let is_sooner = self.next.is_none_or(|next| due < next);
        if is_sooner {
            self.next = Some(due);
        }
        Added { left_out, is_sooner }
    }

    /// Makes room for so many bytes more of that tenant. Returns whether there is room, and how many refusals
    /// of others are left out for it.
    fn make_space(&mut self, tenant: &str, more: usize) -> (bool, u64) {
        let of = |all: &Self| all.tenants.get(tenant).map_or(0, |it| it.bytes) + more;
        if of(self) > EventBounds::REFUSAL_BYTES_OF_TENANT {
            self.bytes -= self.tenants.get_mut(tenant).map_or(0, OfTenant::forget_written);
            if of(self) > EventBounds::REFUSAL_BYTES_OF_TENANT {
                return (false, 0);
            }
        }
        if self.bytes + more > EventBounds::REFUSAL_BYTES {
            self.bytes -= self.tenants.values_mut().map(OfTenant::forget_written).sum::<usize>();
            self.tenants.retain(|_, it| !it.of.is_empty());
        }
        let mut left_out = 0;
        while self.bytes + more > EventBounds::REFUSAL_BYTES {
            let wanted = of(self);
            let largest = self.tenants.values_mut().max_by_key(|it| it.bytes);
            let Some(largest) = largest.filter(|it| it.bytes > wanted) else { return (false, left_out) };
            let (bytes, count) = largest.drop_one();
            self.bytes -= bytes;
            left_out += count;
        }
        (true, left_out)
    }

    /// How many refusals wait.
    fn count(&self) -> u64 {
        let states = self.tenants.values().flat_map(|it| it.of.values());
        states.map(|state| u64::from(state.record.count)).sum()
    }

    fn take(&mut self, now: Instant, writes: &mut Vec<Write>) {
        let in_time = |(began, _): &(Instant, usize)| now < *began + EventBounds::REFUSALS_PERIOD;
        let (began, mut written) = self.period.filter(in_time).unwrap_or((now, 0));
        if written >= EventBounds::REFUSALS_WRITTEN {
            return;
        }
        let share = (EventBounds::REFUSALS_WRITTEN - written).div_ceil(self.tenants.len().max(1));
        for _ in 0..self.tenants.len() {
            let after = self.tenants.range::<str, _>((Excluded(&*self.turn), Unbounded)).next();
            let next = after.or_else(|| self.tenants.first_key_value()).map(|(tenant, _)| tenant.clone());
            let Some(next) = next.filter(|_| written < EventBounds::REFUSALS_WRITTEN) else { break };
            if let Some(it) = self.tenants.get_mut(&next) {
                written += it.take(now, share.min(EventBounds::REFUSALS_WRITTEN - written), writes);
            }
            self.turn = next;
        }
        self.period = Some((began, written));
        self.bytes -= self.tenants.values_mut().map(|it| it.forget_those_over(now)).sum::<usize>();
        self.tenants.retain(|_, it| !it.of.is_empty());
        self.next = self.tenants.values().flat_map(|it| it.of.values()).map(|state| state.not_before).min();
    }
}

impl OfTenant {
    /// The same was refused once more. Returns when that is due; none if it is not known.
    fn again(&mut self, kind: &Kind, record: &RefusalRecord) -> Option<Instant> {
        let State { record: known, not_before } = self.of.get_mut(kind)?;
        if known.count == 0 {
            known.since = record.since;
            self.written -= 1;
        }
        (known.at, known.owner, known.mode) = (record.at, record.owner, record.mode);
        known.count = known.count.saturating_add(record.count);
        Some(*not_before)
    }

    /// Those that are due, the oldest first, at most so many. Returns how many.
    fn take(&mut self, now: Instant, most: usize, writes: &mut Vec<Write>) -> usize {
        let is_due = |(_, state): &(&Kind, &mut State)| state.record.count > 0 && state.not_before <= now;
        let mut due: Vec<_> = self.of.iter_mut().filter(is_due).collect();
        due.sort_unstable_by_key(|(_, state)| (state.not_before, state.record.since));
        due.truncate(most);
        let count = due.len();
        for (kind, state) in due {
            let refusal = Box::new(state.record.clone());
            writes.push(Write::Refused { scope: kind.scope.clone(), refusal });
            state.record.count = 0;
            state.not_before = now + REFUSALS_GATHERED;
        }
        self.written += count;
        count
    }

    /// Forgets those that are written, and returns what that frees.
    fn forget_written(&mut self) -> usize {
        if self.written == 0 { 0 } else { self.keep(|state| state.record.count > 0) }
    }

    /// The same of those whose minute is over: nothing has come since.
    fn forget_those_over(&mut self, now: Instant) -> usize {
        self.keep(|state| state.record.count > 0 || state.not_before > now)
    }

    fn keep(&mut self, is_kept: impl Fn(&State) -> bool) -> usize {
        let before = self.bytes;
        let Self { of, bytes, written } = self;
        of.retain(|_, state| {
            let is_kept = is_kept(state);
            if !is_kept {
                *bytes -= bytes_of(&state.record);
                *written -= 1;
            }
            is_kept
        });
        before - self.bytes
    }

    /// Drops some refusal. Returns its bytes, and how often it came.
    fn drop_one(&mut self) -> (usize, u64) {
        let some = self.of.keys().next().cloned();
        let Some(state) = some.and_then(|kind| self.of.remove(&kind)) else { return (0, 0) };
        let bytes = bytes_of(&state.record);
        self.bytes -= bytes;
        self.written -= usize::from(state.record.count == 0);
        (bytes, state.record.count.into())
    }
}

/// The memory of a refusal, about.
fn bytes_of(record: &RefusalRecord) -> usize {
    let texts = record.name.as_name().as_wtf8().len() + record.who.len();
    size_of::<(Kind, State)>() + 2 * texts
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::time::Duration;

    fn refused(queue: &RefusalQueue, tenant: &str, name: &str, (begin, ms): (Instant, u64)) -> u64 {
        let at = lockhouse_core::Instant::from_millis(ms);
        let record = RefusalRecord {
            kind: HistoryKind::Claim,
            name: NameBuf::new(name).unwrap(),
            mode: None,
            who: "Bob".into(),
            owner: None,
            since: at,
            at,
            count: 1,
        };
        let scope = Arc::new(Scope::new(tenant, "b"));
        queue.add(&scope, tenant, record, begin + Duration::from_millis(ms)).left_out
    }

    fn written(queue: &RefusalQueue, (begin, ms): (Instant, u64)) -> Vec<(Arc<Scope>, RefusalRecord)> {
        let mut writes = Vec::new();
        queue.take(begin + Duration::from_millis(ms), &mut writes);
        let record = |write| match write {
            Write::Refused { scope, refusal } => (scope, *refusal),
            other => panic!("{other:?}"),
        };
        writes.into_iter().map(record).collect()
    }

    fn taken(queue: &RefusalQueue, at: (Instant, u64)) -> Vec<(u32, u64, u64)> {
        let written = written(queue, at).into_iter();
        written.map(|(_, it)| (it.count, it.since.as_millis(), it.at.as_millis())).collect()
    }

    /// How many of each tenant are written.
    fn turns(queue: &RefusalQueue, at: (Instant, u64)) -> BTreeMap<String, usize> {
        let mut turns = BTreeMap::new();
        for (scope, _) in written(queue, at) {
            *turns.entry(scope.tenant.to_string()).or_default() += 1;
        }
        turns
    }

    const PERIOD_MS: u64 = EventBounds::REFUSALS_PERIOD.as_millis() as u64;

    #[test]
    fn the_same_refusal_is_one_entry_a_minute_however_often_it_comes() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        (1..=3).for_each(|ms| _ = refused(&queue, "t", "n", (begin, ms)));
        assert_eq!(taken(&queue, (begin, 3)), [(3, 1, 3)]);
        (4..=1000).for_each(|ms| _ = refused(&queue, "t", "n", (begin, ms)));
        assert_eq!(taken(&queue, (begin, 60_002)), []);
        assert_eq!(taken(&queue, (begin, 60_003)), [(997, 4, 1000)]);
        assert_eq!(taken(&queue, (begin, 120_003)), []);
        let gathered = queue.gathered.lock();
        assert!(gathered.tenants.is_empty() && gathered.bytes == 0);
    }

    #[test]
    fn refusals_are_patient_from_their_arrival_or_from_the_last_commit_of_their_own() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        let at = |ms| begin + Duration::from_millis(ms);
        let patience = |ms| Some(at(ms) + EventBounds::REFUSALS_PATIENCE);
        assert_eq!(queue.patient_until(), None);
        (1..=200).for_each(|n| _ = refused(&queue, "t", &n.to_string(), (begin, n)));
        assert_eq!(queue.patient_until(), patience(1));
        let mut writes = Vec::new();
        assert_eq!(queue.take_alone(at(10_001), &mut writes), EventBounds::REFUSALS_WRITTEN as u64);
        assert_eq!((writes.len(), queue.patient_until()), (EventBounds::REFUSALS_WRITTEN, patience(10_001)));
        assert_eq!(queue.take_alone(at(10_002), &mut writes), 0, "no more within the period");
        assert_eq!(queue.patient_until(), patience(10_002));
    }

    #[test]
    fn tenants_have_their_turns_and_no_more_are_written_than_the_period_allows() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        (0..200).for_each(|n| _ = refused(&queue, "loud", &n.to_string(), (begin, 1)));
        let all = turns(&queue, (begin, 1));
        assert_eq!(all["loud"], EventBounds::REFUSALS_WRITTEN);
        refused(&queue, "quiet", "n", (begin, 2));
        assert!(turns(&queue, (begin, PERIOD_MS)).is_empty());
        let next = turns(&queue, (begin, PERIOD_MS + 1));
        assert_eq!((next["loud"], next["quiet"]), (EventBounds::REFUSALS_WRITTEN / 2, 1));
        assert_eq!(queue.left_out(), 0);
    }

    #[test]
    fn what_is_written_gives_way_and_what_does_not_fit_is_counted() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        let most = (0..).find(|n| refused(&queue, "loud", &n.to_string(), (begin, 1)) > 0).unwrap();
        assert!((500..2_000).contains(&most), "{most}");
        assert_eq!(refused(&queue, "loud", "0", (begin, 1)), 0, "it is there already");
        assert_eq!((refused(&queue, "quiet", "n", (begin, 1)), queue.left_out()), (0, 1));
        let count = turns(&queue, (begin, 1))["loud"];
        let news =
            (0..).take_while(|n| refused(&queue, "loud", &format!("new {n}"), (begin, 2)) == 0).count();
        assert!(news > count / 2, "{count} were written, {news} have found room");
    }

    #[test]
    fn of_many_tenants_those_that_have_most_give_way() {
        let (queue, begin) = (RefusalQueue::default(), Instant::now());
        for loud in 0..8 {
            (0..2_000).for_each(|n| _ = refused(&queue, &format!("loud {loud}"), &n.to_string(), (begin, 1)));
        }
        let full = queue.gathered.lock().bytes;
        assert!(full <= EventBounds::REFUSAL_BYTES, "{full}");
        let before = queue.left_out();
        (0..20).for_each(|n| _ = refused(&queue, "quiet", &n.to_string(), (begin, 1)));
        let gathered = queue.gathered.lock();
        assert_eq!(gathered.tenants["quiet"].of.len(), 20);
        assert!(gathered.bytes <= EventBounds::REFUSAL_BYTES);
        assert_eq!(gathered.bytes, gathered.tenants.values().map(|it| it.bytes).sum::<usize>());
        assert!((before + 10..=before + 20).contains(&queue.left_out()));
    }
}
