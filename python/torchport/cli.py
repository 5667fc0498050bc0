"""The `torchport` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from torchport.check_command import check
from torchport.migrate.agents.server import mcp
from torchport.migrate.cli import register as register_migrate
from torchport.migrate.errors.command import explain
from torchport.migrate.evaluate.cli import app as evaluation
from torchport.migrate.kb.cli import app as kb
from torchport.migrate.report.command import report

app = typer.Typer(no_args_is_help=True, add_completion=False, help="PyTorch on any PJRT device.")
app.add_typer(evaluation, name="eval")
evaluation.command()(report)
app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(check)
app.command()(explain)
app.command()(mcp)
app.add_typer(kb, name="kb")
register_migrate(app)
out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)  # a pipe has no width of its own
set_by_user = {name: value for name, value in os.environ.items() if name.startswith("TORCHPORT_")}


def _torchport() -> Any:
    """The package, active: whoever types the command has asked for the device, so autoload's reserve does not apply."""
    os.environ.setdefault("TORCHPORT_DEVICE", "tpu")
    import torchport

    torchport.activate()
    return torchport


def _cell(value: Any) -> str:
    """Lists by commas, a dict of flags by those that are set."""
    if isinstance(value, dict):
        value = [name for name, is_set in value.items() if is_set]
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _table(rows: Iterable[dict[str, Any]], columns: tuple[str, ...], title: str | None = None) -> None:
    table = Table(title=title)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*(_cell(row.get(column, "")) for column in columns))
    out.print(table)


def _quit(message: str) -> typer.Exit:
    Console(stderr=True, soft_wrap=True).print(message, markup=False, highlight=False)
    return typer.Exit(2)


@app.command()
def ops(name: Annotated[str, typer.Argument(help="Part of a name, such as cumsum.")] = "") -> None:
    """List the ops that have a lowering, then what the conformance runs found for PyTorch's ops of that name."""
    from torchport import optable

    every, data = _torchport().ops(), optable.load()
    rows = [row for row in every if name in row["name"]]
    entries = optable.entries(data)
    found = [entry.row() for entry in entries if name in entry.name]
    if not rows and not found:
        raise _quit(f"[ops] must be part of the name of one of {len(every)} lowered ops, got {name!r}")
    _table(rows, ("name", "overloads", "file", "line"), f"{len(rows)} of {len(every)} lowered ops")
    title = f"{len(found)} of {len(entries)} ops against the CPU, torch {data['torch']}, {data['date']}; modes: f b o i"
    _table(found, tuple(entries[0].row()), title)
    for word in sorted({word for entry in entries if name in entry.name for word in entry.refusals}):
        out.print(f"{data['target']}: {word}", markup=False, highlight=False)


@app.command()
def devices() -> None:
    """List the platforms and where their plugins are, then the devices of the one in use."""
    package = _torchport()
    import torch

    _table(package.platforms(), ("name", "plugin", "priority", "install", "caps"), "platforms")
    name = torch._C._get_privateuse1_backend_name()
    module = torch.get_device_module(name)
    if not module.is_available():
        raise _quit("[devices] must find a plugin for a platform, got none (TP0300). Try: torchport explain TP0300")
    found = [module.get_device_properties(i) for i in range(module.device_count())]
    rows = [{**p._asdict(), "device": f"{name}:{p.index}"} for p in found]
    _table(rows, ("device", "name", "kind", "platform", "total_memory", "plugin", "version"), "devices")


@app.command()
def env() -> None:
    """List the environment variables and their present values."""
    rows = [{**row, "value": set_by_user.get(row["name"], "")} for row in _torchport().env_table()]
    _table(rows, ("name", "value", "fallback", "allowed", "meaning"))


@app.command()
def version() -> None:
    """Print the versions of TorchPort and torch."""
    import torch

    import torchport

    out.print(f"torchport {torchport.__version__}, torch {torch.__version__}", highlight=False)


if __name__ == "__main__":
    app()
