"""Where evidence lies: one function per kind of file."""

from __future__ import annotations


def part(run_id: str, seq: str, sha256: str) -> str:
    """A part of a plan; the key contains its hash."""
    return f"plans/{run_id}/{seq}-{sha256}.ndjson.gz"


def cohorts(run_id: str, sha256: str) -> str:
    """What planning had counted by cohort up to some part; the key contains its hash."""
    return f"plans/{run_id}/cohorts-{sha256}.json.gz"


def reported(run_id: str, number: int, sha256: str) -> str:
    """What is due of cohorts that are no canaries: the file of this number and hash."""
    return f"plans/{run_id}/reported-{number:05d}-{sha256}.ndjson.gz"


def archived(run_id: str, sha256: str) -> str:
    """Whole records that one attempt of a run was about to remove; the key contains their hash."""
    return f"archived/{run_id}/{sha256}.ndjson.gz"


def outcomes(run_id: str, job_id: str, token: str) -> str:
    """What one attempt or observation recorded."""
    return f"outcomes/{run_id}/{job_id}-{token}.ndjson.gz"


def plan(run_id: str) -> str:
    """The list of a run's parts, with its digest."""
    return f"runs/{run_id}/plan.json"


def books(run_id: str, revision: int) -> str:
    """One line per job: state, range, part, outcome files."""
    return f"runs/{run_id}/books-{revision}.ndjson.gz"


def report(run_id: str, revision: int) -> str:
    """What a run did, as it stood at one closing."""
    return f"runs/{run_id}/report-{revision}.json"


def report_csv(run_id: str, revision: int) -> str:
    """The same as a table for a spreadsheet."""
    return f"runs/{run_id}/report-{revision}.csv"


def report_html(run_id: str, revision: int) -> str:
    """The same as a page for people."""
    return f"runs/{run_id}/report-{revision}.html"


def policy(policy_id: str, version: str) -> str:
    """The canonical text of a policy version."""
    return f"policies/{policy_id}/{version}.json"
