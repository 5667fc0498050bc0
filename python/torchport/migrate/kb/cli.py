"""`torchport kb`: search, add, show, import, export, serve."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from torchport.migrate.kb.entry import KINDS, Entry, make
from torchport.migrate.kb.ingest import ingest
from torchport.migrate.kb.serve import serve as serve_store
from torchport.migrate.kb.store import Store, default_path
from torchport.pages.page import write_whole

app = typer.Typer(no_args_is_help=True, help="The knowledge base: claims with source, date and evidence.")
_out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
_err = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
Db = Annotated[Path | None, typer.Option("--db", help="The file; by default in your data folder.")]
Kind = Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@contextmanager
def _store(db: Path | None) -> Iterator[Store]:
    """The base; every error that the user can mend becomes a line and exit code 2."""
    try:
        with Store(db or default_path()) as store:
            yield store
    except (ValueError, OSError, sqlite3.OperationalError, ModuleNotFoundError) as err:
        raise _quit(str(err)) from err
    except KeyError as err:
        raise _quit(err.args[0]) from err


def _quit(message: str, code: int = 2) -> typer.Exit:
    _err.print(message)
    return typer.Exit(code)


def _json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(help="Words or parts of words; an entry holds all of them.")],
    kind: Kind = "",
    limit: Annotated[int, typer.Option(help="At most so many.")] = 10,
    as_json: AsJson = False,
    db: Db = None,
) -> None:
    """Find entries, best first. Exit code 1 when there is none."""
    with _store(db) as store:
        found = store.search(" ".join(words), kind, limit)
    if as_json:
        _json([entry.as_dict() for entry in found])
    elif found:
        table = Table(show_lines=True)
        for name in ("id", "claim", "source", "date"):
            table.add_column(name, overflow="fold", ratio={"claim": 4, "source": 2}.get(name))
        for entry in found:
            table.add_row(entry.id, entry.claim, entry.source, entry.date)
        _out.print(table)
    if not found:
        raise _quit(f"no entry holds {' '.join(words)!r}, so there is no answer. Try: fewer words", 1)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="ID")], as_json: AsJson = False, db: Db = None) -> None:
    """Print one entry."""
    with _store(db) as store:
        entry = store.show(name)
    if as_json:
        _json(entry.as_dict())
        return
    for field, value in entry.as_dict().items():
        if value:
            _out.print(f"{field:9} {value}")


@app.command()
def add(
    claim: Annotated[str, typer.Argument(help="One statement that somebody can check.")],
    kind: Annotated[str, typer.Option(help=f"One of {', '.join(KINDS)}.")],
    source: Annotated[str, typer.Option(help="Where it can be read or seen: an address, a file, a command.")],
    date: Annotated[str, typer.Option(help="YYYY-MM-DD of the source; today by default.")] = "",
    versions: Annotated[str, typer.Option(help="Software and hardware that it holds for.")] = "",
    evidence: Annotated[str, typer.Option(help="Id of the run, file or hash that carries it.")] = "",
    keep_personal: Annotated[
        bool, typer.Option("--keep-personal", help="Store e-mail addresses, keys and home folders as they are.")
    ] = False,
    db: Db = None,
) -> None:
    """Add an entry; prints its id. Personal data and keys are taken out of it."""
    with _store(db) as store:
        entry = make(kind, claim, source, date=date, versions=versions, evidence=evidence, keep_personal=keep_personal)
        new = store.add([entry])
    if entry.claim != claim.strip() or entry.source != source.strip():
        _err.print("personal data or a key was taken out; torchport kb show prints what is stored")
    typer.echo(entry.id)
    if not new:
        _err.print("it was there already")


@app.command("import")
def import_(
    paths: Annotated[
        list[Path], typer.Argument(help="JSON of torchport scan, port, run or check, or an evaluation folder.")
    ],
    db: Db = None,
) -> None:
    """Add what result files say: findings, changes, measurements, decisions. Again adds nothing."""
    with _store(db) as store:
        for path in paths:
            found = ingest(path)
            typer.echo(f"{path}: {len(found)} entries, {store.add(found)} new")


@app.command()
def export(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; standard output by default.")] = None,
    form: Annotated[str, typer.Option("--format", help="json, csv or markdown.")] = "json",
    kind: Kind = "",
    own: Annotated[bool, typer.Option("--own", help="Without the entries that come with TorchPort.")] = False,
    db: Db = None,
) -> None:
    """Write the entries out."""
    writers = {"json": _as_json, "csv": _as_csv, "markdown": _as_markdown}
    if form not in writers:
        raise _quit(f"[kb export] format must be one of {', '.join(writers)}, got {form!r}")
    if kind and kind not in KINDS:
        raise _quit(f"[kb export] kind must be one of {', '.join(KINDS)}, got {kind!r}")
    with _store(db) as store:
        text = writers[form](store.entries(kind, with_shipped=not own))
        if output is None:
            typer.echo(text, nl=False)
            return
        write_whole(output, text)
    _err.print(f"{output}: written")


def _as_json(entries: list[Entry]) -> str:
    return json.dumps([entry.as_dict() for entry in entries], indent=1, ensure_ascii=False) + "\n"


def _as_csv(entries: list[Entry]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(Entry.__dataclass_fields__), lineterminator="\n")
    writer.writeheader()
    for entry in entries:
        # A cell that begins like a formula is text to a spreadsheet only with a quote before it (OWASP, CSV injection).
        writer.writerow({k: "'" + v if v[:1] in ("=", "+", "-", "@") else v for k, v in entry.as_dict().items()})
    return text.getvalue()


def _as_markdown(entries: list[Entry]) -> str:
    parts = ["# Knowledge base\n"]
    for entry in entries:
        more = "; ".join(f"{name} {value}" for name in ("versions", "evidence") if (value := getattr(entry, name)))
        parts.append(f"## {entry.id}\n\n{entry.claim}\n\n{entry.kind}, {entry.date}: {entry.source}; {more}\n")
    return "\n".join(parts)


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="An address of this machine's loopback.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free one.")] = 8801,
    db: Db = None,
) -> None:
    """Browse a read-only copy with Datasette, on this machine only, until Ctrl-C."""
    with _store(db) as store:
        code = serve_store(store, host, port)
    raise typer.Exit(code)
