"""What a policy that calls an endpoint says in words."""

from __future__ import annotations

from sexton.wording import in_words

from tests.fakes.world import calls_policy


def test_a_call_is_told_in_words() -> None:
    told = in_words(calls_policy(version_attribute="rev"))
    assert told[0].startswith("Calls carriers.example.com for each record of table reminders")
    assert (
        "A call is a POST of https://carriers.example.com/carriers/{carrier}/reminders/{id}, with one Idempotency-Key"
        " over all attempts and replays; the record itself is left alone. One whose deadline, or its rev, or carrier or"
        " id has changed since it was planned is not called for."
    ) in told
    assert "Its header Authorization is the secret sexton/carriers." in told
    assert (
        "An answer 200 or 204 says that it was done, and 404 or 410 that there was nothing to do; nothing else does."
        in told
    )
    assert "A call that may have been carried out is made again." in told
    assert "Each worker makes 5 calls a second at most; one takes PT10S at most." in told
    assert not [sentence for sentence in told if "one transaction" in sentence or sentence.startswith("Removes")]


def test_what_must_not_be_repeated_is_said() -> None:
    told = in_words(calls_policy(idempotent=False, gone=[], rate=0.5))
    assert (
        "A call that may have been carried out is not made again: its job is dead, and a person must find out." in told
    )
    assert "An answer 200 or 204 says that it was done; nothing else does." in told
    assert "Each worker makes 0.5 calls a second at most; one takes PT10S at most." in told


def test_a_report_says_that_nothing_is_called() -> None:
    told = in_words(calls_policy(mode="report", recovery=None))
    assert told[0].startswith("Reports, and does not call carriers.example.com for, each record of table reminders")
