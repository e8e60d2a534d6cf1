"""The doctor: finds the stack, and puts every probe to it and to the buckets of its policies."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from boto3.session import Session
from pydantic import ValidationError

from sexton import doctor, keys
from sexton.aws import (
    probe_bucket,
    probe_control,
    probe_evidence,
    probe_functions,
    probe_grants,
    probe_ledger,
    probe_queue,
    probe_table,
)
from sexton.aws.errors import calls
from sexton.aws.probe import Site
from sexton.aws.stack import StackNotFound, connect, find
from sexton.deployment import Deployment
from sexton.doctor import Check, CheckName, Diagnosis
from sexton.errors import CallFailed, EvidenceAltered, UnknownPolicy
from sexton.policy import Policy, load_policies
from sexton.table import Row

LEDGER = "dynamodb:Query on the ledger's index, and s3:GetObject and s3:ListBucket on the evidence bucket"
NEEDED = (
    "JobsQueueUrl",
    "DeadLetterQueueUrl",
    "WorkerFunctionName",
    "OperateFunctionName",
    "ApproveFunctionName",
)


def examine(stack: str, asked: Sequence[str], folder: Path, session: Session | None = None) -> Diagnosis:
    """Look at a stack, and at these of its policies, or all.

    `folder` holds the policies to compare with, if it is there. Raises StackNotFound, BadConfiguration or CallFailed
    when the stack cannot be found, PolicyError, and UnknownPolicy.
    """
    local = load_policies(folder) if folder.exists() else None
    session = session or Session()
    site = find_site(stack, session, connect(stack, session))
    at = site.clock()
    return Diagnosis.of(stack, at, Doctor(site, local, tuple(asked)).checks())


def find_site(stack: str, session: Session, deployment: Deployment) -> Site:
    """The stack's site. Raises StackNotFound where it lacks what the probes look at."""
    with calls():
        stack_id, outputs = find(stack, session)
    missing = [name for name in NEEDED if name not in outputs]
    if missing:
        raise StackNotFound(f"stack {stack!r} has no {', '.join(missing)}: deploy it again")
    return Site(stack, stack_id, outputs, session, deployment)


@dataclass(frozen=True)
class Doctor:
    """Puts the probes. `local`: the policies of a folder, None where there is none.

    What is checked is what is deployed, as the ledger and evidence have it: a folder is only compared with it.
    """

    site: Site
    local: Sequence[Policy] | None
    asked: tuple[str, ...] = ()

    def checks(self) -> Iterator[Check]:
        """Every check, the stack's own first. Raises UnknownPolicy."""
        rows, told = self._rows()
        site = self.site
        for probes in (probe_functions, probe_control, probe_queue, probe_ledger, probe_evidence):
            for probe in probes.probes(site):
                yield from probe.checks()
        yield from told
        yield from self._of_policies(rows)

    def _of_policies(self, rows: Mapping[str, Row]) -> Iterator[Check]:
        if rows:
            yield from probe_functions.policy_probe(self.site, rows).checks()
        here = {policy.version: policy for policy in self.local or ()}
        policies = []
        for policy, row in rows.items():
            version = str(row["deployed_version"])
            copy = self._copy(policy, version)
            if isinstance(copy, Policy):
                policies.append(copy)
                continue
            yield copy
            if version in here:
                policies.append(here[version])
        of_buckets = [policy for policy in policies if policy.of_bucket]
        yield from self._of_buckets(sorted(of_buckets, key=lambda policy: policy.s3.bucket))
        yield from self._of_tables([policy for policy in policies if not policy.of_bucket])
        for probe in probe_grants.probes(self.site, policies):
            yield from probe.checks()

    def _of_buckets(self, policies: Sequence[Policy]) -> Iterator[Check]:
        for bucket, of_bucket in groupby(policies, key=lambda policy: policy.s3.bucket):
            yield from probe_bucket.checks(self.site, bucket, list(of_bucket))

    def _of_tables(self, policies: Sequence[Policy]) -> Iterator[Check]:
        """By the table and the role: two roles may see different things of one table."""
        for _, of_table in groupby(sorted(policies, key=_place), key=_place):
            yield from probe_table.checks(self.site, list(of_table))

    def _rows(self) -> tuple[Mapping[str, Row], Iterable[Check]]:
        """The rows of the deployed policies that were asked for, and what is told of their versions."""
        try:
            known = self.site.deployment.ledger.policies()
        except CallFailed as failed:
            return {}, [doctor.could_not_look(CheckName.POLICY_VERSION, "ledger", failed.failure, LEDGER)]
        if not known:
            return {}, [doctor.before_first_tick()]
        rows = {row["policy"]: row for row in known if row.get("deployed_version") and self._is_asked(row["policy"])}
        self._refuse_unknown(rows)
        local = None if self.local is None else [policy for policy in self.local if self._is_asked(policy.id)]
        return rows, doctor.versions({policy: str(row["deployed_version"]) for policy, row in rows.items()}, local)

    def _is_asked(self, policy: str) -> bool:
        return not self.asked or policy in self.asked

    def _refuse_unknown(self, rows: Mapping[str, Row]) -> None:
        known = {*rows, *(policy.id for policy in self.local or ())}
        unknown = [policy for policy in self.asked if policy not in known]
        if unknown:
            raise UnknownPolicy(f"neither deployed nor in the folder of policies: {', '.join(unknown)}")

    def _copy(self, policy: str, version: str) -> Policy | Check:
        """The deployed version as evidence keeps it, or the check that says why it cannot be had."""
        name, key = CheckName.POLICY_VERSION, keys.policy(policy, version)
        try:
            text = self.site.deployment.evidence.get(key)
            if text is None or hashlib.sha256(text).hexdigest() != version:
                raise EvidenceAltered(f"{key} is gone or altered")
            return Policy.from_canonical(text)
        except CallFailed as failed:
            return doctor.could_not_look(name, policy, failed.failure, LEDGER)
        except EvidenceAltered as error:
            return Check.failed(name, policy, str(error), "restore it from the bucket's versions, or deploy again")
        except ValidationError:
            return Check.unknown(name, policy, f"{key} is of another version of Sexton", "use the stack's version")


def _place(policy: Policy) -> tuple[str, str]:
    return policy.source.place, repr(getattr(policy.source, "elsewhere", None))
