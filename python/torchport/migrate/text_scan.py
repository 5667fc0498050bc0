"""Applies the rules to text that is not Python: shell, Dockerfiles, requirements, YAML, TOML, JSON. Imports no torch.

Line by line, because templates, compose files and CI steps are often no valid YAML by themselves, and because a place
is a line. Comments are taken off first; words meant to be read (echo, description) are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from torchport.migrate.catalogue import Rule, any_of, catalogue

KEY = re.compile(
    r"""(?P<indent>[ \t]*)(?P<dash>(?:-[ \t]+)*)(?P<key>"[^"]*"|'[^']*'|[\w./@-][\w./@ -]*?)[ \t]*(?P<sep>:(?=\s|$)|=)[ \t]*(?P<value>.*)"""
)
ITEM = re.compile(r"""(?P<indent>[ \t]*)(?:-[ \t]+)+(?P<value>.*)""")
PAIR = re.compile(r"""["']?([\w./-]+)["']?[ \t]*[:=][ \t]*(["']?)([^"',{}\[\]]*)\\2""".replace("\\\\", "\\"))
QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
PROSE_KEYS = re.compile(
    r"(?i)^(description|title|summary|help|comment|notes?|doc|documentation|keywords|classifiers|readme)$"
)
SAID = re.compile(r"^\s*@?(echo|printf|:)\b(?![^#]*(\||;|&&))")
INSTALL = re.compile(r"\b(?:pip3?|uv|conda|mamba|micromamba|poetry|pipx)\s+(?:pip\s+)?(?:install|add|create)\b(.*)")
REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)")
DEPENDENCIES = re.compile(r"(?i)(dependencies|requires|install_requires|pip|packages|optional-dependencies)$")


@dataclass
class TextHit:
    """A rule met on a line; with `new`, what stands from start to end can be replaced without a person."""

    rule: Rule
    line: int
    column: int
    what: str
    start: int = 0
    end: int = 0
    new: str | None = None


def scan_text(kind: str, text: str, device: str = "tpu") -> list[TextHit]:
    """Hits in a text of this kind: shell, docker, requirements, yaml, toml, json. device is written by rewrites."""
    scanners = {"shell": _shell, "docker": _docker, "requirements": _requirements}
    scanner = scanners[kind](text) if kind in scanners else _config(kind, text, device)
    hits: dict[tuple[str, int], TextHit] = {}
    for hit in scanner:
        hits.setdefault((hit.rule.id, hit.line), hit)
    return sorted(hits.values(), key=lambda h: (h.line, h.column, h.rule.id))


@cache
def _rules(field: str) -> list[tuple[Rule, re.Pattern[str]]]:
    return [(rule, any_of(getattr(rule, field))) for rule in catalogue().rules if getattr(rule, field)]


@cache
def _env_rules() -> list[tuple[Rule, re.Pattern[str]]]:
    return [(rule, re.compile(rf"(?<![\w.-])(?:{any_of(rule.env).pattern})(?!\w)")) for rule, _ in _rules("env")]


def shell_rules(text: str) -> Iterator[tuple[Rule, str, int]]:
    """Rules met in a command line: rule, the words, their offset."""
    for rule, pattern in _rules("shell"):
        if match := pattern.search(text):
            yield rule, match.group().strip(" ;&|"), match.start()


def _commands(text: str, line: int, offset: int = 0) -> Iterator[TextHit]:
    """Everything a command line can hold: tools and options, variables, packages to install."""
    if SAID.match(text):
        return
    for rule, words, at in shell_rules(text.strip()):
        yield TextHit(rule, line, offset + at + len(text) - len(text.lstrip()) + 1, words)
    for rule, pattern in _env_rules():
        if match := pattern.search(text):
            yield TextHit(rule, line, offset + match.start() + 1, match.group())
    if match := INSTALL.search(text):
        yield from _packages(match.group(1).split(), line, offset + match.start(1) + 1)


def rules_of_package(requirement: str) -> Iterator[Rule]:
    """Rules that name the package of a requirement such as `flash-attn>=2`."""
    if name := REQUIREMENT.match(requirement):
        normal = re.sub(r"[-_.]+", "-", name.group(1)).lower()
        yield from (rule for rule, pattern in _rules("packages") if pattern.fullmatch(normal))


def _packages(words: Iterable[str], line: int, column: int) -> Iterator[TextHit]:
    for word in words:
        bare = word.strip("\"'")
        if not bare.startswith("-"):
            yield from (TextHit(rule, line, column, bare) for rule in rules_of_package(bare))


def _uncomment(line: str) -> str:
    """The line without a comment that begins at a # outside quotes, after a blank or at the start."""
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c == "#" and (i == 0 or line[i - 1] in " \t"):
            return line[:i]
    return line


def _shell(text: str) -> Iterator[TextHit]:
    installs = False
    for number, line in enumerate(text.splitlines(), 1):
        code = line if line.startswith("#SBATCH") else _uncomment(line)
        yield from _commands(code, number)
        if installs and not INSTALL.search(code):
            yield from _packages(code.rstrip("\\ ").split(), number, 1)
        installs = code.rstrip().endswith("\\") and (installs or bool(INSTALL.search(code)))


