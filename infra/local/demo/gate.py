"""S3 with what the emulator lacks: a bucket policy that counts, and incomplete uploads that were begun long ago.

The emulator stores bucket policies and does not judge by them. So the functions reach its S3 through this gate, which
hands on every request as it came, and answers for the one denied key as S3 does: `AccessDenied` for that key, inside
the 200 of a DeleteObjects that removed all others. In listings of uploads it sets the dates back, which nothing else
can.
"""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, quote, urlsplit
from xml.etree import ElementTree

from infra.local.demo.serving import serving
from infra.local.emulator import HOST

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
TIMEOUT = 60
DENIED = {"Code": "AccessDenied", "Message": "Access Denied by an explicit deny in a resource-based policy"}
ONE_HOP = ("connection", "transfer-encoding", "content-length", "expect", "host")
DIGESTS = ("content-md5", "x-amz-checksum-", "x-amz-sdk-checksum-", "x-amz-content-sha256")  # of the body as it was


@dataclass
class Gate:
    """Where the functions find S3; `upstream` is the emulator's port, known only once that runs.

    `begun` says by its id when an upload was begun, in S3's own words.
    """

    bucket: str
    key: str
    port: int = 0
    upstream: int = 0
    begun: dict[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"http://{HOST}:{self.port}"

    @property
    def policy(self) -> dict[str, object]:
        """The bucket policy that it stands for."""
        statement = {
            "Sid": "Sealed",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:DeleteObject",
            "Resource": f"arn:aws:s3:::{self.bucket}/{self.key}",
        }
        return {"Version": "2012-10-17", "Statement": [statement]}


@dataclass(frozen=True)
class Answer:
    """A response, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@contextlib.contextmanager
def running(bucket: str, key: str) -> Iterator[Gate]:
    """A gate for as long as the block lasts, in threads of this process."""
    gate = Gate(bucket, key)
    handler = type("Handler", (_Handler,), {"gate": gate})
    with serving(handler) as gate.port:
        yield gate


class _Handler(BaseHTTPRequestHandler):
    gate: Gate
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the screen is the demo's."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        answer = self._judged(body)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if not name.lower().startswith(ONE_HOP):
                self.send_header(name, value)
        length = answer.headers.get("Content-Length", "0") if self.command == "HEAD" else len(answer.body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(answer.body)

    def _judged(self, body: bytes) -> Answer:
        url = urlsplit(self.path)
        if self.command == "DELETE" and url.path == quote(f"/{self.gate.bucket}/{self.gate.key}"):
            return Answer(403, {"Content-Type": "application/xml"}, _xml(_error("Error", DENIED)))
        if self.command == "POST" and url.path == f"/{self.gate.bucket}" and "delete" in _names(url.query):
            return self._delete_objects(body)
        if self.command == "GET" and "uploads" in _names(url.query):
            return self._list_uploads(body)
        return self._handed_on(body)

    def _list_uploads(self, body: bytes) -> Answer:
        answer = self._handed_on(body)
        if answer.status != 200:
            return answer
        result = ElementTree.fromstring(answer.body)
        for upload in result.iter(_tag("Upload")):
            begun, initiated = (
                self.gate.begun.get(upload.findtext(_tag("UploadId"), "")),
                upload.find(_tag("Initiated")),
            )
            if begun is not None and initiated is not None:
                initiated.text = begun
        return Answer(200, answer.headers, _xml(result))

    def _delete_objects(self, body: bytes) -> Answer:
        request = ElementTree.fromstring(body)
        mine = [each for each in request.iter(_tag("Object")) if each.findtext(_tag("Key")) == self.gate.key]
        if not mine:
            return self._handed_on(body)
        for each in mine:
            request.remove(each)
        if request.find(_tag("Object")) is None:
            result, headers = ElementTree.Element(_tag("DeleteResult")), {"Content-Type": "application/xml"}
        else:
            answer = self._handed_on(_xml(request), without=DIGESTS)
            if answer.status != 200:
                return answer
            result, headers = ElementTree.fromstring(answer.body), dict(answer.headers)
        result.append(_error(_tag("Error"), {"Key": self.gate.key, **DENIED}))
        return Answer(200, headers, _xml(result))

    def _handed_on(self, body: bytes, without: tuple[str, ...] = ()) -> Answer:
        left = ONE_HOP + without
        headers = {name: value for name, value in self.headers.items() if not name.lower().startswith(left)}
        connection = http.client.HTTPConnection(HOST, self.gate.upstream, timeout=TIMEOUT)
        with contextlib.closing(connection):
            connection.request(self.command, self.path, body, headers)
            reply = connection.getresponse()
            return Answer(reply.status, dict(reply.getheaders()), reply.read())


def _names(query: str) -> set[str]:
    return set(parse_qs(query, keep_blank_values=True))


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _error(tag: str, fields: Mapping[str, str]) -> ElementTree.Element:
    error = ElementTree.Element(tag)
    space = tag.removesuffix("Error")
    for name, value in fields.items():
        ElementTree.SubElement(error, space + name).text = value
    return error


def _xml(root: ElementTree.Element) -> bytes:
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True, default_namespace=_space(root))
    return text


def _space(root: ElementTree.Element) -> str | None:
    return NAMESPACE if root.tag.startswith("{") else None
