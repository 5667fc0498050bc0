"""The commands scan, port, run and rules of `torchport`."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.syntax import Syntax

out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200)  # a pipe has no width of its own
err = Console(stderr=True, soft_wrap=True)

PathArgument = Annotated[Path, typer.Argument(help="A file or a folder.")]


class Format(StrEnum):
    """How findings are written."""

    table = "table"
    json = "json"
    sarif = "sarif"


def register(app: typer.Typer) -> None:
    """Adds the commands to the command line."""
    app.command()(scan)
    app.command()(port)
    app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
    )(run)
    app.command()(rules)


def _quit(message: object) -> typer.Exit:
    err.print(str(message), markup=False, highlight=False)
    return typer.Exit(2)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        sys.stdout.write(text)
        return
    from torchport.migrate import write_atomically

    if not output.parent.is_dir():
        raise _quit(f"[--output] must be in a folder that exists, got {output}. Try: mkdir -p {output.parent}")
    write_atomically(output, text)


def _watch(status: Status) -> Any:
    return lambda name: status.update(name)


def _warn_unread(unread: list[Any]) -> None:
    for file in unread:
        err.print(f"not read: {file.path}: {file.reason}", markup=False, highlight=False)


def scan(
    path: PathArgument = Path(),
    format: Annotated[Format, typer.Option(help="How the findings are written.")] = Format.table,
    output: Annotated[Path | None, typer.Option(help="The file to write to; without it, the screen.")] = None,
    guarded: Annotated[bool, typer.Option(help="Show places that only CUDA reaches, too.")] = True,
    seen_in: Annotated[
        Path | None, typer.Option(help="The log of a torchport run in this folder: what it met counts as verified.")
    ] = None,
    fail: Annotated[
        bool, typer.Option("--fail", help="Exit with 1 if anything of the port set is found, for CI.")
    ] = False,
) -> None:
    """Find what ties code to CUDA: Python, notebooks, YAML, TOML, JSON, shell, Dockerfiles, requirements."""
    import torchport
    from torchport import migrate
    from torchport.migrate import output as writers

    try:
        with err.status("scanning") as status:
            result = migrate.scan_tree(path, _watch(status))
        if seen_in is not None:
            result = migrate.verified(result, seen_in.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _quit(error) from error
    if not guarded:
        result = result.model_copy(update={"findings": [f for f in result.findings if not f.guarded]})
    if format is Format.json:
        _write(result.model_dump_json(indent=2) + "\n", output)
    elif format is Format.sarif:
        _write(json.dumps(writers.sarif(result, torchport.__version__), indent=2) + "\n", output)
    elif output is not None:
        raise _quit("[--output] must go with --format json or --format sarif, got a table")
    else:
        writers.table(result.findings, out)
    _warn_unread(result.unread)
    if fail and any(f.set == "port" and not f.guarded for f in result.findings):
        raise typer.Exit(1)


def port(
    path: PathArgument,
    apply: Annotated[bool, typer.Option("--apply", help="Write the files; without it only the diff is shown.")] = False,
    device: Annotated[str, typer.Option(help="The device name that configuration files get.")] = "tpu",
    log: Annotated[Path | None, typer.Option(help="Write the change log, with what stays by hand, as JSON.")] = None,
) -> None:
    """Rewrite what is automatic. Shows a unified diff; --apply writes it."""
    from torchport import migrate
    from torchport.migrate import output as writers

    try:
        with err.status("rewriting") as status:
            result = migrate.port(path, apply, device, _watch(status))
    except (FileNotFoundError, ValueError) as error:
        raise _quit(error) from error
    except OSError as error:
        raise _quit(
            f"[port] must be able to write below {path}, got {error.strerror}: {error.filename}. "
            "Every file is whole, old or new. Try: mend that and run the same command again"
        ) from error
    if sys.stdout.isatty() and result.diff:
        out.print(Syntax(result.diff, "diff", background_color="default"))
    else:
        sys.stdout.write(result.diff)
    if log is not None:
        _write(result.model_dump_json(indent=2) + "\n", log)
    _warn_unread(result.unread)
    for f in result.by_hand:
        how = "guarded" if f.guarded else f.effort
        err.print(f"by hand: {f.place}: {f.rule} {f.what} ({how}): {f.replacement}", markup=False, highlight=False)
    err.print(writers.port_summary(result), markup=False, highlight=False)
    if result.files and not apply:
        err.print("nothing was written; --apply writes it", markup=False, highlight=False)


def run(
    context: typer.Context,
    script: Annotated[str, typer.Argument(help="A Python script written for CUDA. Its own arguments follow.")],
    module: Annotated[
        bool, typer.Option("--module", "-m", help="SCRIPT is the name of a module, as for python -m: uvicorn, pytest.")
    ] = False,
    log: Annotated[Path | None, typer.Option(help="Write the redirections as JSON.")] = None,
) -> None:
    """Run CUDA-flavoured code unmodified on the device; each redirection is a change still owed."""
    if not module and not Path(script).is_file():
        raise _quit(f"[run] must be a Python script that exists, got {script}")
    if log is not None and not log.parent.is_dir():
        raise _quit(f"[--log] must be in a folder that exists, got {log}. Try: mkdir -p {log.parent}")
    from torchport.migrate.redirect import run_script

    raise typer.Exit(run_script(script, context.args, log, module))


def rules(rule: Annotated[str, typer.Argument(help="An id such as CU016; without it, all.")] = "") -> None:
    """List the catalogue of what ties code to CUDA, or explain one rule with its source."""
    from rich.table import Table

    from torchport.migrate.catalogue import catalogue

    known = catalogue()
    if rule:
        try:
            entry = known[rule.upper()]
        except KeyError as error:
            raise _quit(error.args[0]) from error
        source = known.sources[entry.source]
        for name in ("id", "pattern", "why", "replacement", "effort", "set", "automation"):
            out.print(f"{name:12} {getattr(entry, name)}", markup=False, highlight=False)
        out.print(f"{'effect':12} {', '.join(entry.effect)}", markup=False, highlight=False)
        where = f" {source.url}" if source.url else ""
        out.print(f"{'source':12} {source.text}, {source.date}, {entry.standing}{where}", markup=False, highlight=False)
        return
    rows = Table(title=f"{len(known.rules)} rules")
    for column in ("id", "pattern", "effect", "effort", "set", "automation"):
        rows.add_column(column, no_wrap=column == "id", overflow="fold")
    for entry in known.rules:
        rows.add_row(entry.id, entry.pattern, ", ".join(entry.effect), entry.effort, entry.set, entry.automation)
    out.print(rows)
