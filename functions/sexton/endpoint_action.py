"""`action: {kind: http}`: which call an application has for what has had its time, and what its answers mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import quote

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    ValidationInfo,
    field_validator,
)

from sexton.duration import FixedDuration, to_text
from sexton.problem import CHECKED, refused
from sexton.selection import sorted_set

LONGEST_TIMEOUT = timedelta(seconds=20)  # a look is ten seconds old by then, and a worker has others waiting
SLOWEST, FASTEST = 0.1, 100.0  # calls a second
LONGEST_NAME = 253
LONGEST_URL = 4096  # characters, as servers commonly take them
URL_EXAMPLE = "https://carriers.example.com/reminders/{id}"
HOST_EXAMPLE = "carriers.example.com, or carriers.example.com:8443"
SECRET_EXAMPLE = "the name of a secret under sexton/, such as sexton/carriers"
# Those that say where the call goes, what its body is, or that it is one and the same; they are not a policy's.
_FRAMING = "connection content-length expect host keep-alive te trailer transfer-encoding upgrade"
_OURS = "accept content-type cookie forwarded idempotency-key proxy-authorization proxy-connection user-agent via"
RESERVED = frozenset(f"{_FRAMING} {_OURS}".split())
NOT_GONE = (401, 408, 429)  # the caller is not known, or should come again: nothing about the item

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?P<name>({_LABEL}\.)*(?=[a-z0-9-]*[a-z]){_LABEL})(:(?P<port>[1-9][0-9]{{0,4}}))?")
_URL = re.compile(r"https://(?P<host>[^/?#]*)(?P<rest>(/[^?]*)?(\?.*)?)", re.DOTALL)
_FIELD = re.compile(r"\{([A-Za-z0-9_.-]{1,255})\}")
_LITERAL = re.compile(r"([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_SECRET = re.compile(r"sexton/[A-Za-z0-9/_+=.@-]{1,500}")
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_DOTS = re.compile(r"\.|%2e", re.IGNORECASE)
_SLASH = re.compile(r"[/\\]|%2f|%5c", re.IGNORECASE)


class FieldUnfit(Exception):
    """A record's field cannot be put into the URL; the text names the field and says why, and never its value."""


def check_host(host: str) -> str:
    """Give the host back, or raise PydanticCustomError saying what to write instead."""
    found = _HOST.fullmatch(host)
    if not found or len(found["name"]) > LONGEST_NAME or int(found["port"] or 1) > 65_535:
        raise refused(f"host {host!r} is no host name in lower case: addresses and wildcards are none", HOST_EXAMPLE)
    return host.removesuffix(":443")


