//! Every rule by itself, and all of them against a slow transcription that keeps every change and every
//! notice for ever.

use proptest::prelude::*;

use super::*;

type Plain = Outbox<u32, &'static str>;

impl MemorySize for &str {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl MemorySize for u32 {
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl MemorySize for u64 {
    fn bytes(&self) -> usize {
        size_of::<Self>()
    }
}

fn outbox() -> Plain {
    Outbox::new(0)
}

fn name(text: &str) -> NameBuf {
    NameBuf::new(text).unwrap()
}

/// A command that changes these names, with one change each.
fn command(outbox: &mut Plain, names: &[&str]) {
    names.iter().zip(0..).for_each(|(text, n)| outbox.change(&[name(text)], n));
    outbox.close_group();
}

/// A notice about that name; whether it left at once.
fn announce(outbox: &mut Plain, about: &str, notice: &'static str) -> bool {
    outbox.hold(&[Name::new(about).unwrap()], 0, notice).is_some()
}

/// Sends the next `budget` changes, and has them committed.
fn commit(outbox: &mut Plain, budget: usize) -> Vec<&'static str> {
    outbox.take(budget, &mut Vec::new());
    outbox.committed()
}

fn assert_forgot_everything<C: MemorySize, N: MemorySize>(outbox: &Outbox<C, N>) {
    assert_eq!(outbox.bytes(), 0);
    assert!(outbox.is_idle() && outbox.unsent() == 0);
    assert!(outbox.groups.is_empty() && outbox.names.is_empty() && outbox.marks.is_empty());
}

#[test]
fn everything_passes_while_nothing_is_uncommitted() {
    let mut outbox = outbox();
    assert!(announce(&mut outbox, "a", "granted"));
    assert_eq!(outbox.hold_behind_all("snapshot"), Some("snapshot"));
    assert_forgot_everything(&outbox);
}

#[test]
fn a_notice_waits_for_the_last_change_of_its_name_and_other_names_pass() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    command(&mut outbox, &["b"]);
    command(&mut outbox, &["a"]);
    assert!(!announce(&mut outbox, "a", "about a"));
    assert!(!announce(&mut outbox, "b", "about b"));
    assert!(announce(&mut outbox, "c", "about c"));
    assert!(commit(&mut outbox, 1).is_empty());
    assert_eq!(commit(&mut outbox, 1), ["about b"]);
    assert_eq!(commit(&mut outbox, 1), ["about a"]);
    assert_forgot_everything(&outbox);
}

#[test]
fn all_that_waits_counts_until_its_group_is_durable() {
    let mut outbox = outbox();
    let long = "n".repeat(1000);
    command(&mut outbox, &[&long]);
    let one = outbox.bytes();
    let kept = size_of::<Group<u32, &str>>() + 2 * size_of::<NameBuf>() + size_of::<u64>() + long.len();
    assert!(one >= kept, "the name counts, in the group and in the map: {one}");
    command(&mut outbox, &[&long]);
    assert_eq!(outbox.bytes(), 2 * one, "in each group that it is in");
    assert_eq!(outbox.len(), 2);
    assert_eq!(outbox.hold_behind_all("snapshot"), None);
    assert_eq!(outbox.bytes(), 2 * one + "snapshot".len());
    assert_eq!(outbox.notice_bytes(), "snapshot".len());
    outbox.charge(0, 5);
    outbox.take(1, &mut Vec::new());
    assert_eq!(outbox.bytes(), 2 * one + "snapshot".len() + 5, "changes that were sent are still there");
    outbox.committed();
    assert_eq!((outbox.bytes(), outbox.notice_bytes()), (one + "snapshot".len(), "snapshot".len()));
    assert!(!announce(&mut outbox, &long, "later"));
    assert_eq!(outbox.notice_bytes(), "snapshot".len() + "later".len());
    assert_eq!(commit(&mut outbox, 1), ["snapshot", "later"]);
    assert_forgot_everything(&outbox);
}

#[test]
fn a_name_that_a_command_changes_twice_counts_once() {
    let (mut once, mut twice) = (outbox(), outbox());
    command(&mut once, &["a"]);
    command(&mut twice, &["a", "a"]);
    assert_eq!(twice.bytes(), once.bytes() + size_of::<u32>());
}

