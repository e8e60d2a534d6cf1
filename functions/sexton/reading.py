"""Reading a job's evidence, and recording what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from sexton import keys, outcome, part
from sexton.errors import EvidenceAltered
from sexton.item import Item
from sexton.job import Job
from sexton.ledger import Ledger
from sexton.policy import Policy
from sexton.ports import Evidence, Token
from sexton.run import Run, RunState


def read_part(evidence: Evidence, job: Job) -> bytes:
    """The lines of the job's part. Raises EvidenceAltered when there is none."""
    lines = evidence.get(job.part_key)
    if lines is None:
        raise EvidenceAltered(f"the part {job.part_key} is gone")
    return lines


def open_items(evidence: Evidence, job: Job) -> list[tuple[int, Item]]:
    """The job's items that have neither an outcome nor a row of their own, in order, with their indexes.

    Raises EvidenceAltered when part or outcome files are not what the ledger says.
    """
    items = part.read(read_part(evidence, job), job.part_sha256)
    ended = {each.index for file in job.files for each in read_outcomes(evidence, file)}
    return [(index, items[index]) for index in job.indexes() if index not in ended]


def read_outcomes(evidence: Evidence, file: str) -> list[outcome.Recorded]:
    """An outcome file that the ledger names. Raises EvidenceAltered when there is none, or it is none."""
    lines = evidence.get(file)
    if lines is None:
        raise EvidenceAltered(f"the outcome file {file} is gone")
    try:
        return outcome.read_lines(lines)
    except (ValueError, KeyError, TypeError) as error:
        raise EvidenceAltered(f"{file} is no outcome file ({type(error).__name__})") from error


def record(evidence: Evidence, job: Job, outcomes: Sequence[outcome.Outcome], token: Token) -> str | None:
    """Write an outcome file before the settlement that names it; None when there is nothing to record."""
    if not outcomes:
        return None
    file = keys.outcomes(job.run_id, job.job_id, token())
    evidence.put_once(file, outcome.to_lines(sorted(outcomes, key=lambda each: each.index)))
    return file


def policy_to_work_by(evidence: Evidence, run: Run, deployed: Mapping[str, Policy]) -> Policy | None:
    """The deployed policy of that id, None where there is none. Of an undo, the one that the undone run went by.

    So an undo goes on whatever is deployed. Raises EvidenceAltered, as `policy_of` does, for an undo that is not
    invalidated.
    """
    found = deployed.get(run.policy)
    return policy_of(evidence, run, found) if run.undoes and run.state is not RunState.INVALIDATED else found


def policy_of(evidence: Evidence, run: Run, deployed: Policy | None) -> Policy:
    """The policy that a run was planned under: the deployed one, or its canonical copy in evidence.

    Raises EvidenceAltered when that copy is gone, or not what its version says.
    """
    if deployed is not None and deployed.version == run.policy_version:
        return deployed
    return kept_policy(evidence, run.policy, run.policy_version)


def deployed_policies(ledger: Ledger, evidence: Evidence) -> list[Policy]:
    """The policies that the ledger says are deployed, from their copies. Raises EvidenceAltered."""
    rows = ledger.policies()
    return [
        kept_policy(evidence, row["policy"], row["deployed_version"]) for row in rows if row.get("deployed_version")
    ]


def kept_policy(evidence: Evidence, policy_id: str, version: str) -> Policy:
    """The canonical copy of a policy version. Raises EvidenceAltered when it is gone, or not what its version says."""
    text = evidence.get(keys.policy(policy_id, version))
    if text is None or hashlib.sha256(text).hexdigest() != version:
        raise EvidenceAltered(f"the canonical copy of policy version {version} is gone or altered")
    try:
        return Policy.from_canonical(text)
    except ValidationError as error:
        raise EvidenceAltered(
            f"policy version {version} of {policy_id} cannot be read by this release of Sexton"
        ) from error
