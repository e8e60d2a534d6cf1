"""A policy's YAML file: its fields, and the line of each.

YAML guesses types (`on` is a boolean, `2026-01-01` a date) and lets a later key silently win over an equal
earlier one. Here both are problems with a line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from sexton.problem import Problem, shown

Place = tuple[int | str, ...]

_TAG = "tag:yaml.org,2002:"
_TYPES = {"bool": "a boolean", "int": "a number", "float": "a number", "timestamp": "a date", "null": "nothing"}


@dataclass
class PolicyFile:
    """What one file holds. Where `problems` say why it cannot be read, `fields` is not to be trusted."""

    path: Path
    root: Node | None = None
    fields: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def where(self, place: Place = (), *, entry: str | None = None) -> str:
        """`file:line` of a field, of the entry of that text in its list, or of the nearest thing around it."""
        found, marker, value = self._find(place)
        if isinstance(value, SequenceNode) and found == place:
            marker = next((item for item in value.value if item.value == entry), marker)
        return f"{self.path}:{marker.start_mark.line + 1 if marker else 1}"

    def found(self, place: Place) -> Place:
        """The part of a place that the file has."""
        return self._find(place)[0]

    def misread(self, place: Place) -> str | None:
        """What YAML takes a plain scalar for (a boolean, a date ...), or None where it is text."""
        value = self._find(place)[2]
        return _TYPES.get(value.tag.removeprefix(_TAG)) if isinstance(value, ScalarNode) else None

    def raw(self, place: Place) -> str:
        """A scalar as it stands in the file."""
        value = self._find(place)[2]
        return value.value if isinstance(value, ScalarNode) else ""

    def _find(self, place: Place) -> tuple[Place, Node | None, Node | None]:
        found: Place = ()
        marker = value = self.root
        for step in place:
            entry = _entry(value, step)
            if entry is not None:
                found, (marker, value) = (*found, step), entry
        return found, marker, value


def _entry(node: Node | None, step: int | str) -> tuple[Node, Node] | None:
    """The node that marks the line of an entry, and the entry's value."""
    if isinstance(node, MappingNode):
        # The last of equal keys: those merged in by << stand first.
        return next((pair for pair in reversed(node.value) if pair[0].value == step), None)
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step]
    return None


def read_policy_file(path: Path) -> PolicyFile:
    """Read one file. What is wrong with it as YAML is in `problems`; nothing is raised for it."""
    file = PolicyFile(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
        file.root = yaml.compose(text, Loader=yaml.SafeLoader)
        _fill(file)
    except yaml.YAMLError as error:
        file.problems.append(_syntax_problem(path, text, error))
    except UnicodeDecodeError:
        file.problems.append(Problem(f"{path}:1", "the file is not UTF-8", "it in UTF-8"))
    except RecursionError:
        what = "the file is nested too deep, or an anchor contains itself"
        file.problems.append(Problem(f"{path}:1", what, "a flat mapping of fields"))
    except OSError as error:
        file.problems.append(Problem(f"{path}:1", f"the file cannot be read ({error.strerror})", "a readable file"))
    return file


def _fill(file: PolicyFile) -> None:
    if file.root is None:
        file.problems.append(Problem(f"{file.path}:1", "the file is empty", "a policy, beginning with its id"))
    elif not isinstance(file.root, MappingNode):
        file.problems.append(Problem(file.where(), "the file is no mapping of fields", "field: value lines"))
    else:
        reader = _Reader(file)
        file.fields = reader.value(file.root)


def _syntax_problem(path: Path, text: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    number = mark.line if mark else 0
    line = text.splitlines()[number] if number < len(text.splitlines()) else ""
    where = f"{path}:{number + 1}"
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is not well formed"
    if "\t" in line and ("\\t" in reason or line.lstrip(" ").startswith("\t")):
        return Problem(where, "the line has a tab where YAML wants spaces", "two spaces for each level")
    if "another document" in reason:
        return Problem(where, "the file holds more than one document", "one policy a file, without ---")
    return Problem(where, f"YAML cannot be read ({reason})", "text that has a special character in quotes")


class _Reader:
    """Turns nodes into values and notes each key or scalar that cannot be what was meant."""

    def __init__(self, file: PolicyFile) -> None:
        self._file = file
        self._loader = yaml.SafeLoader("")
        self._seen: dict[int, Any] = {}  # an anchor's value is built once, however often it is used

    def value(self, node: Node) -> Any:
        """The node's plain value."""
        if id(node) not in self._seen:
            self._seen[id(node)] = self._build(node)
        return self._seen[id(node)]

    def _build(self, node: Node) -> Any:
        if isinstance(node, MappingNode):
            self._check_keys(node)
            self._loader.flatten_mapping(node)
            return {str(key.value): self.value(value) for key, value in node.value}
        if isinstance(node, SequenceNode):
            return [self.value(item) for item in node.value]
        return self._scalar(node)

    def _scalar(self, node: Node) -> Any:
        try:
            return self._loader.construct_object(node)
        except (ValueError, ArithmeticError, LookupError, AttributeError, yaml.YAMLError):
            # A tag such as !!bool on what is none raises whatever comes up first in the parser.
            self._note(node, f"{shown(node.value)} cannot be read as what it looks like", "it in quotes")
            return None

    def _check_keys(self, node: MappingNode) -> None:
        first: dict[str, Node] = {}
        for key, _ in node.value:
            name = key.value if isinstance(key, ScalarNode) else None
            kind = key.tag.removeprefix(_TAG)
            if name is None:
                self._note(key, "a key is a list or a mapping", "text as the key")
            elif kind in _TYPES:
                self._note(key, f"YAML reads the key {name} as {_TYPES[kind]}", f'"{name}": in quotes')
            elif name in first:
                line = first[name].start_mark.line + 1
                self._note(key, f"{name} stands here again, after line {line}", "it once")
            else:
                first[name] = key

    def _note(self, node: Node, what: str, instead: str) -> None:
        self._file.problems.append(Problem(f"{self._file.path}:{node.start_mark.line + 1}", what, instead))
