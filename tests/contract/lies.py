"""Where an emulator does not do what AWS documents: the one list of cases that must fail there.

Each is expected to fail, strictly: when an emulator stops lying, the suite says so and the entry goes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lie:
    """`case` fails on `world`, for the parameter ids in `only` if there are any.

    `hangs`: it is not even tried. `within_a_second`: it passes where the clock's second changes in the right place.
    """

    world: str
    case: str
    reason: str
    only: tuple[str, ...] = ()
    hangs: bool = False
    within_a_second: bool = False

    def concerns(self, case: str, parameters: str) -> bool:
        """Whether a collected case is the one that is meant."""
        given = parameters.split("-")
        return case == self.case and self.world in given and (not self.only or bool(set(self.only) & set(given)))


_APART = "moto lists delete markers apart from versions, and their order within a second is lost"
_NO_START = "moto takes a KeyMarker without a version for an entry of the page before, and skips one"
_NO_LOCKS = "moto does not answer for a locked version in DeleteObjects"
_NO_PAGES = "moto lists all uploads in the order in which they were begun, whatever page is asked for"
_NO_ETAGS = "moto ignores the ETag of a key in DeleteObjects, and deletes"

LIES: tuple[Lie, ...] = (
    Lie("moto", "test_what_was_overwritten_is_not_removed", _NO_ETAGS),
    Lie("moto", "test_what_is_gone_is_not_removed_and_gets_no_second_marker", _NO_ETAGS, only=("together",)),
    Lie("moto", "test_a_removal_from_a_versioned_bucket_adds_one_marker_and_nothing_else", _NO_ETAGS),
    Lie(
        "moto",
        "test_an_odd_key_is_listed_and_looked_at_exactly",
        "moto writes characters into a listing's StartAfter that XML cannot carry",
        only=("control", "escape", "noncharacter"),
    ),
    Lie("moto", "test_versions_and_markers_come_key_by_key_and_the_newest_first", _APART, within_a_second=True),
    Lie("moto", "test_pages_of_versions_miss_nothing_and_repeat_nothing", _APART, ("1", "2"), within_a_second=True),
    Lie("moto", "test_the_order_within_one_second_is_that_of_the_answer", _APART, within_a_second=True),
    Lie("moto", "test_exactly_the_given_versions_are_removed", _APART, within_a_second=True),
    Lie("moto", "test_versions_start_after_a_key_that_need_not_be_there", _NO_START),
    Lie("moto", "test_noncurrent_versions_are_listed_seen_again_and_removed", _NO_START),
    Lie("moto", "test_a_deleted_key_goes_in_two_runs", _NO_START),
    Lie("moto", "test_placed_markers_are_seen_again_while_they_stand_in_front", _NO_START),
    Lie("moto", "test_an_undo_brings_objects_back_byte_for_byte", _NO_START),
    Lie(
        "ministack",
        "test_tags_come_with_the_items_of_every_target",
        "MiniStack has no tags of versions behind a delete marker",
    ),
    Lie("moto", "test_a_locked_version_is_told_and_no_other_is_kept", _NO_LOCKS),
    Lie("moto", "test_noncurrent_versions_are_purged", _NO_LOCKS),
    Lie("moto", "test_uploads_come_in_the_order_of_their_keys_each_once", _NO_PAGES),
    Lie("moto", "test_uploads_start_after_a_key_that_need_not_be_there", _NO_PAGES),
    Lie(
        "moto",
        "test_a_message_received_too_often_is_moved_to_the_dead_letters",
        "moto moves the message without DeadLetterQueueSourceArn",
    ),
    Lie(
        "moto",
        "test_an_event_reaches_whoever_listens_for_its_kind",
        "moto delivers to targets only with a package that is not installed for it",
    ),
    Lie(
        "moto",
        "test_a_missing_discovery_function_is_a_failure_for_good",
        "moto accepts asynchronous invocations of functions that are not there",
    ),
    Lie("moto", "test_a_feed_that_does_not_exist_is_told", "moto takes the update of a mapping that is not there"),
)