#[test]
fn the_notices_of_a_group_stop_counting_while_others_wait() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    command(&mut outbox, &["b"]);
    assert!(!announce(&mut outbox, "a", "first"));
    assert!(!announce(&mut outbox, "b", "second one"));
    assert_eq!(outbox.notice_bytes(), "first".len() + "second one".len());
    assert_eq!(commit(&mut outbox, 1), ["first"]);
    assert_eq!(outbox.notice_bytes(), "second one".len());
}

#[test]
fn a_budget_is_used_up_to_its_end() {
    let mut outbox = outbox();
    ["a", "b", "c"].iter().for_each(|name| command(&mut outbox, &[name]));
    let mut taken = Vec::new();
    outbox.take(2, &mut taken);
    assert_eq!(taken.len(), 2);
}

#[test]
fn groups_are_numbered_on_where_the_store_was_lost() {
    let mut outbox = outbox();
    ["a", "b", "c"].iter().for_each(|name| command(&mut outbox, &[name]));
    assert!(!announce(&mut outbox, "c", "lost"));
    commit(&mut outbox, 1);
    let last = outbox.last();
    assert_eq!(outbox.fenced(), ["lost"]);
    command(&mut outbox, &["a"]);
    assert_eq!(outbox.last(), last + 1);
}

#[test]
fn what_waits_longest_makes_its_names_wait_for_the_last_group() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    command(&mut outbox, &["b"]);
    assert_eq!(outbox.hold_longest(&[Name::new("c").unwrap()], "granted"), None);
    assert!(!announce(&mut outbox, "c", "lost"));
    assert!(announce(&mut outbox, "d", "about d"));
    assert!(commit(&mut outbox, 1).is_empty());
    assert_eq!(commit(&mut outbox, 1), ["granted", "lost"]);
    assert_eq!(outbox.hold_longest(&[Name::new("c").unwrap()], "granted"), Some("granted"));
    assert_forgot_everything(&outbox);
}

#[test]
fn a_notice_passes_once_the_changes_of_its_name_are_durable_though_others_are_not() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    command(&mut outbox, &["b"]);
    commit(&mut outbox, 1);
    assert!(announce(&mut outbox, "a", "about a"));
    assert!(!announce(&mut outbox, "b", "about b"));
}

#[test]
fn a_notice_of_several_names_waits_for_the_last_of_them_and_makes_the_others_wait() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    command(&mut outbox, &["b"]);
    let both = [Name::new("a").unwrap(), Name::new("c").unwrap(), Name::new("b").unwrap()];
    assert_eq!(outbox.hold(&both, 0, "all three"), None);
    assert!(!announce(&mut outbox, "c", "c, later"));
    assert!(!announce(&mut outbox, "a", "a, later"));
    assert!(commit(&mut outbox, 1).is_empty());
    assert!(!announce(&mut outbox, "c", "c, last"), "the order of a name is kept");
    assert_eq!(commit(&mut outbox, 1), ["all three", "c, later", "a, later", "c, last"]);
    assert_forgot_everything(&outbox);
}

#[test]
fn a_token_above_the_durable_mark_waits_for_its_reservation() {
    let mut outbox = Outbox::new(10);
    outbox.reservation(20, 0);
    outbox.close_group();
    outbox.reservation(30, 1);
    outbox.close_group();
    assert_eq!(outbox.hold(&[], 10, "10"), Some("10"));
    assert_eq!(outbox.hold(&[], 21, "21"), None);
    assert_eq!(outbox.hold(&[], 20, "20"), None);
    assert_eq!(outbox.hold(&[], 11, "11"), None);
    assert_eq!(commit(&mut outbox, 1), ["20", "11"]);
    assert_eq!(outbox.hold(&[], 20, "20 again"), Some("20 again"));
    assert_eq!(outbox.hold(&[], 22, "22"), None);
    assert_eq!(commit(&mut outbox, 1), ["21", "22"]);
    assert_forgot_everything(&outbox);
}

