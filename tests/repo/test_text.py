"""tools/text.py and tools/sizes.py find what they should, and nothing in the tree."""

from pathlib import Path

import pytest
import sizes
import text


def test_the_tree_is_clean() -> None:
    assert text.main() == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a\tb\n", "tab"),
        ("a \n", "trailing blank"),
        ("x" * 121 + "\n", "121 columns"),
        ("a", "no newline"),
    ],
)
def test_findings(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "a.cpp"
    path.write_text(line)
    assert [words in found for found in text.problems(path)] == [True]


def test_a_long_message_may_stay_in_one_piece(tmp_path: Path) -> None:
    path = tmp_path / "a.cpp"
    path.write_text('fail("' + "x" * 150 + '");\n')
    assert text.problems(path) == []


def test_files_outside_git_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int a;\n")
    assert text.tracked(tmp_path) == [tmp_path / "a.cpp"]


@pytest.mark.parametrize(("lines", "status", "words"), [(400, 0, "0 over 400"), (401, 0, "soft"), (801, 1, "hard")])
def test_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, status: int, words: str) -> None:
    (tmp_path / "core/base").mkdir(parents=True)
    (tmp_path / "core/base/a.cpp").write_text("int a;\n" * lines)
    assert sizes.main(tmp_path) == status
    assert words in capsys.readouterr().out


def test_no_file_is_over_the_hard_limit() -> None:
    assert max(sizes.measure(sizes.ROOT).values()) <= sizes.HARD
