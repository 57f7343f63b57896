//! The price of each lock type: the same working day of the same users under each of them, counted.
//!
//! docs/offline-locks.md shows the table that this prints (`--no-capture`), and invites its readers to change
//! the numbers to their own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use lockhouse::{House, LockType, ManualClock, Options, Owner, RecordKind, Wanted};
use random::Random;

const USERS: usize = 30;
const RECORDS: u64 = 200;
/// Every second piece of work is about one of these.
const POPULAR: u64 = 20;
/// How many of a hundred pieces of work change the record.
const EDITS_OF_100: u64 = 30;
const EDIT_SECONDS: (u64, u64) = (120, 1200);
const READ_SECONDS: (u64, u64) = (20, 180);
/// Between two pieces of work, and after a refusal.
const PAUSE_SECONDS: (u64, u64) = (30, 300);
const DAY_SECONDS: u64 = 8 * 3600;

/// How records are protected from two users who want them at once.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// Not at all; the version shows the conflict at the save.
    Versions,
    /// By the lock type, one lock for so many records.
    Locks(LockType, u64),
}

/// The next action of a user.
#[derive(Clone, Copy)]
struct Work {
    record: u64,
    is_edit: bool,
    seconds: u64,
    pause: u64,
}

/// The result of a day.
#[derive(Clone, Copy, Debug, Default)]
struct Day {
    edits: u64,
    edits_refused: u64,
    edits_lost: u64,
    minutes_lost: u64,
    reads: u64,
    reads_refused: u64,
    reads_overtaken: u64,
}

/// The dice of one user: the same wishes under every rule.
struct Dice(Random);

impl Dice {
    fn draw(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.0.below((most - least + 1) as usize) as u64
    }

    fn work(&mut self) -> Work {
        let most = if self.draw((0, 1)) == 0 { POPULAR } else { RECORDS };
        let record = self.draw((0, most - 1));
        let is_edit = self.draw((1, 100)) <= EDITS_OF_100;
        let seconds = self.draw(if is_edit { EDIT_SECONDS } else { READ_SECONDS });
        Work { record, is_edit, seconds, pause: self.draw(PAUSE_SECONDS) }
    }
}

/// A user, and what the record was like when the present work began.
struct User {
    owner: Owner,
    dice: Dice,
    at_work: Option<(Work, u64)>,
}

impl Rule {
    fn wanted(self, work: Work) -> Option<Wanted> {
        let Self::Locks(lock_type, together) = self else { return None };
        let record = RecordKind::new("record", lock_type).record(work.record / together);
        Some(if work.is_edit { record.for_write() } else { record.for_read() })
    }
}

async fn day(rule: Rule) -> Day {
    let clock = ManualClock::new();
    let house = House::with_options(&Options::new().clock(&clock));
    let owners = house.bucket("office").owners();
    let (mut users, mut agenda) = (Vec::new(), BinaryHeap::new());
    for user in 0..USERS {
        let owner = owners.open(format!("user {user}"), Duration::from_secs(2 * DAY_SECONDS)).await.unwrap();
        let mut dice = Dice(Random::new(user as u64));
        agenda.push(Reverse((dice.draw(PAUSE_SECONDS), user)));
        users.push(User { owner, dice, at_work: None });
    }
    let (mut versions, mut day, mut now) = (vec![0; RECORDS as usize], Day::default(), 0);
    while let Some(Reverse((at, user))) = agenda.pop().filter(|Reverse((at, _))| *at < DAY_SECONDS) {
        clock.advance(Duration::from_secs(at - now));
        now = at;
        let user_at = &mut users[user];
        let rest = match user_at.at_work.take() {
            None => begin(rule, user_at, &versions, &mut day).await,
            Some((work, version)) => {
                end(work, version, &mut versions, &mut day);
                user_at.owner.unlock_all().await.unwrap();
                work.pause
            }
        };
        agenda.push(Reverse((now + rest, user)));
    }
    day
}

