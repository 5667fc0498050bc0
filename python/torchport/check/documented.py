"""What the documentation of a compiler that is not here says it refuses, looked for in the programs of a step."""

from __future__ import annotations

import datetime
import functools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources

from pydantic import BaseModel, ConfigDict, Field, HttpUrl

from torchport.check.targets import Target


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Page(_Strict):
    """Where the rules were read, and when the page was written."""

    title: str
    url: HttpUrl
    date: datetime.date


class Rule(_Strict):
    """One refusal, by a pattern of StableHLO text."""

    platform: str
    code: str
    pattern: str
    what: str
    advice: str
    chips: tuple[str, ...] = ()


class Rules(_Strict):
    """The whole of documented.toml."""

    schema_version: int = Field(alias="schema")
    source: Page
    rule: tuple[Rule, ...]


@functools.cache
def rules() -> Rules:
    """documented.toml, read and checked."""
    text = resources.files("torchport.check").joinpath("documented.toml").read_text(encoding="utf-8")
    return Rules.model_validate(tomllib.loads(text))


@dataclass(frozen=True)
class Refusal:
    """A rule and the names and Python lines of the programs that meet it."""

    rule: Rule
    names: tuple[str, ...]
    lines: tuple[str, ...]


def refusals(wanted: Target, programs: Iterable[tuple[str, str, str]]) -> list[Refusal]:
    """Rules of the target's chip that some program meets; programs: name, Python line, StableHLO text."""
    listed = list(programs)
    found = []
    for rule in rules().rule:
        if rule.platform != wanted.chip.platform or (rule.chips and wanted.chip_name not in rule.chips):
            continue
        pattern = re.compile(rule.pattern, re.MULTILINE)
        met = [(name, line) for name, line, text in listed if pattern.search(text)]
        if met:
            names = tuple(dict.fromkeys(name for name, _ in met))
            found.append(Refusal(rule, names, tuple(dict.fromkeys(line for _, line in met if line))))
    return found
