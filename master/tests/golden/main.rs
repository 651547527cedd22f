//! Golden scripts: two real ledgers, messages that the script delivers, loses, doubles or holds back, and clocks that the
//! script sets. Each script under `scripts/` is named for what it claims; its expected output stands beside the input.
//! After a change that is meant: `UPDATE_GOLDENFILES=1 cargo nextest run -p uniq-master`, and read the difference.

mod command;
mod script;
mod sections;
mod show;

use script::Script;

macro_rules! scripts {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts/", stringify!($name));
            goldenscript::run(&mut Script::default(), path).expect(path);
        })*

        /// A script that no test names would never run.
        #[test]
        fn every_script_is_run() {
            let named = [$(stringify!($name)),*];
            let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts");
            for entry in std::fs::read_dir(dir).expect(dir) {
                let file = entry.expect(dir).file_name().into_string().expect("a name");
                assert!(named.contains(&file.as_str()), "{file} is named by no test");
            }
        }
    };
}

scripts! {
    a_disk_that_was_put_back_grants_no_segment_again
    a_master_that_is_away_leaves_enough_for_a_while
    a_replaced_master_that_lives_grants_what_nobody_else_has
    a_survivor_extends_alone_until_the_snapshot_is_cut
    a_renewal_reaches_no_further_than_is_permitted_though_the_record_was_lifted
    an_axis_is_raised_and_never_lowered
    an_extent_needs_both_and_a_segment_one
    a_stranger_stops_no_name_of_numbers
    an_operator_says_that_what_an_agent_shows_is_not_true
    nobody_uses_an_axis_up_by_a_few_calls
    what_one_has_forgotten_of_extents_the_other_knows_or_has_proposed
    a_change_of_settings_needs_both
    a_name_never_stands_for_two_things
    a_name_that_was_never_in_use_can_be_taken_back
    a_retired_name_that_both_have_forgotten_is_shown_to_them
    what_is_noted_about_a_name_needs_both_and_changes
    a_proposal_of_a_setting_survives_a_replacement
    an_operators_orders_are_audited_on_both
    an_order_is_answered_when_both_have_written_it_down
    a_clone_is_denied
    a_fresh_start_gives_up_its_former_leases
    a_grant_needs_both
    a_greeting_that_comes_days_later_stops_nobody
    a_network_has_a_share_of_each_pool
    a_network_has_so_many_grants_an_hour
    a_grant_that_nobody_follows_up_ends_early
    a_late_confirmation_proves_nothing
    who_asks_again_is_not_handed_what_may_have_ended
    who_may_not_hear_is_asked_for_no_move
    a_proposal_that_nobody_confirms_any_more_ends
    numbers_that_an_agent_has_seen_are_not_granted_again_by_ledgers_that_forgot_them
    only_the_life_that_greeted_last_is_believed
    a_master_left_behind_in_an_earlier_pairing_serves_nothing
    a_lone_master_renews_and_grants_nothing
    a_proposal_survives_a_restart
    a_released_lease_rests_like_any_other
    a_renewal_elsewhere_is_never_cut_short
    a_replaced_master_that_lives_extends_nothing_past_its_permit
    a_replacement_inherits_what_keeps_the_survivor_from_granting
    a_rolled_back_master_serves_nothing
    a_session_is_known_by_its_name
    a_session_that_asks_again_gets_the_same
    a_store_put_back_is_noticed_though_no_change_is_missing
    a_user_before_the_first_admin_is_asked_for_again
    a_value_is_granted_again_only_after_its_rest
    an_agent_has_a_budget
    an_empty_pool_borrows_from_the_other
    both_asked_at_once_grant_different_values
    an_old_clock_is_noticed
    clocks_far_apart_grant_nothing
    a_calendar_that_jumps_is_not_followed
    a_disk_that_is_put_back_has_promised_what_was_permitted
    a_survivor_raises_again_after_the_time_for_showing
    what_both_have_forgotten_freezes_granting
    what_both_have_forgotten_of_sections_freezes_them
    what_was_lifted_after_its_end_is_not_handed_out
    doubled_and_stale_messages_change_nothing
    only_the_holder_may_renew
    sync_merges_and_never_overwrites
    names_that_both_have_forgotten_are_said_again_first
    two_names_never_give_the_same_strings
    the_first_change_of_the_whitelist_drops_nothing
    the_first_meeting_makes_the_cluster
    a_call_for_routes_waits_until_its_sections_have_owners
    a_section_is_given_by_its_home_and_both_hold_it
    a_section_is_raised_within_what_the_other_one_holds
    a_section_ends_with_its_width
    a_section_moves_by_the_word_of_both
    sections_go_to_whoever_holds_a_lease
    sections_of_a_retired_name_are_given_back
    sections_of_a_silent_owner_go_to_others
    what_nobody_serves_is_told_with_its_reason
    a_drained_agent_gives_up_its_sections
    a_put_back_master_raises_beyond_what_it_forgot
    what_nobody_can_take_stands_in_the_way_of_nothing
    both_ledgers_put_back_go_on_above_what_each_may_have_raised_alone
    after_a_master_is_lost_everything_is_raised_by_the_allowance
    a_copy_of_a_survivor_is_rolled_back_by_the_first_word_of_who_joined
    a_copy_that_is_behind_stops_and_the_pair_goes_on
    a_copy_that_is_accepted_first_stops_both
    calendars_that_were_wrong_at_the_start_are_followed_when_all_show_the_same
    what_uniq64_cannot_write_is_granted_last_of_both_homes
    a_survivor_put_back_to_before_the_join_is_rolled_back
    a_survivor_that_may_be_older_lets_nobody_join
    the_other_master_may_answer_a_retry
    the_last_of_a_pool_is_for_who_is_known
    an_owner_of_a_section_shows_that_both_have_forgotten_even_its_name
    what_is_not_the_peer_is_refused
}