#[test]
fn a_grant_that_waits_for_its_token_makes_its_name_wait() {
    let mut outbox = Outbox::new(0);
    outbox.reservation(100, 0);
    outbox.close_group();
    assert_eq!(outbox.hold(&[Name::new("a").unwrap()], 1, "granted"), None);
    assert_eq!(outbox.hold(&[Name::new("a").unwrap()], 0, "lost"), None);
    assert_eq!(outbox.hold(&[Name::new("b").unwrap()], 0, "refused"), Some("refused"));
    assert_eq!(commit(&mut outbox, 1), ["granted", "lost"]);
}

#[test]
fn a_notice_about_the_bucket_waits_for_its_last_change_and_follows_all_before_it() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    command(&mut outbox, &["b"]);
    assert!(!announce(&mut outbox, "b", "about b"));
    assert_eq!(outbox.hold_behind_all("snapshot"), None);
    assert!(!announce(&mut outbox, "a", "about a"));
    assert_eq!(commit(&mut outbox, 1), ["about a"]);
    assert_eq!(commit(&mut outbox, 1), ["about b", "snapshot"]);
}

#[test]
fn the_changes_of_a_command_are_never_split() {
    let mut outbox = outbox();
    command(&mut outbox, &["a", "b", "c"]);
    command(&mut outbox, &["d", "e"]);
    assert!(!announce(&mut outbox, "a", "about a"));
    let mut taken = Vec::new();
    outbox.take(2, &mut taken);
    assert_eq!(taken, [0, 1, 2], "three do not fit into two, but would never fit");
    assert!(outbox.unsent() > 0);
    assert_eq!(outbox.committed(), ["about a"]);
    outbox.take(1, &mut taken);
    assert_eq!(taken.len(), 5);
    assert!(outbox.committed().is_empty());
    assert_forgot_everything(&outbox);
}

#[test]
fn whole_commands_are_taken_while_they_fit() {
    let mut outbox = outbox();
    for names in [&["a", "b"][..], &["c"], &["d", "e"], &["f"]] {
        command(&mut outbox, names);
    }
    let mut taken = Vec::new();
    outbox.take(4, &mut taken);
    assert_eq!(taken, [0, 1, 0], "what comes later does not pass what does not fit");
    outbox.take(4, &mut taken);
    assert_eq!(taken.len(), 6, "a second helping of the same commit");
    assert_eq!(outbox.unsent(), 0);
    outbox.committed();
    assert_forgot_everything(&outbox);
}

#[test]
fn what_is_made_while_a_commit_is_under_way_waits_for_the_next() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    outbox.take(10, &mut Vec::new());
    assert!(!announce(&mut outbox, "a", "first"));
    command(&mut outbox, &["a"]);
    assert!(!announce(&mut outbox, "a", "second"));
    assert_eq!(outbox.committed(), ["first"]);
    assert_eq!(commit(&mut outbox, 10), ["second"]);
}

#[test]
fn notices_of_a_command_wait_for_its_own_changes() {
    let mut outbox = outbox();
    outbox.change(&[name("a")], 0);
    assert!(!announce(&mut outbox, "a", "granted in between"));
    outbox.change(&[name("a")], 1);
    outbox.close_group();
    assert_eq!(outbox.hold_behind_all("answer"), None);
    assert_eq!(commit(&mut outbox, 2), ["granted in between", "answer"]);
}

#[test]
fn once_fenced_no_notice_that_waited_leaves_and_everything_is_forgotten() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    outbox.take(10, &mut Vec::new());
    command(&mut outbox, &["b"]);
    outbox.reservation(10, 7);
    outbox.close_group();
    assert!(!announce(&mut outbox, "a", "one"));
    assert_eq!(outbox.hold_behind_all("two"), None);
    assert_eq!(outbox.fenced(), ["one", "two"], "to be dropped by the caller");
    assert_forgot_everything(&outbox);
    assert!(outbox.committed().is_empty());
}

