"""Which object keys an XML 1.0 document can carry. No boto3 here: the fakes use it too."""

from __future__ import annotations

import re

# XML 1.0 has no form for these, escaped or not: control characters but tab and newline, two noncharacters.
# A carriage return has one, but sent bare it is read back as a newline: the wrong key would be named.
_NOT_IN_XML = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]")


def fits_xml(key: str) -> bool:
    """Whether the key comes through DeleteObjects' request body unchanged."""
    return _NOT_IN_XML.search(key) is None
