"""`torchport explain`."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from torchport.migrate import errors
from torchport.migrate.errors.answer import answers, as_code, codes

_err = Console(stderr=True, soft_wrap=True)


def explain(
    text: Annotated[
        str, typer.Argument(help="A code such as TP0103, an error message, or - to read a log from standard input.")
    ],
    every: Annotated[bool, typer.Option("--all", help="Every entry that matches, not the best one alone.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Say what an error of PyTorch, XLA, libtpu, Neuron or TorchPort means and what to do next, with its entry."""
    out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    if (code := as_code(text)) is not None:
        text = code
        if code not in codes():
            raise _quit(f"[explain] must be one of {', '.join(codes())}, got {code}")
    elif text == "-":
        text = sys.stdin.read()
    found = answers(text)
    if not found:
        raise _quit(
            f"[explain] must be a text that one of {len(errors.glossary())} messages of the glossary matches, got none. "
            "Try: the last lines of the log, whole; torchport kb search WORDS"
        )
    shown = found if every else found[:1]
    if as_json:
        typer.echo(json.dumps([answer.as_dict() for answer in shown], indent=1))
        return
    for answer in shown:
        own = codes().get(answer.entry.removeprefix("code/"))
        out.print(answer.entry + (f"  {own['name']}  ({own['raises']})" if own else ""))
        out.print(f"  words   {answer.words}")
        out.print(f"  cause   {answer.cause}")
        out.print(f"  next    {answer.next}")
        if answer.rules:
            out.print(f"  rules   {' '.join(answer.rules)}  (torchport kb show ID)")
        out.print(f"  source  {answer.source}, {answer.date}")
    if more := found[len(shown) :]:
        out.print(f"also: {' '.join(answer.entry for answer in more)}  (--all)")


def _quit(message: str) -> typer.Exit:
    _err.print(message, markup=False, highlight=False)
    return typer.Exit(2)