#[test]
fn a_crowd_leaves_no_memory_behind() {
    let mut outbox: Outbox<u32, &str> = Outbox::new(0);
    for n in 0..10_000 {
        outbox.change(&[name(&format!("name {n}"))], n);
        outbox.close_group();
    }
    outbox.take(usize::MAX, &mut Vec::new());
    assert_eq!(outbox.committed(), Vec::<&str>::new());
    assert_forgot_everything(&outbox);
    assert!(outbox.groups.capacity() <= 1024 && outbox.names.capacity() <= 1024);
}

#[test]
fn numbers_of_groups_show_what_is_durable() {
    let mut outbox = outbox();
    command(&mut outbox, &["a"]);
    let first = outbox.last();
    command(&mut outbox, &["a"]);
    commit(&mut outbox, 1);
    assert!(outbox.is_durable(first) && !outbox.is_durable(outbox.last()));
}

/// A step in the life of an outbox.
#[derive(Clone, Debug)]
enum Step {
    /// A command with changes of these names each, that then announces its answer.
    Command {
        changes: Vec<Vec<u8>>,
        reserves: bool,
        subjects: Vec<Subject>,
    },
    Notice(Subject),
    Take(usize),
    Committed,
}

#[derive(Clone, Debug)]
enum Subject {
    DependsOn { names: Vec<u8>, with_token: bool },
    TheBucket,
}

fn subject() -> impl Strategy<Value = Subject> {
    prop_oneof![
        5 => (prop::collection::vec(0u8..6, 0..3), any::<bool>())
            .prop_map(|(names, with_token)| Subject::DependsOn { names, with_token }),
        1 => Just(Subject::TheBucket),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let names = prop::collection::vec(0u8..6, 0..3);
    let changes = prop::collection::vec(names, 1..4);
    prop_oneof![
        3 => (changes, prop::bool::weighted(0.2), prop::collection::vec(subject(), 0..3))
            .prop_map(|(changes, reserves, subjects)| Step::Command { changes, reserves, subjects }),
        4 => subject().prop_map(Step::Notice),
        2 => (0usize..8).prop_map(Step::Take),
        2 => Just(Step::Committed),
    ]
}

/// All events so far, in their order.
#[derive(Default)]
struct Oracle {
    happened: Vec<Happened>,
    /// The groups below are durable.
    durable: u64,
    /// Tokens that were reserved, durably or not.
    mark: u64,
    commands: u64,
    notices: u32,
}

#[derive(Debug)]
enum Happened {
    Change { group: u64, names: Vec<u8>, mark: u64 },
    Notice { number: u32, subject: Subject, token: u64, has_left: bool },
}

impl Oracle {
    fn announce(&mut self, subject: &Subject) -> (u32, u64) {
        let (number, token) = (self.notices, if self.has_token(subject) { self.mark } else { 0 });
        self.notices += 1;
        self.happened.push(Happened::Notice { number, subject: subject.clone(), token, has_left: false });
        (number, token)
    }

    fn has_token(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::DependsOn { with_token: true, .. })
    }

    /// Whether the step at `at` keeps a later notice from leaving.
    fn holds_back(&self, at: usize, subject: &Subject, token: u64) -> bool {
        match (&self.happened[at], subject) {
            (Happened::Change { group, .. }, _) if *group < self.durable => false,
            (Happened::Notice { has_left: true, .. }, _) => false,
            (Happened::Change { .. } | Happened::Notice { .. }, Subject::TheBucket) => true,
            (Happened::Notice { subject: Subject::TheBucket, .. }, _) => false,
            (Happened::Change { names: theirs, mark, .. }, Subject::DependsOn { names, .. }) => {
                // The first reservation that covers the token; a later one is none of its business.
                let reserves = *mark >= token && token > self.mark_before(at);
                reserves || names.iter().any(|name| theirs.contains(name))
            }
            (
                Happened::Notice { subject: Subject::DependsOn { names: theirs, .. }, .. },
                Subject::DependsOn { names, .. },
            ) => names.iter().any(|name| theirs.contains(name)),
        }
    }

    fn mark_before(&self, at: usize) -> u64 {
        let marks = self.happened[..at].iter().filter_map(|happened| match happened {
            Happened::Change { mark, .. } => Some(*mark),
            Happened::Notice { .. } => None,
        });
        marks.max().unwrap_or(0)
    }

    /// The notices that leave now, in the order in which they were made.
    fn leaving(&mut self) -> Vec<u32> {
        let mut leaving = Vec::new();
        for at in 0..self.happened.len() {
            let Happened::Notice { number, subject, token, has_left: false } = &self.happened[at] else {
                continue;
            };
            if (0..at).any(|before| self.holds_back(before, subject, *token)) {
                continue;
            }
            leaving.push(*number);
            let Happened::Notice { has_left, .. } = &mut self.happened[at] else { unreachable!() };
            *has_left = true;
        }
        leaving
    }

    fn subject_of(&self, wanted: u32) -> &Subject {
        let subject = self.happened.iter().find_map(|happened| match happened {
            Happened::Notice { number, subject, .. } if *number == wanted => Some(subject),
            _ => None,
        });
        subject.unwrap()
    }

    /// Whether these two must come in the order in which they were made.
    fn are_ordered(&self, earlier: u32, later: u32) -> bool {
        match (self.subject_of(earlier), self.subject_of(later)) {
            (_, Subject::TheBucket) => true,
            (Subject::TheBucket, _) => false,
            (Subject::DependsOn { names: a, .. }, Subject::DependsOn { names: b, .. }) => {
                a.iter().any(|name| b.contains(name))
            }
        }
    }
}

