"""`action: {kind: http}`: what a policy may say, and what a record's fields can do to its URL: nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sexton.endpoint_action import FieldUnfit, HttpAction
from sexton.policy import Policy, load_policies

from tests.fakes.world import calls_policy
from tests.fakes.world import policy as s3_policy

ROOT = Path(__file__).resolve().parents[2]

URL = "https://api.example.com/carriers/{carrier}/reminders/{id}?day={day}&x=1"


def action(**changes: Any) -> HttpAction:
    fields: dict[str, Any] = {
        "kind": "http",
        "method": "POST",
        "hosts": ["api.example.com"],
        "url": URL,
        "success": [200],
        "idempotent": True,
        **changes,
    }
    return HttpAction.model_validate({name: value for name, value in fields.items() if value is not None})


def refusal(**changes: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        action(**changes)
    return str(raised.value)


def test_what_is_left_out_has_a_value() -> None:
    made = action(headers={"Authorization": "sexton/carriers"})
    assert (made.gone, made.rate, made.timeout.total_seconds(), made.pause.total_seconds()) == ((404, 410), 5, 10, 0.2)
    assert made.fields == ("carrier", "id", "day")


@pytest.mark.parametrize("name", ["method", "hosts", "url", "success", "idempotent"])
def test_what_must_be_decided_has_no_default(name: str) -> None:
    assert name in refusal(**{name: None})


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/{id}",
        "//api.example.com/{id}",
        "https://{carrier}.example.com/",
        "https://api.example.com{id}/",
        "https://api.example.com:{id}/",
        "https://user:pw@api.example.com/{id}",
        "https://api.example.com@evil.example/{id}",
        "https://api.example.com\\.evil.example/{id}",
        "https://evil.example/{id}",
        "https://api.example.com/{id}#{carrier}",
        "https://api.example.com/../{id}",
        "https://api.example.com/./{id}",
        "https://api.example.com/%2E%2e/{id}",
        "https://api.example.com/..;a=b/{id}",
        "https://api.example.com/{}/x",
        "https://api.example.com/{id",
        "https://api.example.com/id}",
        "https://api.example.com/{i d}",
        "https://api.example.com/a b/{id}",
        "https://api.example.com/%zz/{id}",
        "https://api.example.com/ä/{id}",
        "https://api.example.com/{id}\nHost: evil.example",
        "https://127.0.0.1/{id}",
        "https://2130706433/{id}",
        "https://0x7f.1/{id}",
        "https://[::1]/{id}",
        "https://API.example.com/{id}",
        "https://api.example.com./{id}",
        "https://api.example.com:99999/{id}",
    ],
)
def test_a_url_that_could_lead_elsewhere_is_refused(url: str) -> None:
    assert refusal(url=url)


@pytest.mark.parametrize(
    "host", ["", "*", "*.example.com", "10.0.0.1", "[::1]", "a..b", "-a.example.com", "a/b", "a:0", "a:", "EXAMPLE.com"]
)
def test_a_host_is_a_name(host: str) -> None:
    assert "is no host name" in refusal(hosts=["api.example.com", host])


def test_a_port_is_part_of_the_host() -> None:
    assert "not among hosts" in refusal(url="https://api.example.com:8443/{id}")
    assert action(url="https://api.example.com:8443/{id}", hosts=["api.example.com:8443"])
    assert action(url="https://api.example.com:443/{id}").hosts == ("api.example.com",)


def test_a_delete_says_in_its_url_what_is_meant() -> None:
    assert "has no body" in refusal(method="DELETE", url="https://api.example.com/cleanup")
    assert action(url="https://api.example.com/cleanup")


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        ("Host", "sexton/a"),
        ("Content-Length", "sexton/a"),
        ("idempotency-key", "sexton/a"),
        ("Transfer-Encoding", "sexton/a"),
        ("X: y", "sexton/a"),
        ("X\r\nY", "sexton/a"),
        ("", "sexton/a"),
        ("Authorization", "Bearer abc"),
        ("Authorization", "carriers"),
        ("Authorization", "sexton/"),
        ("Authorization", "sexton/*"),
        ("Authorization", "arn:aws:secretsmanager:eu-central-1:123456789012:secret:sexton/a"),
        ("Authorization", "other/sexton/a"),
    ],
)
def test_a_headers_value_is_a_secret_under_sexton(header: str, secret: str) -> None:
    assert refusal(headers={header: secret})


def test_a_header_is_there_once() -> None:
    assert "twice" in refusal(headers={"X-Key": "sexton/a", "x-key": "sexton/b"})


@pytest.mark.parametrize(
    "changes",
    [
        {"success": []},
        {"success": [302]},
        {"success": ["200"]},
        {"gone": [401]},
        {"gone": [408]},
        {"gone": [429]},
        {"gone": [200]},
        {"method": "GET"},
        {"method": "post"},
        {"idempotent": "yes"},
        {"rate": 0},
        {"rate": 0.01},
        {"rate": 1000},
        {"timeout": "PT21S"},
        {"timeout": "PT0S"},
        {"body": "{}"},
    ],
)
def test_what_says_nothing_that_can_be_done_is_refused(changes: dict[str, Any]) -> None:
    assert refusal(**changes)


def test_order_and_repeats_change_no_version() -> None:
    one = action(success=[204, 200, 200], hosts=["b.example.com", "api.example.com"], gone=[410, 404])
    other = action(success=[200, 204], hosts=["api.example.com", "b.example.com"])
    assert one == other


# fields


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("dhl", "dhl"),
        ("a b+c", "a%20b%2Bc"),
        ("a/b", "a%2Fb"),
        ("a?b#c", "a%3Fb%23c"),
        ("a&b=c", "a%26b%3Dc"),
        ("a\\b", "a%5Cb"),
        ("@evil.example", "%40evil.example"),
        ("http://169.254.169.254", "http%3A%2F%2F169.254.169.254"),
        ("ü/日", "%C3%BC%2F%E6%97%A5"),
        ("a..b", "a..b"),
        ("...", "..."),
        ("{id}", "%7Bid%7D"),
    ],
)
def test_a_field_is_encoded_as_a_whole(value: str, encoded: str) -> None:
    url = action().expand({"carrier": value, "id": "1", "day": value})
    assert url == f"https://api.example.com/carriers/{encoded}/reminders/1?day={encoded}&x=1"


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        ".",
        "..",
        "../a",
        "a/../b",
        "..\\a",
        "a/..",
        "./a",
        "%2e%2e",
        "%2E.",
        "..;x",
        "a\nb",
        "\0",
        "\x7f",
        "a%2F..",
        "%2e%2e%2f",
        "..%5ca",
    ],
)
def test_a_field_that_could_lead_elsewhere_is_not_sent(value: str | None) -> None:
    for where in ("carrier", "day"):
        with pytest.raises(FieldUnfit) as raised:
            action().expand({"carrier": "dhl", "id": "1", "day": "x", where: value})
        assert where in str(raised.value)


def test_fields_beside_each_other_make_no_way_upwards_either() -> None:
    for url in ("https://api.example.com/{a}{b}/x", "https://api.example.com/.{a}/x"):
        with pytest.raises(FieldUnfit):
            action(url=url).expand({"a": ".", "b": "."})


def test_a_url_has_an_end() -> None:
    with pytest.raises(FieldUnfit):
        action().expand({"carrier": "x" * 5000, "id": "1", "day": "1"})


@given(st.text(), st.text(), st.text())
def test_no_field_changes_host_or_path(carrier: str, id: str, day: str) -> None:
    values = {"carrier": carrier, "id": id, "day": day}
    try:
        url = urlsplit(action().expand(values))
    except FieldUnfit:
        return
    segments = url.path.split("/")
    assert (url.scheme, url.netloc, url.fragment, len(segments)) == ("https", "api.example.com", "", 5)
    assert [unquote(segments[2]), unquote(segments[4])] == [carrier, id]
    name, _, rest = url.query.partition("=")
    assert (name, unquote(rest.removesuffix("&x=1"))) == ("day", day)


def test_the_example_is_a_policy_that_calls() -> None:
    (policy,) = load_policies(ROOT / "policies" / "bookings-cancel.yaml")
    assert (policy.does, policy.mode, policy.job_size) == ("http", "report", 1)
    assert policy.action == Policy.from_canonical(policy.canonical()).action


def test_a_call_is_for_one_record_and_their_number_is_bounded() -> None:
    with pytest.raises(ValidationError, match="job_size 2 is more than the one item"):
        calls_policy(job_size=2)
    with pytest.raises(ValidationError, match=r"write instead limits\.max_items: 99999 at most$|at most \["):
        calls_policy(limits={"max_items": 100_000})


def test_only_records_are_called_for() -> None:
    action = calls_policy().action
    with pytest.raises(ValidationError, match="action http is not for source kind s3"):
        s3_policy(action=action)
