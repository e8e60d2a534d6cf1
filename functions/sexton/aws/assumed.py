"""Sessions for tables that lie elsewhere: another region, a role to assume there, its credentials renewed in time.

A function's own credentials are those of a role, and of one role assumed by another AWS gives an hour at most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import botocore.session
from boto3.session import Session
from botocore.credentials import CredentialProvider, CredentialResolver, DeferredRefreshableCredentials

from sexton.elsewhere import Elsewhere

if TYPE_CHECKING:
    from mypy_boto3_sts import STSClient

Sts = Callable[[], "STSClient"]


def session_elsewhere(place: Elsewhere, session_name: str, own: Session, sts: Sts) -> Session:
    """A session for the place. Its clients assume the role with their first call, and again before it runs out."""
    if place.role_arn is None:
        return _in_region(own, place.region)
    assumed = botocore.session.get_session()
    resolver = CredentialResolver(providers=[_Assumed(place, session_name, sts)])
    assumed.register_component("credential_provider", resolver)
    return Session(botocore_session=assumed, region_name=place.region)


def _in_region(own: Session, region: str) -> Session:
    """The same credentials, as whoever provides them renews them."""
    moved = botocore.session.get_session()
    moved.register_component("credential_provider", CredentialResolver(providers=[_Lent(own)]))
    return Session(botocore_session=moved, region_name=region)


class _Lent(CredentialProvider):
    """The credentials of another session."""

    METHOD = CANONICAL_NAME = "lent"

    def __init__(self, own: Session) -> None:
        super().__init__()
        self._own = own

    def load(self) -> Any:
        """None where there are none, as of any provider."""
        return self._own.get_credentials()


class _Assumed(CredentialProvider):
    """The credentials of a role: botocore wants new ones 15 minutes before they run out, and insists on it 10 before.

    STS's refusals surface from whatever call needed them.
    """

    METHOD = CANONICAL_NAME = "sexton-assumed-role"

    def __init__(self, place: Elsewhere, session_name: str, sts: Sts) -> None:
        super().__init__()
        self._place = place
        self._session_name = session_name
        self._sts = sts

    def load(self) -> Any:
        """Credentials that are fetched when they are first needed."""
        return DeferredRefreshableCredentials(self._assume, self.METHOD)

    def _assume(self) -> dict[str, str]:
        asked: dict[str, Any] = {"RoleArn": self._place.role_arn, "RoleSessionName": self._session_name}
        if self._place.external_id is not None:
            asked["ExternalId"] = self._place.external_id
        given = self._sts().assume_role(**asked)["Credentials"]
        return {
            "access_key": given["AccessKeyId"],
            "secret_key": given["SecretAccessKey"],
            "token": given["SessionToken"],
            "expiry_time": given["Expiration"].isoformat(),
        }
