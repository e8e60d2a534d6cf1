"""Text that a key or a message contributed, made fit to be shown to a person."""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""The text with nothing in it that could act on a screen, or be taken for something else.

    Control characters (terminal escapes among them), bidi and other invisible characters, spaces that are none,
    lone surrogates and unassigned characters become `\x1b`, `\u202e` and so on; a backslash is doubled, so that no
    two texts look alike. Whatever shows the result must take it literally: no markup of any kind is looked for here.
    """
    return harmless(text.replace("\\", r"\\"))


def harmless(text: str) -> str:
    """The same for a sentence that quotes such text: it has backslashes of its own, which stay as they are."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _code(each) for each in text)


def _code(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