/// The beginning of a piece of work; how long until the user has to be looked at again.
async fn begin(rule: Rule, user: &mut User, versions: &[u64], day: &mut Day) -> u64 {
    let work = user.dice.work();
    let (asked, refused) = match work.is_edit {
        true => (&mut day.edits, &mut day.edits_refused),
        false => (&mut day.reads, &mut day.reads_refused),
    };
    *asked += 1;
    if user.owner.lock(rule.wanted(work)).await.is_err() {
        *refused += 1;
        return work.pause;
    }
    user.at_work = Some((work, versions[work.record as usize]));
    work.seconds
}

/// Under every rule the version shows whether another user has changed the record meanwhile.
fn end(work: Work, version: u64, versions: &mut [u64], day: &mut Day) {
    let current = &mut versions[work.record as usize];
    let is_overtaken = *current != version;
    match (work.is_edit, is_overtaken) {
        (true, false) => *current += 1,
        (true, true) => {
            day.edits_lost += 1;
            day.minutes_lost += work.seconds / 60;
        }
        (false, _) => day.reads_overtaken += u64::from(is_overtaken),
    }
}

impl Day {
    /// As a line of the table in the documentation.
    fn line(&self, title: &str) -> String {
        let of = |part: u64, all: u64| format!("{part} ({} %)", (100 * part + all / 2) / all);
        format!(
            "| {title} | {} | {} | {} | {} |",
            of(self.edits_refused, self.edits),
            of(self.reads_refused, self.reads),
            match self.edits_lost {
                0 => "0".to_owned(),
                lost => format!("{}, {} min of work", of(lost, self.edits), self.minutes_lost),
            },
            of(self.reads_overtaken, self.reads - self.reads_refused)
        )
    }
}

#[tokio::test]
async fn the_prices_of_lock_types_are_those_of_the_documentation() {
    use LockType::{ExclusiveRead, ExclusiveWrite, ReadWrite};
    let page = include_str!("../../../../docs/offline-locks.md");
    let mut days = Vec::new();
    for (title, rule) in [
        ("no lock, versions only", Rule::Versions),
        ("`ExclusiveWrite`", Rule::Locks(ExclusiveWrite, 1)),
        ("`ReadWrite`", Rule::Locks(ReadWrite, 1)),
        ("`ExclusiveRead`", Rule::Locks(ExclusiveRead, 1)),
        ("`ExclusiveWrite`, one lock for 10 records", Rule::Locks(ExclusiveWrite, 10)),
        ("`ReadWrite`, one lock for everything", Rule::Locks(ReadWrite, RECORDS)),
        ("`ExclusiveRead`, one lock for everything", Rule::Locks(ExclusiveRead, RECORDS)),
    ] {
        let day = day(rule).await;
        let line = day.line(title);
        println!("{line}");
        days.push((day, line));
    }
    let refused = |n: usize| (days[n].0.edits_refused, days[n].0.reads_refused);
    let [versions, write, read_write, read, coarse, shared, alone] = [0, 1, 2, 3, 4, 5, 6].map(refused);
    assert_eq!((versions, write.1, coarse.1), ((0, 0), 0, 0), "who takes no lock is not refused");
    let all = |(edits, reads)| edits + reads;
    assert!(all(write) < all(read_write) && all(read_write) < all(read), "each costs more");
    assert!(all(write) < all(coarse) && all(read_write) < all(shared) && all(shared) < all(alone));
    let lost = days.iter().map(|(day, _)| day.edits_lost > 0).collect::<Vec<_>>();
    assert_eq!(lost, [true, false, false, false, false, false, false], "a lock keeps work from being lost");
    let overtaken = days.iter().map(|(day, _)| day.reads_overtaken > 0).collect::<Vec<_>>();
    assert_eq!(overtaken, [true, true, false, false, true, false, false], "readers that lock see the newest");
    for (_, line) in &days {
        assert!(page.contains(line), "docs/offline-locks.md lacks\n{line}");
    }
}
