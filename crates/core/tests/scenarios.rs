//! Scenarios over the lock manager, as transcripts: each command with what its asker is told after `->`, and below it, after
//! `!`, what others are told. The harness runs the commands and compares the whole transcript.
//!
//! ```text
//! join a                    an agent; `join a lease 100` has a lease of 100 ms
//! a: r1 exclusive x         a request, named r1; shared, ifAvailable-exclusive, ifAvailable-shared, steal; `hold 50` at the end
//! release r1, abort r1      the lock, the request
//! end a, renew a            the agent
//! at 150                    time passes until then
//! snapshot, names, close    all that is held and pending; how many names are known; the end
//! ```

mod support;

use support::scenario;

#[test]
fn a_request_waits_in_line_and_is_granted_on_release() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         b: r2 exclusive x -> queued
         a: r3 shared x -> queued
         release r1 -> released
         ! r2 granted 2
         release r2 -> released
         ! r3 granted 3",
    );
}

#[test]
fn an_exclusive_lock_keeps_both_modes_out() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         b: r2 ifAvailable-exclusive x -> unavailable, held by a, 0 queued
         b: r3 ifAvailable-shared x -> unavailable, held by a, 0 queued",
    );
}

#[test]
fn shared_holders_share_and_keep_an_exclusive_request_waiting() {
    scenario(
        "join a
         a: r1 shared x -> granted 1
         a: r2 shared x -> granted 2
         a: r3 exclusive x -> queued
         release r1 -> released
         release r2 -> released
         ! r3 granted 3",
    );
}

#[test]
fn nothing_passes_a_waiting_exclusive_request() {
    scenario(
        "join a
         a: r1 shared x -> granted 1
         a: r2 exclusive x -> queued
         a: r3 shared x -> queued
         a: r4 ifAvailable-shared x -> unavailable, held by a, 2 queued
         snapshot -> held: a shared x; pending: a exclusive x, a shared x",
    );
}

#[test]
fn an_exclusive_lock_on_another_name_does_not_matter() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 shared y -> granted 2
         a: r3 exclusive z -> granted 3",
    );
}

#[test]
fn a_run_of_shared_requests_is_granted_in_one_pass_up_to_the_first_exclusive_one() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 shared x -> queued
         a: r3 shared x -> queued
         a: r4 exclusive x -> queued
         a: r5 shared x -> queued
         release r1 -> released
         ! r2 granted 2
         ! r3 granted 3
         release r3 -> released
         release r2 -> released
         ! r4 granted 4
         release r4 -> released
         ! r5 granted 5",
    );
}

#[test]
fn if_available_is_granted_on_a_free_name_and_never_queued() {
    scenario(
        "join a
         a: r1 ifAvailable-exclusive x -> granted 1
         a: r2 ifAvailable-exclusive x -> unavailable, held by a, 0 queued
         snapshot -> held: a exclusive x; pending:
         release r1 -> released
         names -> 0",
    );
}

#[test]
fn steal_breaks_all_shared_holders_and_passes_the_queue() {
    scenario(
        "join a
         join b
         a: r1 shared x -> granted 1
         a: r2 shared x -> granted 2
         b: r3 shared x -> granted 3
         b: r4 exclusive x -> queued
         b: r5 exclusive x -> queued
         a: r6 steal x -> granted 4
         ! r1 lost, stolen
         ! r2 lost, stolen
         ! r3 lost, stolen
         snapshot -> held: a exclusive x; pending: b exclusive x, b exclusive x",
    );
}

#[test]
fn the_late_release_of_a_victim_finds_nothing_to_do() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         b: r2 steal x -> granted 2
         ! r1 lost, stolen
         a: r3 exclusive x -> queued
         release r1 -> not held
         snapshot -> held: b exclusive x; pending: a exclusive x
         release r2 -> released
         ! r3 granted 3",
    );
}

#[test]
fn a_stealer_can_be_stolen_from_also_by_itself() {
    scenario(
        "join a
         a: r1 steal x -> granted 1
         a: r2 steal x -> granted 2
         ! r1 lost, stolen
         a: r3 steal x -> granted 3
         ! r2 lost, stolen
         snapshot -> held: a exclusive x; pending:",
    );
}

#[test]
fn aborting_a_queued_exclusive_request_wakes_the_shared_ones_behind_it() {
    scenario(
        "join a
         a: r1 shared x -> granted 1
         a: r2 exclusive x -> queued
         a: r3 shared x -> queued
         a: r4 shared x -> queued
         abort r2 -> aborted
         ! r3 granted 2
         ! r4 granted 3",
    );
}

#[test]
fn an_abort_in_the_middle_of_the_queue_lets_nobody_overtake() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 exclusive x -> queued
         a: r3 exclusive x -> queued
         a: r4 exclusive x -> queued
         abort r3 -> aborted
         release r1 -> released
         ! r2 granted 2
         release r2 -> released
         ! r4 granted 3",
    );
}

#[test]
fn an_abort_after_the_grant_takes_no_lock_away() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 exclusive x -> queued
         abort r1 -> not pending
         snapshot -> held: a exclusive x; pending: a exclusive x
         abort r2 -> aborted
         abort r2 -> not pending",
    );
}

#[test]
fn a_lock_is_held_once_and_released_once() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         release r1 -> released
         b: r2 exclusive x -> granted 2
         release r1 -> not held
         snapshot -> held: b exclusive x; pending:",
    );
}

