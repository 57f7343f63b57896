//! How offline locks and claims behave, wherever their state is and however it is reached.

pub(crate) mod claims;
pub(crate) mod ground;
pub(crate) mod locks;
pub(crate) mod transactions;
pub(crate) mod versions;

/// Every behaviour as a test over that ground, with `[start_paused = true]` for instance as the options of
/// its runtime.
macro_rules! behaviours {
    ($ground:ty, [$($option:tt)*]) => {
        $crate::suite::behaviours! { $ground, [$($option)*]
            locks:
                a_second_editor_is_refused_at_once_with_the_holder_and_its_start
                readers_of_an_exclusive_write_kind_take_no_lock
                a_second_reader_of_an_exclusive_read_kind_is_refused
                readers_share_and_a_writer_is_let_in_after_the_last_of_them
                the_sole_reader_becomes_the_writer_under_a_new_token
                locking_again_changes_nothing
                a_stranger_or_a_stale_token_releases_nothing
                unlocking_all_frees_the_owners_own_locks_and_no_others
                several_records_are_locked_all_or_none
                a_root_stands_for_all_that_belongs_to_it
                equal_ids_of_different_kinds_do_not_collide
                an_owner_that_falls_silent_ends_with_its_locks
                every_successful_call_of_an_owner_is_activity_and_no_other
                an_owner_that_is_active_lives_until_its_longest_life_is_over
                of_many_who_ask_at_once_exactly_one_wins_each_round
                records_asked_for_in_opposite_order_end_in_a_refusal_and_never_in_a_wait
                only_the_secret_finds_an_owner_again
                an_idempotency_key_gives_the_same_owner_while_it_lives
                of_many_who_open_with_one_key_all_get_one_owner
                web_locks_and_offline_locks_keep_each_other_out
                refusals_leave_nothing_behind
                owners_and_locks_outlive_a_restart_with_growing_tokens
                a_lock_whose_future_is_dropped_is_taken_back
                bounds_are_refused_by_name
            ;
            transactions:
                a_failed_step_takes_back_all_that_it_locked
                a_failed_step_turns_an_upgrade_back
                a_new_transaction_gives_back_what_the_one_before_left
                a_new_transaction_spares_what_it_locks_again
                a_step_that_fails_at_the_beginning_leaves_the_transaction_before_as_it_was
                going_on_keeps_the_locks_and_a_save_releases_at_its_success
                a_failed_save_keeps_the_lock
                two_sessions_never_work_on_one_record_at_a_time
                a_failed_step_leaves_a_lock_reported_to_another_step
                a_failed_step_takes_back_locks_reported_to_it_repeatedly
                a_save_whose_owner_has_ended_meanwhile_is_no_success
                a_save_whose_lock_was_stolen_is_no_success_and_names_it
                a_step_that_has_lost_one_lock_takes_back_the_others
                a_release_of_what_is_not_held_is_no_success
            ;
            versions:
                with_versions_alone_a_conflict_shows_at_the_save_and_with_a_lock_at_the_beginning
                what_is_loaded_under_the_lock_is_the_newest_until_it_is_released
                a_copy_from_before_the_lock_is_found_stale_by_its_version
                members_of_a_group_are_loaded_anew_under_the_lock_of_their_root
                after_an_early_release_there_is_no_lock_to_work_under
            ;
            claims:
                a_claim_has_a_resource_a_claimant_a_token_and_an_end
                a_second_claim_is_refused_with_the_holder_and_never_the_token
                a_claim_ends_with_its_ttl_and_another_may_claim
                nothing_is_assigned_before_a_claim_is_final
                a_wrong_token_finalizes_nothing
                finalize_distinguishes_expired_from_lost
                finalize_assigns_and_ends_the_claim_and_can_be_repeated
                a_failed_finalize_changes_nothing
                a_released_claim_frees_the_resource_at_once
                a_stale_worker_gets_claim_lost
                a_late_worker_gets_claim_expired
                a_renewed_claim_lasts_longer
                an_idempotency_key_gives_the_same_claim_while_it_lives
                a_name_that_is_held_otherwise_is_busy
                claims_and_assignments_outlive_a_restart
                at_most_one_of_many_claimants_becomes_final
                a_claim_whose_future_is_dropped_is_released
            ;
        }
    };
    ($ground:ty, $options:tt $($module:ident: $($behaviour:ident)*;)*) => {
        $($($crate::suite::behaviours! { @ $ground, $options, $module, $behaviour })*)*
    };
    (@ $ground:ty, [$($option:tt)*], $module:ident, $behaviour:ident) => {
        #[tokio::test($($option)*)]
        async fn $behaviour() {
            $crate::suite::$module::$behaviour(<$ground as $crate::suite::ground::Ground>::new().await).await;
        }
    };
}
pub(crate) use behaviours;
