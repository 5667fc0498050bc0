"""The entries that come with TorchPort. Each is derived from the data file that holds the fact; nothing is written twice."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from torchport.migrate import errors
from torchport.migrate.kb.entry import Entry
from torchport.pages.page import needs

TARGETS = Path(errors.__file__).parents[2] / "check" / "targets.toml"
# Written by `make docs` from core/base/error.cpp, so that the codes can be read without torch.
CODES = Path(errors.__file__).with_name("torchport.json")


@cache
def entries() -> tuple[Entry, ...]:
    """The catalogue's rules, the error glossary, TorchPort's own codes, the facts on chips."""
    found = (*_rules(), *_glossary(), *_codes(), *_chips())
    if len({entry.id for entry in found}) != len(found):
        raise ValueError("[kb] shipped ids must be distinct")
    return found


@cache
def digest() -> str:
    """Changes when a shipped entry does."""
    return hashlib.sha256(json.dumps([entry.as_dict() for entry in entries()]).encode()).hexdigest()


def _rules() -> Iterator[Entry]:
    needs("pydantic", "kb")
    from torchport.migrate.catalogue import catalogue

    known = catalogue()
    for rule in known.rules:
        source = known.sources[rule.source]
        claim = (
            f"{rule.pattern}: {rule.why} Instead: {rule.replacement}. Effect: {', '.join(rule.effect)}; "
            f"effort: {rule.effort}; {rule.set} set; {rule.automation}; known by: {rule.standing}."
        )
        place = source.url or source.text
        yield Entry(f"rule/{rule.id}", "fact", claim, place, source.date.isoformat(), source.text, "")


def _glossary() -> Iterator[Entry]:
    for known in errors.glossary():
        claim = f"Message /{known.pattern.pattern}/: {known.cause} Next: {known.next}"
        prevents = " ".join(f"rule/{rule}" for rule in known.rules)
        yield Entry(known.entry, "error", claim, known.source, known.date, known.versions, prevents)


def _codes() -> Iterator[Entry]:
    data = json.loads(CODES.read_text(encoding="utf-8"))
    for row in data["codes"]:
        claim = f"{row['code']} {row['name']} ({row['raises']}): {row['cause']} Next: {row['cure']}"
        yield Entry(f"code/{row['code']}", "error", claim, data["source"], data["date"], "torchport", "")


def _chips() -> Iterator[Entry]:
    """From the table of `torchport check`, where that part is installed. Read as data: its code needs torch."""
    if not TARGETS.is_file():
        return
    known = tomllib.loads(TARGETS.read_text(encoding="utf-8"))
    for name, chip in known["chip"].items():
        facts = {"memory": (chip["hbm"], 2**30, "GiB"), "bandwidth": (chip["bandwidth"], 1e12, "TB/s")}
        facts |= {f"peak-{dtype}": (fact, 1e12, "TFLOP/s") for dtype, fact in chip["peak"].items()}
        if link := chip.get("link"):
            facts["link"] = (link, 1e9, f"GB/s a link one way, {link['axes']} axes")
        for what, (fact, unit, name_of_unit) in facts.items():
            claim = f"{chip['title']}: {what.replace('-', ' ')} {fact['value'] / unit:.6g} {name_of_unit} per chip."
            yield _chip(f"chip/{name}/{what}", claim, known["source"][fact["source"]])
        for number, price in enumerate(chip.get("price", ())):
            claim = f"{chip['title']}: {price['usd']:.2f} USD per chip and hour, {price['kind']}, {price['region']}."
            yield _chip(f"chip/{name}/price-{number}", claim, known["source"][price["source"]])


def _chip(name: str, claim: str, source: dict[str, Any]) -> Entry:
    return Entry(name, "fact", claim, source["url"], source["date"].isoformat(), source["title"])
