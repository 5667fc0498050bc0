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
    from torchport import optable

    data = optable.load()
    found = optable.entries(data)
    counts = {
        name: f"{part} of {whole} ({percent(part, whole)} %)" for name, (part, whole) in optable.totals(found).items()
    }
    overloads = len({name for row in rows for name in row["overloads"]})
    text = (
        f"{len(rows)} ops have a lowering, which serve {overloads} overloads: in-place and `out=` forms follow from the"
        " schema. Everything else runs on the CPU, counted in `torchport.report()`. `torchport ops NAME` prints the rows"
        " of a name."
    )
    samples = f"the first {data['samples']} samples" if data["samples"] else "all samples"
    measured = (
        f"## Against the CPU\n\nRun of {data['date']} with torch {data['torch']}, {samples} of each op of PyTorch's op"
        f" database, dtype and mode ({', '.join(optable.MODES)}, shortened to their first letters). Cases that agree:"
        f" {counts['agree']}. Ops without a fallback to the CPU: {counts['no_fallback']}. Wrong calls that raise the CPU's"
        f" type: {counts['wrong_calls']}. Cases whose programs compile for {data['target'] or 'a target'} without the"
        f" machine ({data['plugin'] or 'no compiler'}): {counts['compile']}."
    )
    tolerances = table(["dtype", "rtol", "atol"], ([name, *tol] for name, tol in data["tolerances"].items()))
    looser = table(["op", "rtol and atol", "why"], ([name, *entry] for name, entry in data["looser"].items()))
    refusals = [[e.name, e.where("n", e.target), word] for e in found for word in e.refusals]
    parts = [
        measured,
        "Tolerances; other dtypes must be equal:",
        tolerances,
        *([looser] if data["looser"] else []),
        table([name.replace("_", " ") for name in found[0].row()], (entry.row().values() for entry in found)),
        *(["Refused by the compiler, in its words:", table(["op", "cases", "words"], refusals)] if refusals else []),
        "## Lowerings",
        *families(rows),
    ]
    return page("Ops", "core/ops/*.cpp and python/torchport/ops.json (a conformance run)", text, "\n\n".join(parts))


def percent(part: int, whole: int) -> str:
    """One decimal, rounded down."""
    return f"{int(1000 * part / whole) / 10:.1f}" if whole else "-"


def families(rows: list[dict]) -> list[str]:
    """The lowerings by the file that has them."""
    found: dict[str, list[dict]] = {}
    for row in sorted(rows, key=lambda r: r["name"]):
        found.setdefault(Path(row["file"]).stem, []).append(row)
    return [
        f"### {family}\n\n" + table(["op", "overloads"], ([f"`{r['name']}`", r["overloads"]] for r in members))
        for family, members in sorted(found.items())
    ]


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
        "docs/devices.md": (devices_page, lambda: filter(is_file_of_devices, _C.platforms())),
        "python/torchport/migrate/errors/torchport.json": (codes_file, _C.error_table),
    }
    return {name: render(list(rows())) for name, (render, rows) in sources.items()}


def is_file_of_devices(platform: dict) -> bool:
    """Whether core/devices knows the platform; others are plugins that this machine's packages announce."""
    return (ROOT / "core" / "devices" / f"{platform['name']}.cpp").exists()


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
