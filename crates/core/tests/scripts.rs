//! Stories: each file of `scripts/` tells one in commands, and below each command what came of it.
//!
//! The language is described in `story/mod.rs`. This writes what comes of the commands now into the scripts, and fails; read
//! every changed line before you run again without it:
//!
//! ```text
//! SCRIPTS=rewrite cargo nextest run -p lockhouse-core --test scripts --no-fail-fast
//! ```

mod story;

use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn play(name: &str) {
    let path = folder().join(format!("{name}.script"));
    let script = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let told = story::tell(&script).unwrap_or_else(|wrong| panic!("{name}.script: {wrong}"));
    if told == script {
        return;
    }
    if std::env::var("SCRIPTS").is_ok_and(|value| value == "rewrite") {
        std::fs::write(&path, told).expect("the scripts can be written");
        panic!("{name}.script is rewritten: review it and run again");
    }
    panic!("{name}.script tells another story:\n{}", first_difference(&script, &told));
}

fn first_difference(expected: &str, told: &str) -> String {
    let lines = expected.lines().map(Some).chain(std::iter::repeat(None));
    let told = told.lines().map(Some).chain(std::iter::repeat(None));
    let (number, (expected, told)) =
        (1..).zip(lines.zip(told)).find(|(_, (expected, told))| expected != told).expect("the texts differ");
    format!(
        "line {number}\nexpected: {}\n     got: {}",
        expected.unwrap_or("(the end)"),
        told.unwrap_or("(the end)")
    )
}

/// One test per script, of the same name.
macro_rules! stories {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            play(stringify!($name));
        })*

        #[test]
        fn every_script_is_played() {
            let played: BTreeSet<String> = [$(stringify!($name).to_owned()),*].into();
            let stems = std::fs::read_dir(folder()).expect("the scripts are there").map(|entry| {
                let path = entry.expect("readable").path();
                path.file_stem().and_then(|stem| stem.to_str()).expect("a plain name").to_owned()
            });
            assert_eq!(stems.collect::<BTreeSet<_>>(), played);
        }
    };
}

stories! {
    odd_names_are_names_like_any_other
    names_are_compared_unit_by_unit
    names_that_begin_with_a_hyphen_are_reserved
    equal_names_in_two_managers_do_not_meet
    other_names_do_not_block
    a_request_is_exclusive_unless_it_says_shared
    an_exclusive_holder_keeps_everybody_out
    shared_holders_share_and_keep_writers_out
    readers_and_writers_take_turns_in_order_of_arrival
    a_run_of_shared_requests_is_granted_together
    one_exclusive_is_granted_alone
    a_shared_request_waits_behind_a_waiting_exclusive_one
    a_free_name_is_granted_at_once
    a_grant_moves_a_request_from_pending_to_held
    a_lock_has_an_agent_a_label_a_name_and_a_mode
    if_available_is_granted_when_nobody_must_wait
    a_refused_if_available_leaves_nothing_behind
    if_available_behind_a_waiting_exclusive_is_refused
    a_refusal_names_at_most_eight_holders
    a_release_grants_the_next_in_the_same_step
    a_second_release_does_nothing
    a_release_of_what_is_pending_does_nothing
    an_aborted_request_leaves_pending_at_once
    an_aborted_exclusive_lets_the_shared_ones_behind_it_go
    an_abort_after_the_grant_changes_nothing
    steal_breaks_all_shared_holders
    steal_breaks_an_exclusive_holder_of_another_agent
    steal_goes_ahead_of_all_who_wait
    stealing_a_free_name_is_a_plain_grant
    a_thief_can_be_robbed
    a_steal_takes_the_thiefs_own_locks_too
    the_victims_late_release_does_nothing
    a_steal_leaves_other_names_alone
    an_ending_agent_takes_its_locks_and_requests_along
    an_ending_agents_own_waiter_is_never_granted_in_between
    an_ending_agent_with_several_requests_on_one_name_grants_the_right_ones
    an_ended_waiter_lets_the_shared_ones_behind_it_go
    the_queues_an_agent_leaves_are_processed_in_the_order_of_its_requests
    nobody_hears_of_an_end_but_those_who_gain
    a_late_command_does_not_meet_the_agent_that_came_after
    pending_entries_of_a_name_come_in_the_order_of_arrival
    a_snapshot_changes_nothing
    a_name_is_forgotten_when_nothing_of_it_is_left
    tokens_grow_over_all_names_and_modes
    tokens_continue_above_the_mark_of_a_former_manager
    a_deadlock_leaves_other_names_alone
    time_alone_changes_nothing
    an_agent_lives_as_long_as_it_renews
    a_dead_holder_wakes_its_waiters
    a_renewal_that_comes_before_the_timeout_saves_the_agent
    renewing_an_agent_without_a_lease_arms_nothing
    an_agent_that_ends_early_leaves_no_deadline
    what_is_due_ends_first_and_in_order_before_any_queue_is_processed
    a_renewed_lease_ends_in_its_turn
    the_dead_do_not_inherit_from_each_other
    a_longest_hold_counts_from_the_grant
    a_lock_released_in_time_leaves_no_deadline
    a_longest_hold_of_nothing_ends_with_the_next_timeout
    an_expired_shared_lock_leaves_the_others_held
    a_name_longer_than_the_limit_is_refused
    metadata_longer_than_the_limit_is_refused
    an_agent_with_too_many_requests_is_refused
    too_many_names_are_refused
    too_many_agents_are_refused
    a_refusal_leaves_the_state_as_it_was
    a_closed_manager_grants_nothing
}
