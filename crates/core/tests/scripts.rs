//! Stories: each file of `scripts/` is a story in commands, with the results of each command below it.
//!
//! The language is described in `story/mod.rs`. The following command writes the present results into the
//! scripts, and fails; read every changed line before you run again without it:
//!
//! ```text
//! SCRIPTS=rewrite cargo nextest run -p lockhouse-core --test core scripts:: --no-fail-fast
//! ```

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::story;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

fn play(name: &str) {
    let path = folder().join(format!("{name}.script"));
    let script = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let actual = story::run(&script).unwrap_or_else(|wrong| panic!("{name}.script: {wrong}"));
    if actual == script {
        return;
    }
    if std::env::var("SCRIPTS").is_ok_and(|value| value == "rewrite") {
        std::fs::write(&path, actual).expect("the scripts can be written");
        panic!("{name}.script is rewritten: review it and run again");
    }
    panic!("{name}.script tells another story:\n{}", first_difference(&script, &actual));
}

fn first_difference(expected: &str, actual: &str) -> String {
    let lines = expected.lines().map(Some).chain(std::iter::repeat(None));
    let actual = actual.lines().map(Some).chain(std::iter::repeat(None));
    let (number, (expected, actual)) = (1..)
        .zip(lines.zip(actual))
        .find(|(_, (expected, actual))| expected != actual)
        .expect("the texts differ");
    format!(
        "line {number}\nexpected: {}\n     got: {}",
        expected.unwrap_or("(the end)"),
        actual.unwrap_or("(the end)")
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
    if_available_is_granted_when_it_need_not_wait
    if_available_waits_for_the_end_of_a_recovery_and_no_other_holder
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
    a_thief_can_be_stolen_from
    a_steal_takes_the_thiefs_own_locks_too
    the_victims_late_release_does_nothing
    a_steal_leaves_other_names_alone
    an_ending_agent_takes_its_locks_and_requests_along
    an_ending_agents_own_waiter_is_never_granted_in_between
    an_ending_agent_with_several_requests_on_one_name_grants_the_right_ones
    an_ended_waiter_lets_the_shared_ones_behind_it_go
    the_queues_an_agent_leaves_are_processed_in_the_order_of_its_requests
    an_end_is_announced_only_to_those_it_grants
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
    too_many_entries_are_refused
    too_many_names_are_refused
    too_many_agents_are_refused
    a_refusal_leaves_the_state_as_it_was
    a_closed_manager_grants_nothing
    a_second_owner_is_refused_at_once_with_the_holder
    readers_and_writers_of_different_owners_exclude_each_other
    a_writer_gets_in_after_the_last_reader_only
    acquiring_again_is_a_success_that_changes_nothing
    has_lock_is_true_for_that_very_owner_alone
    the_sole_reader_may_become_the_writer
    an_upgrade_without_metadata_keeps_what_was_said
    a_reader_among_others_may_not_become_the_writer
    the_sole_readers_upgrade_passes_those_who_wait
    owners_that_want_each_others_locks_are_refused_and_never_wait
    a_refused_lock_leaves_no_trace
    of_several_locks_all_are_granted_or_none
    of_a_name_asked_for_twice_the_stronger_mode_counts
    asking_for_nothing_is_granted
    a_release_by_a_stranger_or_with_another_token_leaves_the_lock
    several_locks_are_released_in_one_command
    release_all_frees_the_locks_of_one_owner_alone
    the_end_of_a_step_releases_all_but_what_it_took_again
    a_failed_step_is_undone
    an_undone_upgrade_lets_waiting_readers_in
    a_step_is_undone_once
    a_silent_owner_loses_its_locks
    an_active_owner_keeps_its_locks
    a_refused_owner_is_not_active
    an_owner_ends_at_its_longest_life_whatever_it_does
    a_longest_life_is_over_before_the_timeout_comes
    an_owner_with_more_locks_than_fit_ends_in_parts
    a_steal_of_a_void_lock_leaves_the_waiters_waiting
    as_many_void_locks_as_fit_end_for_one_that_asks
    release_all_of_more_locks_than_fit_is_done_in_parts
    a_release_of_more_locks_than_fit_is_done_in_parts
    void_locks_survive_a_restart_as_they_were
    a_steal_ends_void_locks_and_breaks_those_that_stand
    the_sole_reader_among_void_ones_may_become_the_writer
    what_is_brought_back_meets_no_void_lock
    the_end_of_an_owner_frees_all_its_locks_in_one_change
    the_end_of_an_owner_leaves_the_others_alone
    owners_expire_in_the_order_of_their_deadlines_before_any_queue_is_processed
    everybody_sees_who_holds_since_when
    web_locks_offline_locks_and_claims_exclude_each_other
    offline_locks_and_claims_do_not_overtake_waiters
    a_waiting_agent_gets_what_an_owner_or_a_claimant_leaves
    a_steal_breaks_offline_locks_and_claims
    a_break_ends_exactly_the_hold_that_it_names
    what_has_no_holder_is_not_broken
    what_was_brought_back_and_broken_is_not_brought_back_again
    the_operator_and_the_reason_of_a_break_have_bounds
    a_closed_manager_takes_no_owner_lock_or_claim
    owners_labels_ttls_and_locks_have_bounds
    numbers_of_owners_and_tokens_come_from_one_count
    a_claim_keeps_others_out_until_its_time_is_over
    two_claims_never_share_a_token
    finalizing_assigns_and_deletes_the_claim
    the_stored_claimant_is_assigned
    a_finalize_with_another_token_is_lost_and_changes_nothing
    a_finalize_without_a_current_claim_is_expired
    the_existence_of_a_claim_is_checked_before_its_token
    a_claim_given_back_frees_the_name_at_once
    a_stale_worker_gets_claim_lost
    a_late_worker_without_a_rival_gets_claim_expired
    a_claim_over_its_time_counts_as_absent_before_the_timeout
    a_waiting_agent_gets_the_name_of_a_claim_over_its_time
    claiming_again_is_refused_for_the_claimant_too
    a_renewed_claim_lasts_longer
    a_renewed_claim_ends_in_its_turn
    renewals_have_an_end
    finalizing_again_answers_the_same_until_unassigned
    an_assigned_name_is_not_claimed_until_it_is_unassigned
    an_assignment_keeps_out_claims_alone
    claims_have_bounds
    a_claim_of_one_name_too_many_is_refused
    tokens_are_reserved_well_before_they_are_needed
    durable_state_is_there_again_after_a_restart
    restored_leases_run_anew_from_the_restart
    nothing_but_a_steal_is_granted_while_the_manager_recovers
    at_the_end_of_the_recovery_all_are_served_in_their_order
    a_recovery_can_be_ended_early
    a_name_freed_during_recovery_is_granted_after_it
    a_closed_manager_that_recovers_grants_nothing_in_the_end
    an_agent_brings_back_its_lock_and_keeps_its_token
    of_two_that_bring_back_the_younger_wins_whichever_comes_first
    what_was_brought_back_and_given_back_still_counts
    nothing_durable_gives_way_to_what_is_brought_back
    a_hold_from_before_keeps_older_locks_out_after_its_end_too
    a_steal_of_this_life_is_younger_than_all_that_is_brought_back
    bringing_back_is_for_recovery_alone
    bringing_back_has_the_bounds_of_a_request
    what_a_step_took_and_upgraded_is_undone_by_its_last_token
    a_lock_reported_to_another_step_is_not_undone
    names_of_offline_locks_and_claims_are_names_like_any_other
    an_upgraded_and_undone_lock_survives_a_restart_as_it_was
}
