"""Nothing that must not be kept comes through, and what is kept is fit to be shown."""

from __future__ import annotations

import pytest
from sexton.redact import HIDDEN, LIMIT, redact, redact_all, redact_lines

SECRETS = {
    "signed_url": (
        "GET https://bucket.s3.eu-central-1.amazonaws.com/a/b?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature=cafe",
        ["X-Amz", "cafe"],
    ),
    "query_string_of_any_url": ("see https://example.com/x?code=cafe&y=1 now", ["cafe"]),
    "url_with_a_password": ("postgres://user:cafe@db/x", ["cafe"]),
    "access_key_id": ("the key AKIAIOSFODNN7EXAMPLE is unknown", ["AKIAIOSFODNN7EXAMPLE"]),
    "temporary_key_id": ("ASIAIOSFODNN7EXAMPLE", ["ASIA"]),
    "secret_key_by_name": ("aws_secret_access_key = cafe/babe+1", ["cafe"]),
    "secret_key_by_look": ("x wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY y", ["wJalr"]),
    "session_token": ('"SessionToken": "cafe=="', ["cafe"]),
    "security_token_header": ("x-amz-security-token: cafe", ["cafe"]),
    "authorization_header": ("Authorization: Bearer cafe.babe", ["cafe"]),
    "bearer_alone": ("sent Bearer cafebabe1", ["cafebabe1"]),
    "sigv4_header": (
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20260301/x, SignedHeaders=a, Signature=cafe",
        ["AKIA", "cafe", "SignedHeaders"],
    ),
    "password": ("password=cafe", ["cafe"]),
    "password_in_quotes": ('{"db_password": "cafe babe"}', ["cafe", "babe"]),
    "api_key": ("api-key: cafe", ["cafe"]),
    "cookie": ("Cookie: cafe", ["cafe"]),
    "jwt": ("token is eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl here", ["eyJ"]),
    "private_key": ("-----BEGIN RSA PRIVATE KEY-----\ncafe\n-----END RSA PRIVATE KEY-----", ["cafe"]),
    "private_key_cut_off": ("-----BEGIN PRIVATE KEY-----\ncafe\nbabe", ["cafe", "babe"]),
    "header_with_blanks": ("Authorization: token cafe babe", ["cafe", "babe"]),
    "cookie_with_fields": ("Set-Cookie: theme=dark; session=cafe; Path=/", ["cafe"]),
    "quote_cut_off": ('{"password": "cafe babe', ["cafe", "babe"]),
    "quote_escaped": (r'{"password": "ca\"fe babe", "x": 1}', ["fe", "babe"]),
    "json_in_json": (r'{"body": "{\"password\": \"cafe babe\"}"}', ["cafe", "babe"]),
    "json_in_json_cut_off": (r'{"body": "{\"password\": \"cafe babe', ["cafe", "babe"]),
    "bytes": ("password=b'cafe babe'", ["cafe", "babe"]),
    "header_in_a_tuple": ("[('x-api-key', 'cafe'), ('accept', '*/*')]", ["cafe"]),
    "xml": ("<SecretAccessKey>cafe</SecretAccessKey><SessionToken>babe</SessionToken>", ["cafe", "babe"]),
    "html": ("{&quot;password&quot;: &quot;cafe babe&quot;}", ["cafe", "babe"]),
    "url_in_a_url": ("next=https%3A%2F%2Fb.s3%2Fk%3FX-Amz-Signature%3Dcafe", ["cafe"]),
    "query_without_a_url": (
        "GET /b/k?X-Amz-Credential=cafe&X-Amz-Security-Token=babe&sig=fade",
        ["cafe", "babe", "fade"],
    ),
    "password_with_an_at": ("amqp://user:ca@fe@broker:5671/x", ["ca@fe", "fe@"]),
    "secret_key_after_a_sign": ("key=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ["wJalr"]),
    "base64_of_32_bytes": ("k 8Jx0+fC5s/Zq3mQ9tY7uW1eR4vB6nM2aS5dF8gH0jK= k", ["8Jx0"]),
    "token_of_another_service": ("as ghp_0123456789abcdefABCDEF0123456789abcd", ["ghp_"]),
    "line_of_a_key": ("MIIEpAIBAAKCAQEA3Tz2mr7SZiAMfQyuvBjM9Oi/Z7/8rJ+8sR3kKq0aVbNcXmPl", ["MIIE"]),
    "split_by_an_invisible_character": ("AKIA\u200bIOSFODNN7EXAMPLE pass\u200bword=cafe", ["\u200b"]),
}


@pytest.mark.parametrize(("text", "hidden"), list(SECRETS.values()), ids=list(SECRETS))
def test_a_secret_is_hidden(text: str, hidden: list[str]) -> None:
    found = redact(text)
    assert not [each for each in hidden if each in found]


@pytest.mark.parametrize(
    "text",
    [
        "Access Denied",
        "An error occurred (NoSuchBucket) when calling the ListObjectsV2 operation: The bucket does not exist",
        "User: arn:aws:sts::111122223333:assumed-role/worker/x is not authorized to perform: s3:DeleteObject",
        "the part has hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "arn:aws:sts::111122223333:assumed-role/SextonOperatorRoleOfTheNightShift01/ann.example",
        "plans/logs-expire.20261130T201900Z.1/00000000-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f0",
        "the job logs-expire.20261130T201900Z.1.00000000.0415 is ready; only a dead job is replayed or resolved",
        "https://sqs.eu-central-1.amazonaws.com/111122223333/jobs",
        'Could not connect to the endpoint URL: "http://127.0.0.1:9/ledger"',
    ],
)
def test_what_helps_is_kept(text: str) -> None:
    assert redact(text) == text


def test_control_and_bidi_characters_become_spaces() -> None:
    found = redact("a\x1b[31mred\x1b[0m\r\nb\u202egpj.exe\u2066x\u2028y\x00z\ud800")
    assert found == "a [31mred [0m b gpj.exe x y z"
    assert found.isprintable()


def test_a_summary_is_short() -> None:
    assert redact("word " * 100).endswith("…")
    assert len(redact("word " * 100)) == LIMIT
    assert redact("") == ""


def test_a_secret_at_the_cut_is_hidden_too() -> None:
    found = redact("x " * 145 + "password=cafebabe")
    assert "cafe" not in found
    assert len(found) <= LIMIT


HOSTILE = [
    "a",
    "=",
    "password",
    "password-",
    "://",
    "eyJ.",
    'password="',
    "authorization: ",
    "\\",
    "token&quot;=&quot;",
]


@pytest.mark.parametrize("piece", [*HOSTILE, 'cookie=\\"', "wJalr/", "[('token', '"])
@pytest.mark.timeout(60)  # a pattern that backtracks without bound would take for ever
def test_a_hostile_text_comes_to_an_end(piece: str) -> None:
    assert len(redact(piece * 100_000)) <= LIMIT


@pytest.mark.parametrize("secret", ["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AKIAIOSFODNN7EXAMPLE"])
def test_a_secret_at_the_end_of_what_is_searched_is_hidden_too(secret: str) -> None:
    for left in range(1, len(secret) + 2):
        text = "password=" + "x" * (4096 - 10 - left) + " " + secret + " more"
        found = redact(text)
        assert secret[: max(1, left - 1)] not in found.removeprefix("password=[redacted]"), found


def test_lines_keep_their_places() -> None:
    found = redact_lines("Traceback:\n  File x\n    password = 'cafe'\n\nValueError: token=cafe\n")
    assert found == f"Traceback:\n  File x\n    password = {HIDDEN}\n\nValueError: token={HIDDEN}"


def test_all_texts_of_a_value_are_redacted() -> None:
    found = redact_all({"a": ["token=cafe", 1, None, True], "password=cafe": {"b": ValueError("token=cafe")}})
    assert found == {
        "a": [f"token={HIDDEN}", 1, None, True],
        f"password={HIDDEN}": {"b": f"token={HIDDEN}"},
    }


def test_what_was_redacted_says_so() -> None:
    assert HIDDEN in redact("password=cafe")