#[test]
fn a_release_of_a_request_that_waits_does_nothing() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 exclusive x -> queued
         release r2 -> not held
         release r1 -> released
         ! r2 granted 2",
    );
}

#[test]
fn the_end_of_an_agent_never_grants_its_own_waiter() {
    // By the letter, aborting r2 first would be an instant at which r3 of the same agent could be granted.
    scenario(
        "join a
         join b
         a: r1 shared x -> granted 1
         a: r2 exclusive x -> queued
         a: r3 shared x -> queued
         b: r4 shared x -> queued
         end a -> ended
         ! r4 granted 2
         snapshot -> held: b shared x; pending:",
    );
}

#[test]
fn the_end_of_an_agent_tells_only_those_whom_it_lets_in() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         a: r2 exclusive y -> granted 2
         b: r3 exclusive x -> queued
         a: r4 exclusive x -> queued
         end a -> ended
         ! r3 granted 3
         release r2 -> not held
         abort r4 -> not pending
         end a -> had ended",
    );
}

#[test]
fn the_end_of_an_agent_that_waits_wakes_the_shared_requests_behind_it() {
    scenario(
        "join a
         join b
         a: r1 shared x -> granted 1
         b: r2 exclusive x -> queued
         a: r3 shared x -> queued
         end b -> ended
         ! r3 granted 2",
    );
}

#[test]
fn exactly_one_of_many_waiters_succeeds_a_dead_primary() {
    scenario(
        "join a
         join b
         join c
         a: r1 exclusive primary -> granted 1
         b: r2 exclusive primary -> queued
         c: r3 exclusive primary -> queued
         end a -> ended
         ! r2 granted 2
         snapshot -> held: b exclusive primary; pending: c exclusive primary",
    );
}

#[test]
fn a_lease_that_runs_out_ends_the_agent_and_lets_the_next_in() {
    scenario(
        "join a lease 100
         join b
         a: r1 exclusive x -> granted 1
         b: r2 exclusive x -> queued
         at 60
         renew a -> renewed
         at 159
         at 160
         ! a expired
         ! r2 granted 2
         renew a -> had ended
         a: r3 exclusive y -> unknown agent",
    );
}

#[test]
fn leases_that_run_out_together_do_not_grant_to_one_another() {
    scenario(
        "join a lease 100
         join b lease 100
         join c
         a: r1 exclusive x -> granted 1
         b: r2 exclusive x -> queued
         c: r3 exclusive x -> queued
         at 100
         ! a expired
         ! b expired
         ! r3 granted 2",
    );
}

#[test]
fn a_longest_hold_counts_from_the_grant() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         b: r2 exclusive x hold 50 -> queued
         a: r3 exclusive x -> queued
         at 100
         release r1 -> released
         ! r2 granted 2
         at 149
         at 150
         ! r2 lost, expired
         ! r3 granted 3",
    );
}

#[test]
fn nothing_ends_by_itself_unless_that_was_asked_for() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 exclusive x -> queued
         timeout -> none
         at 1000000000000
         snapshot -> held: a exclusive x; pending: a exclusive x",
    );
}

#[test]
fn a_deadlock_lasts_until_an_abort_and_hurts_nobody_else() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         b: r2 exclusive y -> granted 2
         a: r3 exclusive y -> queued
         b: r4 exclusive x -> queued
         a: r5 exclusive z -> granted 3
         release r5 -> released
         abort r3 -> aborted
         release r1 -> released
         ! r4 granted 4",
    );
}

#[test]
fn a_snapshot_lists_what_waits_in_queue_order_and_nothing_twice() {
    scenario(
        "join a
         join b
         a: r1 shared x -> granted 1
         b: r2 exclusive x -> queued
         a: r3 shared x -> queued
         b: r4 shared x -> queued
         snapshot -> held: a shared x; pending: b exclusive x, a shared x, b shared x
         abort r2 -> aborted
         ! r3 granted 2
         ! r4 granted 3
         snapshot -> held: a shared x, a shared x, b shared x; pending:",
    );
}

#[test]
fn a_name_with_nothing_held_and_nothing_queued_is_forgotten() {
    scenario(
        "join a
         join b
         a: r1 exclusive x -> granted 1
         b: r2 exclusive x -> queued
         names -> 1
         release r1 -> released
         ! r2 granted 2
         end b -> ended
         names -> 0
         a: r3 ifAvailable-exclusive x -> granted 3
         a: r4 steal x -> granted 4
         ! r3 lost, stolen
         release r4 -> released
         names -> 0",
    );
}

#[test]
fn tokens_grow_over_all_grants_of_either_mode_and_any_name() {
    scenario(
        "join a
         a: r1 shared x -> granted 1
         a: r2 exclusive y -> granted 2
         a: r3 shared x -> granted 3
         a: r4 steal y -> granted 4
         ! r2 lost, stolen
         a: r5 exclusive x -> queued
         release r1 -> released
         release r3 -> released
         ! r5 granted 5",
    );
}

#[test]
fn a_closed_manager_grants_nothing_and_still_lets_go() {
    scenario(
        "join a
         a: r1 exclusive x -> granted 1
         a: r2 exclusive x -> queued
         close -> closed
         a: r3 exclusive y -> queued
         a: r4 ifAvailable-exclusive z -> closed
         a: r5 steal x -> closed
         release r1 -> released
         snapshot -> held: ; pending: a exclusive x, a exclusive y",
    );
}