def _docker(text: str) -> Iterator[TextHit]:
    kept = []
    for number, line in enumerate(text.splitlines(), 1):
        code = "" if line.lstrip().startswith("#") else line
        for rule, pattern in _rules("docker"):
            if match := pattern.match(code.strip()):
                yield TextHit(rule, number, 1, match.group())
        kept.append(
            "" if re.match(r"\s*(LABEL|MAINTAINER|FROM)\b", code) else re.sub(r"^\s*(RUN|CMD|ENTRYPOINT)\s+", "", code)
        )
    yield from _shell("\n".join(kept))


def _requirements(text: str) -> Iterator[TextHit]:
    for number, line in enumerate(text.splitlines(), 1):
        code = _uncomment(line).strip()
        if not code:
            continue
        for rule, pattern in _rules("requirements"):
            if pattern.fullmatch(code):
                yield TextHit(rule, number, 1, code)
        yield from _packages([code], number, 1)


# ---- YAML, TOML, JSON ------------------------------------------------------------------------------------------------


def _config(kind: str, text: str, device: str) -> Iterator[TextHit]:
    parents: list[tuple[int, str]] = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        code = line if kind == "json" else _uncomment(line)
        if kind == "toml" and (head := re.match(r"\s*\[+([^\]]+)\]+\s*$", code)):
            section = head.group(1)
            continue
        if not code.strip():
            continue
        match = KEY.match(code)
        if match and not (kind == "yaml" and match["sep"] == "=") and not (kind == "toml" and match["sep"] == ":"):
            key = match["key"].strip("\"'")
            indent = len(match["indent"]) + len(match["dash"])
            parents = [(i, k) for i, k in parents if i < indent]
            above = parents[-1][1] if parents else section
            yield from _setting(key, match["value"], number, match.start("value"), device)
            if DEPENDENCIES.search(above) and kind == "toml":
                yield from _packages([key], number, match.start("key") + 1)
            if DEPENDENCIES.search(key):
                yield from _packages(
                    [a or b for a, b in QUOTED.findall(match["value"])], number, match.start("value") + 1
                )
            if not match["value"].strip() or match["value"].strip() in ("[", "{", "|", ">", "|-", ">-"):
                parents.append((indent, key))
        else:
            yield from _element(code, parents, number, device)


def _element(code: str, parents: list[tuple[int, str]], number: int, device: str) -> Iterator[TextHit]:
    """A line without a key: an element of a list, or a line of a script in a block."""
    item = ITEM.match(code)
    value = item["value"] if item else code.strip()
    start = item.start("value") if item else len(code) - len(code.lstrip())
    key = parents[-1][1] if parents else ""
    if PROSE_KEYS.match(key):
        return
    bare = value.strip().rstrip(",").strip("\"'")
    if DEPENDENCIES.search(key):
        yield from _packages([bare], number, start + 1)
        for rule, pattern in _rules("requirements"):
            if pattern.fullmatch(bare):
                yield TextHit(rule, number, start + 1, bare)
    yield from _setting(key, value, number, start, device)


def _setting(key: str, raw: str, line: int, start: int, device: str) -> Iterator[TextHit]:
    """One `key: value`; the value may itself hold pairs ({a: b}) or a command."""
    if PROSE_KEYS.match(key):
        return
    value = raw.strip().rstrip(",").strip()
    if value.startswith(("{", "[")) and len(value) > 1:
        for rule, pattern in _rules("config"):
            if pattern.fullmatch(f"{key}: {value}"):
                yield TextHit(rule, line, start + 1, f"{key}: {value}")
        for pair in PAIR.finditer(value):
            yield from _setting(pair[1], pair[3], line, start + raw.index(value) + pair.start(3), device)
        for a, b in QUOTED.findall(value) if value.startswith("[") else ():
            yield from _commands(a or b, line, start)
        return
    quote = value[:1] if value[:1] in "\"'" and value[-1:] == value[:1] and len(value) > 1 else ""
    bare = value[1:-1] if quote else value
    at = start + raw.index(value) + len(quote) if value else start
    for rule, pattern in _rules("config"):
        if pattern.fullmatch(f"{key}: {bare}"):
            new = _new_value(rule, bare, device)
            yield TextHit(rule, line, at + 1, f"{key}: {bare}", at, at + len(bare), new)
    for rule, pattern in _rules("env"):
        if pattern.fullmatch(key) or (key in ("name", "key") and pattern.fullmatch(bare)):
            yield TextHit(rule, line, at + 1, key if pattern.fullmatch(key) else bare)
    if key != "name":
        yield from _commands(bare, line, at)


def _new_value(rule: Rule, value: str, device: str) -> str | None:
    """What an automatic rule writes in place of a value."""
    if rule.rewrite == "device_string" and re.fullmatch(r"cuda(:\d+)?", value):
        return value.replace("cuda", device)
    if rule.rewrite == "sdpa" and value.startswith("flash_attention"):
        return "sdpa"
    return None
