"""`sexton rehearse` on the deployed stack: real processes die, SQS moves what is dead, and all is put back.

It changes the worker function, which on the emulator ends what runs in it: so it comes before work is begun.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from sexton.rehearsing_acts import REHEARSALS, WORKER

from tests.e2e.site import Answer, Site

WITHIN = 700  # seconds: nine minutes were seen where the machine was very busy
BUCKET = "sexton-rehearsals"
OPTIONS = ("rehearsal", "--backlog", "5", "--json", "--reason", "the end-to-end tests")

pytestmark = pytest.mark.timeout(WITHIN + 200)  # the first waits for the deployment too


@pytest.fixture(scope="module")
def rehearsed(site: Site) -> Answer:
    """The whole set, run as a person would; one that takes too long is stopped, so that it says how far it came."""
    process = site.begin("rehearse", *OPTIONS)
    try:
        out, err = process.communicate(timeout=WITHIN)
    except subprocess.TimeoutExpired:
        process.terminate()
        out, err = process.communicate()
    return Answer(process.returncode, out, err)


def test_every_rehearsal_passes(rehearsed: Answer) -> None:
    found = rehearsed.json

    assert [(each["name"], each["verdict"], each["why"]) for each in found["rehearsals"]] == [
        (name, "passed", None) for name in REHEARSALS
    ], rehearsed.err
    assert (rehearsed.code, found["passed"], found["left_behind"]) == (0, True, [])
    assert found["unverified"] is True


def test_everything_was_put_back(site: Site, rehearsed: Answer) -> None:
    status = site.told("status")

    assert site.functions.get_function_configuration(FunctionName=site.function("Worker"))["Handler"] == WORKER
    assert site.versions(BUCKET) == ([], [])
    assert (status["paused"], status["holds"], status["dead"]["jobs"]) == ([], [], 0)
    assert not [each for each in status["unfinished"] if each["policy"] == "rehearsal"]
    assert not [each for each in site.dead_messages() if json.loads(each["Body"])["run_id"].startswith("rehearsal.")]


def test_somebody_elses_object_is_in_the_way(site: Site, rehearsed: Answer) -> None:
    site.fill(BUCKET, ["rehearsals/mine"])
    refused = site.sexton("rehearse", *OPTIONS)

    assert (refused.code, refused.json["error"]["code"]) == (1, "not_only_decoys")
    assert site.keys(BUCKET) == ["rehearsals/mine"]
