"""Runs that are kept come back as they were, and only for what they depend on."""

from __future__ import annotations

from pathlib import Path

import pytest

import reference
import train
from outcome import Run

RUN = Run("cpu", [2.5, 2.25], 2.0, None, [0.5, 0.25], {"programs_compiled": None})


def test_runs_come_back(tmp_path: Path) -> None:
    assert reference.load(tmp_path, "a") is None
    reference.save(tmp_path, "a", [RUN, RUN])
    date, runs = reference.load(tmp_path, "a")
    assert runs == [RUN, RUN]
    assert len(date) == len("2026-12-01")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_the_key_holds_what_the_numbers_depend_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plain = reference.key("GPT", 40, 0)
    assert plain == reference.key("GPT", 40, 0)
    others = {reference.key("CNN", 40, 0), reference.key("GPT", 41, 0), reference.key("GPT", 40, 1)}
    for name in reference.SOURCES:
        (tmp_path / name).write_bytes((reference.HERE / name).read_bytes())
    (tmp_path / "char_gpt.py").write_text("changed")
    monkeypatch.setattr(reference, "HERE", tmp_path)
    others.add(reference.key("GPT", 40, 0))
    assert len(others) == 4 and plain not in others


def test_a_second_call_trains_on_the_device_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--device", "cpu", "--steps", "3", "--out", str(tmp_path), "--keep", str(tmp_path / "kept")]
    assert train.main(arguments, jobs=train.JOBS[:1]) == 0
    assert "twin 1" in capsys.readouterr().out
    assert train.main(arguments, jobs=train.JOBS[:1]) == 0
    printed = capsys.readouterr().out
    assert "twin 1" not in printed
    assert "make train makes them anew" in printed