def check_url(url: str) -> str:
    """Give the template back, or raise PydanticCustomError saying what to write instead."""
    found = _URL.fullmatch(url)
    if not found:
        raise refused(f"url {url!r} is not https", URL_EXAMPLE)
    check_host(found["host"])
    left = _FIELD.sub("x", found["rest"])
    if not _LITERAL.fullmatch(left):
        raise refused(f"url {url!r} has what no URL has, or braces around no attribute's name", URL_EXAMPLE)
    if any(_is_dots(segment) for segment in found["rest"].partition("?")[0].split("/")):
        raise refused(f"url {url!r} has a segment '.' or '..', which may lead elsewhere", URL_EXAMPLE)
    return url


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Give the headers back, or raise PydanticCustomError saying what to write instead."""
    for header, secret in headers.items():
        if not _HEADER.fullmatch(header) or header.lower() in RESERVED:
            raise refused(f"header {header!r} cannot be set", "a header such as Authorization or X-Api-Key", at=header)
        if not _SECRET.fullmatch(secret):
            raise refused(f"header {header} has its value from a secret, and {secret!r} is none", SECRET_EXAMPLE)
    if len({header.lower() for header in headers}) < len(headers):
        raise refused("a header is there twice: upper and lower case are one", "each header once")
    return headers


def _statuses(given: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(set(given)))


def _hosts(given: tuple[str, ...]) -> tuple[str, ...]:
    return sorted_set(tuple(check_host(host) for host in given))


def _pace(rate: float) -> float:
    if not SLOWEST <= rate <= FASTEST:
        raise refused(f"rate {rate:g} is too slow or too fast for one worker", f"{SLOWEST:g} to {FASTEST:g} a second")
    return rate


def _short(timeout: timedelta) -> timedelta:
    if timeout > LONGEST_TIMEOUT:
        raise refused(f"timeout {to_text(timeout)} is too long", f"{to_text(LONGEST_TIMEOUT)} or less")
    return timeout


class HttpAction(BaseModel):
    """An application's own cleanup: one call for each record.

    `url` is a template over the record's attributes. `headers` have the names of secrets for values. `success` are the
    statuses that say that it was done, `gone` those that say that there was nothing to do. `idempotent`: the same call
    may be made again. `rate`: calls a second, of one worker.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["http"]
    method: Literal["POST", "PUT", "PATCH", "DELETE"]
    hosts: Annotated[tuple[str, ...], Field(min_length=1, max_length=10), AfterValidator(_hosts)]
    url: Annotated[str, Field(max_length=2000), AfterValidator(check_url)]
    headers: Annotated[dict[str, str], AfterValidator(check_headers)] = Field(default_factory=dict)
    success: Annotated[
        tuple[Annotated[StrictInt, Field(ge=200, le=299)], ...], Field(min_length=1), AfterValidator(_statuses)
    ]
    gone: Annotated[tuple[Annotated[StrictInt, Field(ge=400, le=499)], ...], AfterValidator(_statuses), CHECKED] = (
        404,
        410,
    )
    idempotent: StrictBool
    rate: Annotated[float, AfterValidator(_pace)] = 5.0
    timeout: Annotated[FixedDuration, AfterValidator(_short)] = timedelta(seconds=10)

    @field_validator("url")
    @classmethod
    def _to_an_allowed_host(cls, url: str, info: ValidationInfo) -> str:
        hosts, host = info.data.get("hosts"), check_host(_host_of(url))
        if hosts is not None and host not in hosts:
            raise refused(f"url leads to {host}, which is not among hosts", f"hosts: [{host}], if it may be called")
        if info.data.get("method") == "DELETE" and not fields_of(url):
            raise refused("a DELETE has no body, so that its url must say what is meant", URL_EXAMPLE)
        return url

    @field_validator("gone")
    @classmethod
    def _about_the_item(cls, gone: tuple[int, ...]) -> tuple[int, ...]:
        about_the_call = [status for status in gone if status in NOT_GONE]
        if about_the_call:
            raise refused(f"gone cannot have {about_the_call[0]}, which says nothing of the item", "[404, 410]")
        return gone

    @property
    def fields(self) -> tuple[str, ...]:
        """The attributes that the URL names, each once."""
        return fields_of(self.url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The names of the secrets that it needs, each once."""
        return tuple(sorted(set(self.headers.values())))

    @property
    def pause(self) -> timedelta:
        """From one call of a worker to the next."""
        return timedelta(seconds=1 / self.rate)

    def expand(self, values: Mapping[str, str | None]) -> str:
        """The URL of one record; None stands for a field that is not there or is no single value.

        Whatever is in a field stays within the place that the template has for it. Raises FieldUnfit.
        """
        for name in self.fields:
            _refuse_unfit(name, values.get(name))
        url = _FIELD.sub(lambda found: quote(values[found[1]] or "", safe=""), self.url)
        if len(url) > LONGEST_URL:
            raise FieldUnfit("the URL would be too long")
        if any(_is_dots(segment) for segment in _path_of(url).split("/")):
            raise FieldUnfit("a segment of the path would be '.' or '..', which may lead elsewhere")
        return url


def fields_of(url: str) -> tuple[str, ...]:
    """The attributes that a template names, each once, in order."""
    return tuple(dict.fromkeys(_FIELD.findall(url)))


def _host_of(url: str) -> str:
    found = _URL.fullmatch(url)
    assert found  # it was checked
    return found["host"]


def _path_of(url: str) -> str:
    found = _URL.fullmatch(url)
    assert found  # it was checked, and what was put in is encoded
    return found["rest"].partition("?")[0]


def _refuse_unfit(name: str, value: str | None) -> None:
    """Servers may decode before they look for segments: what would lead upwards then is refused as well."""
    if not value:
        raise FieldUnfit(f"field {name} has no value to put into the URL")
    if _UNFIT.search(value):
        raise FieldUnfit(f"field {name} has control characters")
    if any(_is_dots(part) for part in _SLASH.split(value)):
        raise FieldUnfit(f"field {name} has a part '.' or '..', which may lead elsewhere")


def _is_dots(segment: str) -> bool:
    """Whether a segment is `.` or `..` in any spelling, with or without parameters behind it."""
    return _DOTS.sub(".", segment).partition(";")[0] in (".", "..")
