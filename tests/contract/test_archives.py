"""Archived records on every table: what is archived is what goes, and it comes back where its key is free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sexton import archived
from sexton.archiving import ArchivingRecords
from sexton.attributes import canonical
from sexton.item import RECORD, Item
from sexton.restoring import IN_USE, ArchivedRecords
from sexton.table import Applied, Key, Refused, Write, absent

from tests.contract.test_records import CUTOFF, DUE, remind, source
from tests.contract.worlds import RecordHands, World
from tests.fakes.evidence import FakeEvidence

RUN = "reminders-archive.20260101T000000Z.1"
ALL: dict[str, Any] = {
    "version": {"N": "7"},
    "text": {"S": "prepaid"},
    "paid": {"BOOL": False},
    "none": {"NULL": True},
    "tags": {"SS": ["x"]},
    "route": {"M": {"stops": {"L": [{"N": "1"}, {"S": ""}]}}},
}


def settle(number: int) -> Write:
    return Write(Key("RUN#a", f"JOB#{number}"), f"settled-{number}", (absent("pk"),), set={"state": "succeeded"})


class Looked:
    """A record that was looked at, to be archived."""

    def __init__(self, world: World) -> None:
        self.table, self.records, self.hands = world.records()
        remind(self.hands, "a", **ALL)
        self.evidence = FakeEvidence()
        self.source = source(version_attribute="version", table=self.hands.name)
        self.target = ArchivingRecords(self.records, self.source, CUTOFF, self.evidence, RUN)
        at = Item(canonical({"id": {"S": "a"}}), canonical({}), 0, RECORD, None)
        (seen,) = self.target.observe([at], 1, lambda: None).values()
        assert isinstance(seen, Item)
        self.item = seen
        self.file = str(self.target.prepare([seen]))

    def whole(self) -> Any:
        (record,) = self.records.read([{"id": {"S": "a"}}])
        return record.values


def test_the_whole_record_is_archived_and_goes(world: World) -> None:
    looked = Looked(world)
    assert archived.read(looked.evidence, looked.file) == {looked.item.key: looked.whole()}
    assert isinstance(looked.table.transact([settle(1), looked.target.change(looked.item)]), Applied)
    assert looked.hands.ids() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda hands: remind(hands, "a", **ALL | {"version": {"N": "8"}}),
        lambda hands: remind(hands, "a", **ALL | {"text": {"S": "paid"}}),
        lambda hands: remind(hands, "a", **ALL | {"paid": {"BOOL": True}}),
        lambda hands: remind(hands, "a", **{name: value for name, value in ALL.items() if name != "text"}),
        lambda hands: remind(hands, "a", DUE - 2, **ALL),
    ],
    ids=["version", "text", "truth", "missing", "deadline"],
)
def test_a_record_that_is_not_what_was_archived_stays(world: World, change: Callable[[RecordHands], None]) -> None:
    looked = Looked(world)
    change(looked.hands)
    assert looked.table.transact([settle(1), looked.target.change(looked.item)]) == Refused(None, 1)
    assert looked.hands.ids() == ["a"]


def test_an_archived_record_comes_back_whole_and_only_where_its_key_is_free(world: World) -> None:
    looked = Looked(world)
    before = looked.whole()
    looked.table.transact([settle(1), looked.target.change(looked.item)])
    back = ArchivedRecords(looked.records, looked.source, looked.evidence)
    item = Item(looked.item.key, looked.file, 0, RECORD, None, looked.item.version_id)

    assert back.observe([item], 1, lambda: None) == {item.id: item}
    assert isinstance(looked.table.transact([settle(2), back.change(item)]), Applied)
    assert looked.whole() == before
    assert back.observe([item], 1, lambda: None) == {item.id: item._replace(rank=IN_USE)}
    assert looked.table.transact([settle(3), back.change(item)]) == Refused(None, 1)
