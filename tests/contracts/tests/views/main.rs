//! The contract of the Redis views: each test is written once and runs on the model in memory that the simulation plays with, and
//! by way of the scripts on a real Redis (R-SEQ-4, I5, I9).
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of test functions")]

mod apply;
mod errors;
mod fill;
mod memory;
mod random;
mod reads;
mod real;
mod store;

macro_rules! contract {
    ($($file:ident::$name:ident),* $(,)?) => {
        mod in_memory {
            $(#[tokio::test]
            async fn $name() {
                crate::$file::$name(&mut crate::memory::Memory::default()).await;
            })*
        }

        mod on_redis {
            $(#[tokio::test]
            async fn $name() {
                crate::$file::$name(&mut crate::real::Real::start().await).await;
            })*
        }
    };
}

contract! {
    apply::a_section_is_taken_at_its_position_alone,
    apply::sections_of_one_call_stand_for_themselves,
    apply::the_same_section_again_changes_nothing,
    apply::what_comes_from_elsewhere_leaves_the_position,
    apply::a_long_batch_is_whole,
    fill::a_rebuild_is_taken_by_its_token_alone,
    fill::a_rebuild_replaces_what_is_left_of_an_earlier_view,
    fill::a_view_that_left_refuses_and_names_its_instance,
    fill::an_instance_that_is_to_get_the_view_begins_with_nothing,
    fill::what_a_move_left_behind_is_swept_away,
    reads::a_load_says_nothing_below_the_lowest_position,
    reads::members_come_and_go,
    reads::a_mid_is_found_in_the_window_s_slices,
    reads::a_page_has_what_was_asked_for,
    reads::what_is_persisted_only_grows_and_trims,
    reads::conversations_need_the_positions_of_all_partitions,
    reads::cursors_are_maxima,
    reads::told_only_moves_forward,
    reads::a_client_mid_belongs_to_its_first_content,
}
