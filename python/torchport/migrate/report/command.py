"""`torchport eval report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="The evaluation folder.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file to write.")],
    lang: Annotated[str, typer.Option(help="en or fr.")] = "en",
) -> None:
    """Write the report: one HTML page that needs no network, the decision first, each number linked to its evidence."""
    try:
        from torchport.migrate.evaluate import EvalError
        from torchport.migrate.report.build import build
        from torchport.pages import save

        try:
            save(output, build(folder, lang))
        except (EvalError, ValueError, OSError) as err:
            raise _quit(str(err)) from err
    except ModuleNotFoundError as err:
        raise _quit(
            f"[torchport eval report] must find {err.name}, got none. Try: pip install 'torchport[eval,report]'"
        ) from err
    typer.echo(f"wrote {output}")


def _quit(message: str) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(2)
