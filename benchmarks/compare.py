"""Prints the ratios head / base of two results of dispatch.py or models.py: `compare.py base.json head.json`.

Two figures a row: the device's own time, and its ratio to torch CPU, which the load of the machine moves less.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def load(path: Path) -> dict[str, Any]:
    """A result with rows, or SystemExit that says what the file is instead."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SystemExit(f"[compare] {path} must be a JSON result, got: {error}") from error
    if not isinstance(content, dict) or not content.get("rows"):
        raise SystemExit(f"[compare] {path} must hold rows, as dispatch.py and models.py write them")
    return content


def ratios(base: dict[str, Any], head: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each name in both results: head / base of times and of the ratios to torch CPU."""
    before = {row["name"]: row for row in base["rows"]}
    return [
        {
            "name": row["name"],
            "time": {k: row["device_us"][k] / before[row["name"]]["device_us"][k] for k in ("median", "min")},
            "to_cpu": {k: row["ratio"][k] / before[row["name"]]["ratio"][k] for k in ("median", "min")},
        }
        for row in head["rows"]
        if row["name"] in before
    ]


def main(argv: list[str] | None = None) -> int:
    """Shows the ratios; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("head", type=Path)
    options = parser.parse_args(argv)
    base, head = load(options.base), load(options.head)
    if base["benchmark"] != head["benchmark"]:
        raise SystemExit(f"[compare] must be one benchmark, got {base['benchmark']} and {head['benchmark']}")
    commits = f"{base['machine']['commit']} -> {head['machine']['commit']}"
    table = Table(title=f"{head['benchmark']}, head / base ({commits}); under 1 is faster")
    for column in ("", "time, median", "time, min", "ratio to cpu, median", "ratio to cpu, min"):
        table.add_column(column, justify="right" if column else "left")
    for row in ratios(base, head):
        figures = [row[what][kind] for what in ("time", "to_cpu") for kind in ("median", "min")]
        table.add_row(escape(row["name"]), *(f"{figure:.3f}" for figure in figures))
    console = Console()
    console.print(table)
    if base["machine"]["processor"] != head["machine"]["processor"]:
        console.print("the processors differ: only the ratios to cpu can be compared")
    return 0


if __name__ == "__main__":
    sys.exit(main())
