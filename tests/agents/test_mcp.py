"""A client of the Model Context Protocol against the server: its tools, its refusals, and a port from end to end."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

import target
from torchport.migrate.agents.root import Root
from torchport.migrate.agents.server import build

DEMO = Path(__file__).resolve().parents[2] / "examples" / "cuda_service"
TOOLS = {"scan", "port", "run", "check", "explain_error", "eval_status", "kb_search"}


def talk(server: Any, script: Callable[[Client], Awaitable[Any]]) -> Any:
    """Runs a conversation with a server."""

    async def conversation() -> Any:
        async with Client(server) as client:
            return await script(client)

    return asyncio.run(asyncio.wait_for(conversation(), 240))


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    """A tool's result, which must not be an error."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content[0].text
    return result.structured_content or json.loads(result.content[0].text)


async def refusal(client: Client, name: str, **arguments: Any) -> str:
    """The words of a tool that must refuse."""
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return result.content[0].text


def over_stdio(root: Path, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "torchport.cli", "mcp", "--root", str(root), *options],
        env={name: value for name, value in os.environ.items() if name.startswith(("PYTHON", "TORCHPORT_"))},
    )


def test_the_seven_tools(tmp_path: Path) -> None:
    async def script(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS
        reading = {name for name, tool in tools.items() if tool.annotations and tool.annotations.read_only_hint}
        assert reading == {"scan", "explain_error", "eval_status", "kb_search"}
        assert all(tool.description for tool in tools.values())

    talk(build(Root(tmp_path)), script)


@pytest.mark.parametrize("path", ["/etc", "../", "a/../../b", "link"])
def test_every_tool_refuses_a_path_outside(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(tmp_path)

    async def script(client: Client) -> list[str]:
        return [
            await refusal(client, "scan", path=path),
            await refusal(client, "port", path=path),
            await refusal(client, "run", script=path),
            await refusal(client, "check", script=path, targets=["tpu:v6e:2x2"]),
            await refusal(client, "eval_status", folder=path),
        ]

    for words in talk(build(Root(root, write=True)), script):
        assert "[mcp] path must" in words


def test_answers_come_with_entries_or_not_at_all(tmp_path: Path) -> None:
    async def script(client: Client) -> None:
        known = await call(client, "explain_error", text="AssertionError: Torch not compiled with CUDA enabled")
        assert known["answers"][0]["entry"] == "error/torch-no-cuda"
        assert "rule/CU001" in known["answers"][0]["rules"]
        unknown = await call(client, "explain_error", text="flux capacitor underrun")
        assert unknown["answers"] == []
        assert "no answer" in unknown["note"]
        found = await call(client, "kb_search", words="hbm out of memory", kind="error")
        assert found["entries"][0]["id"].startswith("error/")
        assert "no answer" in (await call(client, "kb_search", words="qwertyuiop"))["note"]
        assert "kind must be one of" in await refusal(client, "kb_search", words="x y z", kind="rumour")

    talk(build(Root(tmp_path)), script)


def test_an_evaluation_that_is_none_is_refused(tmp_path: Path) -> None:
    async def script(client: Client) -> str:
        return await refusal(client, "eval_status")

    words = talk(build(Root(tmp_path)), script)
    assert "plan.toml" in words
    assert str(tmp_path) not in words


def test_a_base_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / ".torchport").mkdir()
    (tmp_path / ".torchport" / "kb.db").write_text("not a database, but long enough to be looked at as one\n" * 40)

    async def script(client: Client) -> str:
        return await refusal(client, "kb_search", words="hbm")

    words = talk(build(Root(tmp_path, write=True)), script)
    assert "database" in words
    assert str(tmp_path) not in words


def test_a_root_that_is_no_folder_is_said(tmp_path: Path) -> None:
    from torchport.cli import app

    done = CliRunner().invoke(app, ["mcp", "--root", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert "root must be a folder" in done.stderr


@pytest.mark.skipif(target.IS_CPU, reason="runs a script on the device")
def test_a_client_ports_and_runs_the_demo_application(tmp_path: Path) -> None:
    """Over standard input and output: scan -> port -> run -> explain, on a copy of examples/cuda_service."""
    root = tmp_path / "work"
    shutil.copytree(DEMO, root / "service", ignore=shutil.ignore_patterns("__pycache__"))
    broken = root / "broken.py"
    broken.write_text("import torch\ntorch.mm(torch.zeros(2, 3, device='tpu'), torch.zeros(4, 5, device='tpu'))\n")

    async def script(client: Client) -> None:
        scanned = await call(client, "scan", path="service")
        assert scanned["total"] == len(scanned["findings"]) > 10
        assert {"train.py", "config.yaml", "Dockerfile"} <= {finding["path"] for finding in scanned["findings"]}

        before = {
            path: path.read_bytes() for path in root.rglob("*") if path.is_file() and ".torchport" not in path.parts
        }
        planned = await call(client, "port", path="service")
        assert planned["applied"] is False
        assert "+++ b/train.py" in planned["diff"]
        assert {path: path.read_bytes() for path in before} == before

        done = await call(client, "port", path="service", apply=True)
        assert done["applied"] is True
        assert ".cuda()" not in (root / "service" / "train.py").read_text()
        again = await call(client, "scan", path="service")
        assert again["total"] < scanned["total"]

        trained = await call(client, "run", script="service/train.py", arguments=["--out", "model.pt"])
        assert trained["exit_code"] == 0, trained["output"]
        assert json.loads(trained["output"].splitlines()[-1])["accuracy"] > 0.5

        failed = await call(client, "run", script="broken.py")
        assert failed["exit_code"] != 0
        first = failed["explanation"]["answers"][0]
        assert first["entry"].split("/")[0] in ("code", "error")
        assert first["cause"] and first["next"]

        found = await call(client, "kb_search", words="train.py CU001", kind="finding")
        changed = await call(client, "kb_search", words="was rewritten CU001", kind="change")
        assert found["entries"] and changed["entries"]
        assert str(tmp_path) not in json.dumps([scanned, done, trained, failed, found])

    talk(over_stdio(root, "--write"), script)


def test_a_read_only_server_over_stdio_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch\nx = torch.zeros(1).cuda()\n")

    async def script(client: Client) -> None:
        planned = await call(client, "port")
        assert planned["files"] == ["a.py"]
        assert "--write" in await refusal(client, "port", apply=True)
        assert "--write" in await refusal(client, "run", script="a.py")

    talk(over_stdio(tmp_path), script)
    assert [path.name for path in tmp_path.rglob("*")] == ["a.py"]
    assert ".cuda()" in (tmp_path / "a.py").read_text()
