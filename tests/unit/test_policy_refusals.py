"""Every broken policy is refused with its file, its line, what is wrong and what to write instead.

The fixtures say it themselves: `# refused: ...` on the line that must be named, with how the text begins.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from sexton.policy import PolicyError, load_policies, refuse_own
from sexton.policy_file import read_policy_file
from sexton.selection import sorted_set

FIXTURES = Path(__file__).parents[1] / "fixtures" / "policies"
BROKEN = sorted((FIXTURES / "broken").iterdir())


def refusal(folder: Path) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        load_policies(folder)
    return caught.value


@pytest.mark.parametrize("fixture", BROKEN, ids=lambda path: path.stem)
def test_broken_policy_is_refused_at_its_line(fixture: Path, tmp_path: Path) -> None:
    copy = tmp_path / fixture.name
    copy.write_bytes(fixture.read_bytes())
    lines = fixture.read_text().splitlines()
    expected = {
        number: match[1] for number, line in enumerate(lines, 1) if (match := re.search("# refused: (.*)", line))
    }
    told = str(refusal(tmp_path)).splitlines()
    assert [line.split(": ")[0] for line in told] == [f"{copy}:{number}" for number in expected]
    for line, (number, beginning) in zip(told, expected.items(), strict=True):
        assert line.removeprefix(f"{copy}:{number}: ").startswith(beginning)
        assert "; write instead " in line


@pytest.mark.parametrize("fixture", BROKEN, ids=lambda path: path.stem)
def test_no_word_of_the_library_reaches_people(fixture: Path) -> None:
    assert not re.search(
        "[Vv]alue error|Input should|should (have|be|match)|Field required|Extra input", str(refusal(fixture))
    )


@pytest.mark.parametrize(
    ("field", "text", "instead"),
    [
        ("retain", "30 days", "P30D"),
        ("retain", "1 Year", "P1Y"),
        ("retain", "90d", "P90D"),
        ("retain", "6 months", "P6M"),
        ("retain", "p30d", "P30D"),
        ("retain", "2 weeks", "P2W"),
        ("slo", "6 hours", "PT6H"),
        ("slo", "P6H", "PT6H"),
        ("slo", "90 min", "PT90M"),
        ("retain", "30", "an ISO 8601 duration such as P30D, P3M or P1Y"),
        ("retain", "5 m", "an ISO 8601 duration such as P30D, P3M or P1Y"),
        ("slo", "a while", "an ISO 8601 duration such as PT6H or P1D"),
    ],
)
def test_a_duration_in_words_is_told_as_it_is_written(tmp_path: Path, field: str, text: str, instead: str) -> None:
    good = (FIXTURES / "same-id" / "a.yaml").read_text()
    (tmp_path / "a.yaml").write_text(re.sub(rf"^{field}:.*\n", "", good, flags=re.MULTILINE) + f'\n{field}: "{text}"\n')
    (problem,) = refusal(tmp_path).problems
    assert problem.instead == instead


def test_problems_of_all_files_are_told_together(tmp_path: Path) -> None:
    for name in ("empty", "tab", "short-retention"):
        (tmp_path / f"{name}.yaml").write_bytes((FIXTURES / "broken" / f"{name}.yaml").read_bytes())
    files = [Path(problem.where.rpartition(":")[0]).stem for problem in refusal(tmp_path).problems]
    assert files == ["empty", "short-retention", "tab"]


def test_one_id_in_two_files_is_refused() -> None:
    folder = FIXTURES / "same-id"
    expected = f"{folder}/b.yaml:4: id 'twin' is already that of {folder}/a.yaml:4; write instead an id of its own"
    assert str(refusal(folder)) == expected


def test_a_folder_without_policies_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a policy")
    assert "no policy is in this folder; write instead at least one *.yaml file" in str(refusal(tmp_path))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "there is no such folder" in str(refusal(tmp_path / "absent"))


def test_a_file_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("id: caf\xe9".encode("latin-1"))
    assert f"{tmp_path}/latin.yaml:1: the file is not UTF-8" in str(refusal(tmp_path))


def test_a_control_character_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bell.yaml").write_bytes(b"id: a\x07b")
    assert f"{tmp_path}/bell.yaml:1: YAML cannot be read" in str(refusal(tmp_path))


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("[" * sys.getrecursionlimit())
    assert "nested too deep" in str(refusal(tmp_path))


def test_aliases_that_multiply_are_read_once(tmp_path: Path) -> None:
    """Thirty doublings are a billion entries if each use of an anchor is followed."""
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    path = tmp_path / "laughs.yaml"
    path.write_text("\n".join([*levels, "retain: *a29"]))
    assert read_policy_file(path).problems == []
    assert len(str(refusal(tmp_path))) < 20_000


def test_aliases_that_multiply_are_told_where_text_must_stand(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    (tmp_path / "laughs.yaml").write_text("\n".join([*levels, "description: *a29"]))
    assert "description must be text" in str(refusal(tmp_path))


@pytest.mark.parametrize(
    "line",
    [
        "mode: !!bool maybe",
        "job_size: !!int ''",
        "limits: {max_share: !!float ''}",
        "mode: !!timestamp x",
        f"job_size: 1{':59' * 400}.5",
        f"retain: P{'9' * 400}M",
        f"limits: {{max_items: {'9' * 400}}}",
        "limits: {max_age: P999999999D}",
    ],
    ids=lambda line: line[:20],
)
def test_a_value_that_no_parser_expects_is_refused_at_its_line(tmp_path: Path, line: str) -> None:
    good = (FIXTURES / "same-id" / "a.yaml").read_text()
    field = line.partition(":")[0]
    rest = re.sub(rf"^{field}:.*\n", "", good, flags=re.MULTILINE)
    (tmp_path / "a.yaml").write_text(f"{line}\n{rest}")
    assert refusal(tmp_path).problems[0].where == f"{tmp_path}/a.yaml:1"


def test_thousands_of_prefixes_are_read_in_time() -> None:
    texts = tuple(f"p{number}/" for number in range(100_000))
    assert sorted_set(texts) == tuple(sorted(texts))


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    text = (FIXTURES / "good" / "anchors.yaml").read_text().replace("\n", "\r\n")
    (tmp_path / "windows.YAML").write_bytes(text.encode("utf-8-sig"))
    assert [policy.id for policy in load_policies(tmp_path)] == ["anchors"]


def test_sextons_own_bucket_is_refused_as_a_source() -> None:
    policies = load_policies(FIXTURES.parents[2] / "policies")
    refuse_own(policies, {"sexton-evidence"})
    with pytest.raises(PolicyError) as caught:
        refuse_own(policies, {"sexton-evidence", "sexton-demo-logs"})
    assert str(caught.value).startswith(
        "policy logs-expire: source.bucket 'sexton-demo-logs' is Sexton's own evidence; write instead "
    )
