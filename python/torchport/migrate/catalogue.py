"""The catalogue of CUDA-isms: rules.toml, checked against its schema when it is read. Imports no torch."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

PATH = Path(__file__).with_name("rules.toml")

Effect = Literal["fails", "slow", "numerics", "operations"]
Effort = Literal["minutes", "hours", "rewrite"]
Set = Literal["port", "optimise"]
Automation = Literal["automatic", "suggested", "manual", "run-only"]
Standing = Literal["measured", "read", "excerpt", "known"]


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as err:
        raise ValueError(f"must be a regular expression, got {pattern!r}: {err}") from err
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
Name = Annotated[str, Field(min_length=1)]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Strict):
    """Where a fact comes from, and when it was read."""

    text: Name
    url: str | None = None
    date: date


class Argument(Strict):
    """An argument of a call: which call (any, if none is named), which argument, which values are meant."""

    call: Pattern | None = None
    keyword: Pattern
    position: int | None = None
    values: tuple[Pattern, ...] = ()
    missing: bool = False


class MethodArgument(Strict):
    method: Name
    keyword: Name
    values: tuple[Pattern, ...]


class Rule(Strict):
    """One entry of the catalogue; the head of rules.toml says what each field means."""

    id: Annotated[str, Field(pattern=r"^CU\d{3}$")]
    pattern: Name
    why: Name
    replacement: Name
    effect: Annotated[tuple[Effect, ...], Field(min_length=1)]
    effort: Effort
    set: Set
    automation: Automation
    source: Name
    standing: Standing
    names: tuple[Pattern, ...] = ()
    methods: tuple[Name, ...] = ()
    attributes: tuple[Name, ...] = ()
    imports: tuple[Name, ...] = ()
    args: tuple[Argument, ...] = ()
    methods_args: tuple[MethodArgument, ...] = ()
    strings: tuple[Pattern, ...] = ()
    checks: tuple[Name, ...] = ()
    env: tuple[Pattern, ...] = ()
    packages: tuple[Pattern, ...] = ()
    shell: tuple[Pattern, ...] = ()
    docker: tuple[Pattern, ...] = ()
    config: tuple[Pattern, ...] = ()
    requirements: tuple[Pattern, ...] = ()
    files: tuple[Pattern, ...] = ()
    rewrite: str | None = None
    rename: dict[str, str] = {}

    @model_validator(mode="after")
    def _consistent(self) -> Rule:
        if (self.automation == "automatic") != bool(self.rewrite or self.rename):
            raise ValueError(f"{self.id} must name a rewrite or a rename if and only if it is automatic")
        looked_for = (
            *(self.names, self.methods, self.attributes, self.imports, self.args, self.strings, self.checks),
            *(self.env, self.packages, self.shell, self.docker, self.config, self.requirements, self.files),
        )
        if not any(looked_for):
            raise ValueError(f"{self.id} must say what is looked for")
        return self


class Catalogue(Strict):
    """All rules, by id, with their sources."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    sources: dict[str, Source]
    rules: Annotated[tuple[Rule, ...], Field(alias="rule")]

    @model_validator(mode="after")
    def _complete(self) -> Catalogue:
        ids = [rule.id for rule in self.rules]
        expected = [f"CU{i:03}" for i in range(1, len(ids) + 1)]
        if ids != expected:
            wrong = next((got for got, want in zip(ids, expected, strict=True) if got != want), None)
            raise ValueError(f"ids must run from CU001 without a gap, got {wrong} out of order")
        for rule in self.rules:
            if rule.source not in self.sources:
                raise ValueError(f"{rule.id} must name one of the sources {sorted(self.sources)}, got {rule.source}")
        return self

    def __getitem__(self, rule: str) -> Rule:
        for candidate in self.rules:
            if candidate.id == rule:
                return candidate
        last = self.rules[-1].id
        raise KeyError(f"[catalogue] rule must be one of CU001 to {last}, got {rule}. Try: torchport rules")


def load(path: Path = PATH) -> Catalogue:
    """Reads and checks a catalogue; a pydantic.ValidationError names the field that is wrong."""
    return Catalogue.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


@cache
def catalogue() -> Catalogue:
    """The catalogue that ships with TorchPort, read once a process."""
    return load()


@cache
def any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for several; matches nothing where there are none."""
    flags = ""
    if patterns and all(p.startswith("(?i)") for p in patterns):
        flags, patterns = "(?i)", tuple(p.removeprefix("(?i)") for p in patterns)
    groups = (f"(?i:{p.removeprefix('(?i)')})" if p.startswith("(?i)") else f"(?:{p})" for p in patterns)
    return re.compile(flags + "|".join(groups) if patterns else r"(?!)")
