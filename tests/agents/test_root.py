"""What an agent's tools may touch: below the root, without links, and nothing to write unless allowed."""

import os
import sys
import time
from pathlib import Path

import pytest

from torchport.migrate.agents import process
from torchport.migrate.agents.root import Refused, Root
from torchport.migrate.agents.tools import Tools


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "inner" / "a.py").write_text("x = 1\n")
    (tmp_path / "secret.py").write_text("SECRET = 1\n")
    return root


def test_paths_below_the_root(folder: Path) -> None:
    root = Root(folder)
    assert root.path(".") == folder
    assert root.path("inner/a.py", folder=False) == folder / "inner" / "a.py"
    assert root.shown(folder / "inner" / "a.py") == "inner/a.py"


@pytest.mark.parametrize(
    "given", ["..", "../secret.py", "inner/../../secret.py", "inner/../inner/a.py", "/etc/passwd", "a\0b", "none.py"]
)
def test_paths_outside_are_refused(folder: Path, given: str) -> None:
    with pytest.raises(Refused, match=r"\[mcp\] path must"):
        Root(folder).path(given)


def test_links_are_refused(folder: Path) -> None:
    (folder / "out.py").symlink_to(folder.parent / "secret.py")
    (folder / "up").symlink_to(folder.parent)
    (folder / "inside").symlink_to(folder / "inner")
    root = Root(folder)
    for given in ("out.py", "up", "up/secret.py", "inside/a.py"):
        with pytest.raises(Refused, match="no symbolic link"):
            root.path(given)


def test_a_folder_with_a_link_that_leads_out_is_refused(folder: Path) -> None:
    (folder / "inner" / "out.py").symlink_to(folder.parent / "secret.py")
    with pytest.raises(Refused, match=r"inner/out\.py must not link to a place outside"):
        Root(folder).path("inner")


def test_kinds_are_checked(folder: Path) -> None:
    with pytest.raises(Refused, match="must be a file"):
        Root(folder).path("inner", folder=False)
    with pytest.raises(Refused, match="must be a folder"):
        Root(folder).path("inner/a.py", folder=True)
    with pytest.raises(Refused, match="root must be a folder"):
        Root(folder / "inner" / "a.py")


def test_nothing_is_written_without_leave(folder: Path) -> None:
    tools = Tools(Root(folder))
    for call in (
        lambda: tools.port(".", apply=True),
        lambda: tools.run("inner/a.py", []),
        lambda: tools.check("inner/a.py", ["tpu:v6e:2x2"], []),
    ):
        with pytest.raises(Refused, match="--write"):
            call()
    tools.explain_error("Torch not compiled with CUDA enabled")
    tools.kb_search("CUDA")
    assert sorted(path.name for path in folder.rglob("*")) == ["a.py", "inner"]


def test_the_base_may_not_lie_elsewhere(folder: Path) -> None:
    (folder / ".torchport").symlink_to(folder.parent)
    with pytest.raises(Refused, match="no symbolic link"):
        Tools(Root(folder, write=True)).kb_search("CUDA")


def test_what_is_explained_is_kept_with_leave(folder: Path) -> None:
    tools = Tools(Root(folder, write=True))
    tools.explain_error("RuntimeError: Ran out of memory in memory space hbm, says jane@example.com")
    kept = tools.kb_search("see error/xla-hbm-compile", kind="error")["entries"]
    assert [
        entry["evidence"] for entry in kept if entry["id"].count("/") == 1 and entry["source"].startswith("torchport")
    ] == ["error/xla-hbm-compile"]


def test_time_limits(folder: Path) -> None:
    for seconds in (0, -1, 100_000):
        with pytest.raises(Refused, match="seconds must be in"):
            Tools(Root(folder, write=True)).run("inner/a.py", [], seconds)


def test_a_program_that_does_not_end_is_stopped_with_what_it_started(folder: Path) -> None:
    beat = folder / "beat"
    child = "import pathlib, time\nwhile True: pathlib.Path('beat').touch(); time.sleep(0.05)"
    parent = f"import subprocess, sys\nprint('started', flush=True)\nsubprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(process.Overran) as stopped:
        process.run([sys.executable, "-c", parent], folder, os.environ, 3)
    assert stopped.value.output == b"started\n"
    last = beat.stat().st_mtime
    time.sleep(0.5)
    assert beat.stat().st_mtime == last


def test_a_program_that_ends_is_heard(folder: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('e', file=sys.stderr); sys.exit(3)"
    status, output = process.run([sys.executable, "-c", code], folder, {}, 60)
    assert (status, sorted(output.decode().split())) == (3, sorted([str(folder), "e"]))


def test_an_overrun_is_told_to_the_agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise process.Overran(f"{folder}/inner: jane@example.com waits".encode())

    monkeypatch.setattr(process, "run", never)
    with pytest.raises(Refused, match=r"must end within 9 s, got no end\. It said: inner: <e-mail> waits"):
        Tools(Root(folder, write=True)).run("inner/a.py", [], 9)


def test_secrets_in_code_do_not_reach_the_agent_and_the_result_stays_whole(folder: Path) -> None:
    line = 'x.cuda()  # token="abcdefgh\\\\", jane@example.com'
    (folder / "inner" / "b.py").write_text(f"import torch\nx = torch.zeros(1)\n{line}\n")
    result = Tools(Root(folder)).scan("inner")
    assert any(finding["rule"] == "CU001" for finding in result["findings"])
    assert "jane" not in str(result)
    assert "abcdefgh" not in str(result)


def test_a_scripts_arguments_are_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that an agent cannot have TorchPort itself write a file outside the root."""
    commands: list[list[str]] = []

    def noted(command: list[str], *_: object) -> tuple[int, bytes]:
        commands.append(command)
        return 0, b""

    monkeypatch.setattr(process, "run", noted)
    tools = Tools(Root(folder, write=True))
    tools.run("inner/a.py", ["--log", "/tmp/elsewhere"])
    tools.check("inner/a.py", ["tpu:v6e:1x1"], ["--json", "/tmp/elsewhere"])
    for command, option in zip(commands, ("--log", "--json"), strict=True):
        own = command[command.index("--") + 1 :]
        assert own == [str(folder / "inner" / "a.py"), option, "/tmp/elsewhere"]
