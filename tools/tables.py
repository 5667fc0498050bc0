"""Write docs/ops.md, env.md, errors.md, devices.md and the error codes as data from the tables in the built extension.

--check only compares.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTE = "<!-- Written by `make docs` from {source}. Edit that, not this. -->"


def cell(value: object) -> str:
    """One Markdown cell: lists joined, bars escaped, absent as a dash."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text.replace("|", "\\|").replace("\n", " ") or "-"


def table(head: list[str], rows: Iterable[list[object]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows)])


def page(title: str, source: str, text: str, body: str) -> str:
    return "\n\n".join([f"# {title}", NOTE.format(source=source), text, body]) + "\n"


def ops_page(rows: list[dict]) -> str:
    families: dict[str, list[dict]] = {}
    for row in sorted(rows, key=lambda r: r["name"]):
        families.setdefault(Path(row["file"]).stem, []).append(row)
    overloads = len({name for row in rows for name in row["overloads"]})
    text = (
        f"{len(rows)} ops have a lowering, which serve {overloads} overloads: in-place and `out=` forms follow from the"
        " schema. Everything else runs on the CPU, counted in `torchport.report()`."
    )
    parts = [
        f"## {family}\n\n" + table(["op", "overloads"], ([f"`{r['name']}`", r["overloads"]] for r in members))
        for family, members in sorted(families.items())
    ]
    return page("Ops", "core/ops/*.cpp", text, "\n\n".join(parts))


def env_page(rows: list[dict]) -> str:
    body = table(
        ["variable", "default", "allowed", "meaning"],
        ([f"`{r['name']}`", r["fallback"], r["allowed"].replace("|", ", ") or "any", r["meaning"]] for r in rows),
    )
    text = "A value that is not allowed is an error (TP0340), never ignored."
    return page("Environment variables", "core/base/env.cpp", text, body)


def errors_page(rows: list[dict]) -> str:
    text = (
        "Every error reads `[where] must ..., got ... (code). Try: ...` and has the Python type that PyTorch raises on"
        " the CPU. Codes are stable. `torchport explain TP0103` prints one entry."
    )
    parts = [
        f"## {r['code']} {r['name']}\n\nRaises `{r['raises']}`. {r['cause']}\n\nCure: {r['cure']}"
        for r in sorted(rows, key=lambda r: r["code"])
    ]
    return page("Errors", "core/base/error.cpp", text, "\n\n".join(parts))


def devices_page(rows: list[dict]) -> str:
    rows = sorted(rows, key=lambda r: -r["priority"])
    plugins = table(
        ["name", "priority", "plugin, first that exists", "when missing"],
        ([f"`{r['name']}`", r["priority"], [f"`{p}`" for p in r["plugin"]], f"`{r['install']}`"] for r in rows),
    )
    caps = table(
        ["can", *(f"`{r['name']}`" for r in rows)], ([c, *(r["caps"][c] for r in rows)] for c in rows[0]["caps"])
    )
    skips = [f"- `{r['name']}` skips {test}: {reason}" for r in rows for test, reason in r["skips"]]
    text = (
        "What `TORCHPORT_PLATFORM` can name, besides `auto` (the highest priority whose hardware is present) and the path of"
        " a plugin. What each can do stands as its file declares it; the fields are explained in `core/pjrt/platform.h`."
    )
    return page("Devices", "core/devices/*.cpp", text, "\n\n".join([plugins, caps, *skips]))


def codes_file(rows: list[dict]) -> str:
    """The codes as JSON, for the parts that work without torch. date: when the codes got their present meaning."""
    keys = ("code", "name", "raises", "cause", "cure")
    codes = [{key: row[key] for key in keys} for row in sorted(rows, key=lambda r: r["code"])]
    data = {"source": "core/base/error.cpp", "date": "2026-11-30", "codes": codes}
    return json.dumps(data, indent=1) + "\n"


def pages() -> dict[str, str]:
    """Path from the root -> contents, from the extension."""
    import torch  # noqa: F401  (its libraries must be loaded before _C)

    from torchport import _C

    sources: dict[str, tuple[Callable[[list[dict]], str], Callable[[], list[dict]]]] = {
        "docs/ops.md": (ops_page, _C.ops),
        "docs/env.md": (env_page, _C.env_table),
        "docs/errors.md": (errors_page, _C.error_table),
        "docs/devices.md": (devices_page, _C.platforms),
        "python/torchport/migrate/errors/torchport.json": (codes_file, _C.error_table),
    }
    return {name: render(list(rows())) for name, (render, rows) in sources.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when a file differs, write nothing")
    check = parser.parse_args().check
    stale = []
    for name, text in pages().items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    if check and stale:
        print(f"[docs] must match the extension's tables, got other text in {', '.join(stale)}. Try: make docs")
        return 1
    print(f"docs: {len(stale)} files {'differ' if check else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
