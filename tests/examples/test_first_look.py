"""`make run`: what it installs and says, what it starts, and the exit status."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

pytest.importorskip("torchport")
import run


@dataclass
class Started:
    """Every process that would be started; `statuses` says how it ends, by a word of its command."""

    commands: list[list[str]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)

    def run(self, command: list[str], **options: object) -> subprocess.CompletedProcess:
        self.commands.append(command)
        status = next((s for word, s in self.statuses.items() if any(word in part for part in command)), 0)
        return subprocess.CompletedProcess(command, status)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """A machine where no compiler is installed and no process is started."""
    found = Started()
    monkeypatch.setattr(run.subprocess, "run", found.run)
    monkeypatch.setattr(run, "plugin_file", lambda platform: None)
    monkeypatch.setattr(run, "show_terms", lambda packages: print("in use:", *packages))
    return found


def look(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["run.py", *arguments])
    return run.main()


def test_terms_come_before_the_download(started, monkeypatch, tmp_path: Path, capsys) -> None:
    assert look(monkeypatch, "--out", str(tmp_path)) == 0
    printed = capsys.readouterr().out
    assert "installing libtpu, the compiler for tpu: Google Cloud Platform Terms of Service, not open source" in printed
    assert "installing jax-cuda13-pjrt, the compiler for cuda: Apache-2.0" in printed
    assert "in use: libtpu jax-cuda13-pjrt" in printed
    pips = [command for command in started.commands if "pip" in command]
    assert [command[-1] for command in pips] == ["libtpu", "jax-cuda13-pjrt"]
    assert [Path(c[1]).name for c in started.commands if c[1].endswith(".py")] == ["train.py"]
    [check] = [c for c in started.commands if "check" in c]
    assert check[check.index("--html") + 1] == str(tmp_path / "check.html")


def test_without_a_tpu_target_libtpu_is_not_touched(started, monkeypatch, tmp_path: Path, capsys) -> None:
    assert look(monkeypatch, "--targets", "cuda:h100", "--out", str(tmp_path)) == 0
    assert not any("libtpu" in part for command in started.commands for part in command)
    assert "libtpu" not in capsys.readouterr().out


@pytest.mark.parametrize(("word", "status"), [("train.py", 1), ("torchport.cli", 1), ("pip", 2)])
def test_a_part_that_fails_fails_the_look(word, status, started, monkeypatch, tmp_path: Path, capsys) -> None:
    started.statuses[word] = 1
    assert look(monkeypatch, "--out", str(tmp_path)) == status


@pytest.mark.parametrize("targets", ["", "tpu:v99", "cuda"])
def test_targets_that_are_refused(targets, started, monkeypatch, capsys) -> None:
    with pytest.raises(SystemExit) as end:
        look(monkeypatch, "--targets", targets)
    assert end.value.code == 2
    assert "must" in capsys.readouterr().err


def test_terms_are_what_the_packages_say() -> None:
    assert "BSD" in run.terms("torch") and run.terms("rich") == "MIT"
    assert run.terms("xla-cpu-pjrt").startswith("Apache-2.0")
