"""Keys that have bitten people, through the whole line: byte for byte what S3 says, and nothing beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sexton.errors import Failure, ReasonClass
from sexton.item import fits_xml
from sexton.part import read
from sexton.ports import Listing
from sexton.run import Run

from tests.fakes.world import World, policy

YOUNG = timedelta(days=1)
DENIED = Failure(ReasonClass.PERMANENT, "AccessDenied", "not authorized to perform s3:DeleteObject")
RAW = {"kind": "s3", "bucket": "logs", "prefixes": ["/", "a/", "dir/", "."], "raw_prefix": True}
LONGEST = [
    "app/" + "a" * 1020,
    "app/" + "é" * 510,
    "app/" + "\u20ac" * 340,
    "app/" + "\U0001f5d1" * 255,
    "app/" + "\x01" * 1020,
]
NOT_IN_XML = ["app/\x00", "app/\x01b", "app/\x1f", "app/b\r", "app/\x0b", "app/\ufffe", "app/\uffff"]


def removed(world: World) -> Run:
    """The run of a trigger, worked off, with its books balanced."""
    answer = world.trigger()
    world.settle()
    run = world.run(answer)
    assert (run.state, run.balanced) == ("completed", True)
    return run


def planned(world: World, run: Run) -> list[str]:
    jobs = world.ledger.jobs(run.run_id)
    return [item.key for job in jobs for item in read(world.evidence.files[job.part_key], job.part_sha256)]


def recorded(world: World, run: Run) -> list[str]:
    files = [file for job in world.ledger.jobs(run.run_id) for file in job.outcome_files]
    return sorted(json.loads(line)["key"] for file in files for line in world.evidence.files[file].splitlines())


def assert_gone_and_told(world: World, keys: Sequence[str]) -> None:
    run = removed(world)
    assert planned(world, run) == sorted(keys)
    assert recorded(world, run) == sorted(keys)
    assert set(world.bucket().keys()).isdisjoint(keys)


# look-alikes

ALIKE = ["app/a b", "app/a+b", "app/a%2Fb", "app/100%", "app/a%20b", "app/a/b", "app/a%2fb"]


@pytest.mark.parametrize("eligible", ALIKE)
def test_of_keys_that_an_encoding_could_confuse_only_the_eligible_one_goes(eligible: str) -> None:
    world = World()
    world.fill([eligible])
    world.fill([key for key in ALIKE if key != eligible], age=YOUNG)
    assert_gone_and_told(world, [eligible])
    assert world.bucket().keys() == sorted(set(ALIKE) - {eligible})


PATHS = ["/lead", "//", "a//b", "a/../b", "a/./b", "a/b", ".", "./", "..", "dir/", "dir/dir/"]


@pytest.mark.parametrize("eligible", PATHS)
def test_of_keys_that_a_path_could_confuse_only_the_eligible_one_goes(eligible: str) -> None:
    world = World(policies={"logs-expire": policy(source=RAW)})
    world.fill([eligible])
    world.fill([key for key in PATHS if key != eligible], age=YOUNG)
    assert_gone_and_told(world, [eligible])
    assert world.bucket().keys() == sorted(set(PATHS) - {eligible})


def test_all_of_them_side_by_side() -> None:
    world = World(policies={"logs-expire": policy(source={**RAW, "prefixes": ["/", "a", "dir/", "."]})})
    world.fill([*PATHS, *ALIKE])
    assert_gone_and_told(world, [*PATHS, *ALIKE])


def test_a_directory_marker_is_an_object_like_any_other() -> None:
    world = World()
    world.bucket()
    world.fill(["app/", "app/a"])
    assert_gone_and_told(world, ["app/", "app/a"])


# long keys


@pytest.mark.parametrize("key", LONGEST, ids=["1 byte", "2 bytes", "3 bytes", "4 bytes", "control"])
def test_a_key_of_1024_bytes_goes_through_the_whole_line(key: str) -> None:
    assert len(key.encode()) == 1024
    world = World()
    world.fill([key])
    assert_gone_and_told(world, [key])


def test_a_key_of_512_two_byte_characters_goes_through_the_whole_line() -> None:
    key = "é" * 512
    source = {"kind": "s3", "bucket": "logs", "prefixes": ["é"], "raw_prefix": True}
    world = World(policies={"logs-expire": policy(source=source)})
    world.fill([key, "é" * 511])
    assert_gone_and_told(world, [key, "é" * 511])


def test_neighbours_of_1024_bytes_in_several_jobs_listed_bit_by_bit() -> None:
    """The longest keys as cursor, as first and last of a range, and as the place to list from."""
    keys = ["app/" + "k" * 1017 + f"{n:03d}" for n in range(12)]
    world = World(policies={"logs-expire": policy(job_size=5, limits={"max_items": 1000})})
    world.fill(keys)
    answer = world.trigger(plan=False)
    listings = 0
    real = world.bucket().list

    def four_at_a_time(prefix: str, start_after: str = "", limit: int = 4) -> Listing:
        nonlocal listings
        listings += 1
        return real(prefix, start_after, 4)

    world.bucket().list = four_at_a_time  # type: ignore[method-assign]
    world.discover({"resume": answer["run_id"]})
    assert listings == 3
    world.settle()
    assert world.bucket().keys() == []


def test_no_key_of_an_object_ever_stands_raw_in_a_key_of_a_row() -> None:
    """A sort key has 1,024 bytes too, so that with anything before it the longest key does not fit."""
    world = World()
    world.fill(LONGEST)
    world.bucket().failures[LONGEST[0]] = DENIED
    world.trigger()
    world.settle()
    for row in world.table.rows:
        assert len(row.sk.encode()) < 200
        assert not any(key in row.sk or key in row.pk for key in LONGEST)


# keys that XML 1.0 cannot carry


def test_keys_that_xml_cannot_carry_are_removed_one_by_one_beside_the_others() -> None:
    world = World()
    plain = [f"app/{n}" for n in range(20)]
    assert not any(map(fits_xml, NOT_IN_XML))
    world.fill([*plain, *NOT_IN_XML])
    assert_gone_and_told(world, [*plain, *NOT_IN_XML])
    calls = [call.args[0] for call in world.trace.calls if str(call) == "bucket.remove"]
    assert sorted(len(items) for items in calls) == [1] * 7 + [20]  # type: ignore[arg-type]


def test_line_breaks_and_quotes_in_keys_break_no_line_of_evidence() -> None:
    keys = ["app/a\nb", "app/a\n", 'app/"', "app/\\", "app/\u2028", "app/\u2029", "app/\x85", "app/{}"]
    world = World()
    world.fill(keys)
    assert_gone_and_told(world, keys)


@settings(max_examples=25)
@given(
    st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), min_size=1, max_size=12),
    st.integers(1, 4),
)
def test_any_keys_at_all(tails: set[str], size: int) -> None:
    keys = ["app/" + tail for tail in tails]
    world = World(policies={"logs-expire": policy(job_size=size, limits={"max_items": 1000})})
    world.fill(keys)
    world.fill(["app"], age=YOUNG)
    assert_gone_and_told(world, keys)
    assert world.bucket().keys() == ["app"]
