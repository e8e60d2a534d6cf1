"""A table that does not lie beside the ledger: in another region, or behind a role of another account.

No transaction spans both, so each of its records is changed by a call of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

from sexton.errors import SourceRefused
from sexton.problem import refused

ROLE_RULE = "the role's whole ARN, such as arn:aws:iam::210987654321:role/sexton-reminders"
REGION_RULE = "a region's name, such as eu-west-1"
EXTERNAL_ID_RULE = "2 to 1224 of letters, digits and + = , . @ : / _ -"
LONGEST_SESSION = 64  # characters of a role session's name
SESSION = "sexton"  # what each of them begins with
BY_HAND = "person"  # in place of a function, where somebody looks by the command line


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where a table lies. Without `role_arn` it is in the stack's own account."""

    region: str
    role_arn: str | None = None
    external_id: str | None = None

    @property
    def account(self) -> str | None:
        """The account of the role; None for the stack's own."""
        return account_of(self.role_arn) if self.role_arn else None

    @property
    def partition(self) -> str:
        """The partition of the role, `aws` without one."""
        return self.role_arn.split(":")[1] if self.role_arn else "aws"

    def named(self, table: str) -> str:
        """The table's name as addresses have it: `210987654321:eu-west-1:reminders`, or without the account."""
        return ":".join(filter(None, (self.account, self.region, table)))


def account_of(role_arn: str) -> str:
    """The account of a checked role."""
    return role_arn.split(":")[4]


def session_name(function: str, run_id: str = "") -> str:
    """The name of a role's session: which function it is of and for which run, as CloudTrail will show it.

    A policy's id that is too long loses its end, never the run's time and number.
    """
    start = f"{SESSION}-{function}"
    policy, _, rest = run_id.partition(".")
    room = LONGEST_SESSION - len(start) - len(rest) - 2
    return ".".join(filter(None, (start, policy[:room], rest)))


def sessions_of(function: str) -> str:
    """What the names of a function's sessions are like, as a pattern of IAM."""
    return f"{SESSION}-{function}.*"


def check_region(region: str) -> str:
    """Give the region's name back, or raise PydanticCustomError saying what to write instead."""
    if not re.fullmatch(r"[a-z]{2,4}(-[a-z]+)+-\d{1,2}", region):
        raise refused(f"region {region!r} is no name of a region", REGION_RULE)
    return region


def check_role(arn: str) -> str:
    """Give the role's ARN back, or raise PydanticCustomError saying what to write instead."""
    if not re.fullmatch(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,576}", arn, re.ASCII):
        raise refused(f"role_arn {arn!r} is no ARN of a role", ROLE_RULE)
    return arn


def check_external_id(external_id: str) -> str:
    """Give the external id back, or raise PydanticCustomError saying what to write instead."""
    if not re.fullmatch(r"[\w+=,.@:/-]{2,1224}", external_id, re.ASCII):
        raise refused(f"external_id {external_id!r} is none that STS takes", EXTERNAL_ID_RULE)
    return external_id


def contradiction(account: str | None, region: str | None, role_arn: str | None) -> PydanticCustomError | None:
    """Why these three, each good in itself, do not name one place."""
    if role_arn is None:
        if account is None:
            return None
        what = "a table of another account can only be reached through a role of it"
        return refused(what, f"role_arn: {ROLE_RULE}", at="..account")
    if account is not None and account != account_of(role_arn):
        return refused(f"role_arn is of account {account_of(role_arn)}, not of {account}", "a role of that account")
    if region is None:
        return refused("a table behind a role needs its region, too", f"region: {REGION_RULE}")
    return None


def refuse_own(table: str, place: Elsewhere | None, region: str, account: str) -> None:
    """Raise SourceRefused where the stack's own is called elsewhere, by the stack's region and account.

    The same table under two addresses would escape the holds on one of them.
    """
    if place is None:
        return
    if place.account is None and place.region == region:
        why, instead = f"region {region} is the stack's own", "write no source.region"
    elif place.account == account:
        why, instead = f"{place.role_arn} is a role of the stack's own account", "write no source.role_arn"
    else:
        return
    raise SourceRefused("not_elsewhere", f"table {table}: {why}; {instead}, and start a new run")