fn names_of(numbers: &[u8]) -> Vec<NameBuf> {
    numbers.iter().map(|number| name(&number.to_string())).collect()
}

fn hold(outbox: &mut Outbox<u64, u32>, subject: &Subject, number: u32, token: u64) -> Option<u32> {
    match subject {
        Subject::DependsOn { names, .. } => {
            let names = names_of(names);
            let names: Vec<_> = names.iter().map(NameBuf::as_name).collect();
            outbox.hold(&names, token, number)
        }
        Subject::TheBucket => outbox.hold_behind_all(number),
    }
}

fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut outbox = Outbox::new(0);
    let mut oracle = Oracle::default();
    let mut taken: Vec<u64> = Vec::new();
    let mut sent = Vec::new();
    for step in steps {
        let mut left = Vec::new();
        match step {
            Step::Command { changes, reserves, subjects } => {
                let group = oracle.commands;
                oracle.commands += 1;
                for names in changes {
                    outbox.change(&names_of(&names), group);
                    oracle.happened.push(Happened::Change { group, names, mark: 0 });
                }
                if reserves {
                    oracle.mark += 10;
                    outbox.reservation(oracle.mark, group);
                    oracle.happened.push(Happened::Change { group, names: Vec::new(), mark: oracle.mark });
                }
                for subject in subjects {
                    let (number, token) = oracle.announce(&subject);
                    left.extend(hold(&mut outbox, &subject, number, token));
                }
                outbox.close_group();
            }
            Step::Notice(subject) => {
                let (number, token) = oracle.announce(&subject);
                left.extend(hold(&mut outbox, &subject, number, token));
            }
            Step::Take(budget) => {
                if sent.is_empty() {
                    outbox.take(budget, &mut sent);
                }
            }
            Step::Committed => {
                left = outbox.committed();
                if let Some(last) = sent.last() {
                    oracle.durable = last + 1;
                }
                taken.append(&mut sent);
            }
        }
        check(&oracle, &left)?;
        let mut expected = oracle.leaving();
        expected.sort_unstable();
        left.sort_unstable();
        prop_assert_eq!(left, expected);
        prop_assert!(taken.is_sorted(), "changes are kept in their order");
    }
    while !outbox.is_idle() {
        outbox.committed();
        outbox.take(usize::MAX, &mut taken);
    }
    assert_forgot_everything(&outbox);
    Ok(())
}

fn check(oracle: &Oracle, left: &[u32]) -> Result<(), TestCaseError> {
    for (at, &first) in left.iter().enumerate() {
        for &then in &left[at + 1..] {
            let swapped = then < first && oracle.are_ordered(then, first);
            prop_assert!(!swapped, "{first} left before {then}, which was made before");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn notices_leave_exactly_when_the_slow_rule_lets_them(steps in prop::collection::vec(step(), 1..60)) {
        run(steps)?;
    }
}
