"""Applies the rules to one Python module. Imports no torch."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import libcst as cst

from torchport.migrate import device_checks, loop_checks, shape_checks
from torchport.migrate.catalogue import Argument, Rule, any_of, catalogue
from torchport.migrate.module import TORCH_PACKAGES, Module, literal
from torchport.migrate.rewrites import Edit, edits_for
from torchport.migrate.text_scan import rules_of_package, shell_rules

CHECKS = {**device_checks.CHECKS, **loop_checks.CHECKS, **shape_checks.CHECKS}
SUBORDINATE = ("CU002", "CU004", "CU008")  # named only where no more telling rule speaks for the place
WORDS = re.compile(r"(?i)^(print|p?print|info|warn|warning|debug|error|critical|exception|log|echo|secho|fail|skip)$")
PROSE = re.compile(r"^(help|description|epilog|title|label|name|doc|reason|msg|message|id|ids)$")
PROCESS = re.compile(
    r"^(subprocess\.\w+|os\.(system|popen|exec\w+|spawn\w+)|shutil\.which|asyncio\.create_subprocess_\w+)$"
)


@dataclass
class Hit:
    """A rule met at a node, and the edits that would mend it."""

    rule: Rule
    node: cst.CSTNode
    what: str
    guarded: bool = False
    automatic: bool = False  # whether the edits mend all of it
    edits: list[Edit] = field(default_factory=list)


@cache
def _telling() -> re.Pattern[str]:
    """Words without which no rule can meet a module."""
    roots = {prefix.split(".")[0] for _, prefix in _imports()} | TORCH_PACKAGES | {"faiss"}
    tools = (
        "torch cuda cudnn nccl nvidia nvcc nvtop nvprof nsys ncu trt triton cuvid nvenc nvdec gptq awq exl2 cublas .cu"
    )
    return re.compile("|".join([*(rf"\b{root}\b" for root in roots), *map(re.escape, tools.split())]), re.IGNORECASE)


def may_match(source: str) -> bool:
    """Whether it is worth parsing a source: most files of a large tree know nothing of torch or CUDA."""
    return _telling().search(source) is not None


def scan_module(module: Module, folder: Path | None = None) -> list[Hit]:
    """All hits of a module in the order of the source; folder is where its neighbours lie, to tell a local `cuda.py`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python's own, about escapes in the strings that are looked at
        hits = [
            *(*_by_checks(module), *_by_import(module, folder), *_by_call(module)),
            *(*_by_name(module), *_by_string(module)),
        ]
    claims = {n: hit.rule.id for hit in hits for n in device_checks.claims_of(module, hit.rule.id, hit.node)}
    seen: set[tuple[str, cst.CSTNode]] = set()
    lines: dict[tuple[str, int], Hit] = {}
    for hit in hits:
        claimed = claims.get(hit.node, hit.rule.id) != hit.rule.id and hit.rule.id in SUBORDINATE
        if claimed or (hit.rule.id, hit.node) in seen:
            continue
        seen.add((hit.rule.id, hit.node))
        optional = isinstance(hit.node, cst.ImportFrom | cst.ImportAlias) and module.is_optional_import(hit.node)
        asks = hit.rule.id == "CU004"  # beside a flag in one test it is not the flag's to guard
        hit.guarded = module.is_guarded(_whole_test(module, hit.node) if asks else hit.node) or optional
        first = lines.setdefault((hit.rule.id, module.place(hit.node)[0]), hit)
        if first is not hit:  # several of one kind on a line are one finding
            first.automatic = first.automatic and hit.automatic
            first.edits += hit.edits
    found = sorted(lines.values(), key=lambda h: (*module.place(h.node), h.rule.id))
    _keep_tests_of_guarded_code(module, found)
    return found


def _hit(module: Module, rule: Rule, node: cst.CSTNode, what: str) -> Hit:
    edits = edits_for(module, rule, node)
    return Hit(rule, node, what, automatic=bool(edits), edits=edits)


def _keep_tests_of_guarded_code(module: Module, hits: list[Hit]) -> None:
    """A test stays as it is while code that only CUDA can run depends on it: a port of the test alone would let it in."""
    guarded = [hit.node for hit in hits if hit.guarded] + [n for n in _uses_of_imports(module) if module.is_guarded(n)]
    for hit in hits:
        if hit.guarded or (hit.rule.id == "CU004" or hit.what == "is_cuda") and _depends_on(module, hit.node, guarded):
            hit.edits, hit.automatic = [], False


def _depends_on(module: Module, test: cst.CSTNode, guarded: list[cst.CSTNode]) -> bool:
    """Whether one of the guarded places hangs on this test: in its branch, after its return, by the name it is given to."""
    kinds = cst.If | cst.IfExp | cst.While | cst.FunctionDef
    region = next((parent for parent in module.ancestors(test) if isinstance(parent, kinds)), module.tree)
    if isinstance(region, cst.If) and region.orelse is None and module.guards(region.test) < 0:
        region = next(
            (parent for parent in module.ancestors(region) if isinstance(parent, cst.FunctionDef)), module.tree
        )
    if any(isinstance(parent, cst.Assign | cst.NamedExpr | cst.AnnAssign) for parent in module.ancestors(test)):
        region = module.tree
    return any(module.lies_in(node, region) for node in guarded)


def _whole_test(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    for parent in module.ancestors(node):
        if not isinstance(parent, cst.BooleanOperation | cst.UnaryOperation | cst.Call):
            return node
        node = parent
    return node


def _uses_of_imports(module: Module) -> Iterable[cst.CSTNode]:
    """Names that come from a library of the catalogue."""
    for node in module.nodes:
        full = module.resolve(node) if isinstance(node, cst.Name) else None
        if full and any(full == prefix or full.startswith(prefix + ".") for _, prefix in _imports()):
            yield node


# ---- kinds of matching ---------------------------------------------------------------------------------------------


def _by_checks(module: Module) -> Iterable[Hit]:
    for rule in catalogue().rules:
        for name in rule.checks:
            for node, what in CHECKS[name](module):
                yield _hit(module, rule, node, what)


def _by_import(module: Module, folder: Path | None) -> Iterable[Hit]:
    for node in module.nodes:
        if isinstance(node, cst.Import):
            named = [(alias, [module.code(alias.name)]) for alias in node.names]
        elif isinstance(node, cst.ImportFrom) and node.module is not None and not node.relative:
            origin = module.code(node.module)
            names = [] if isinstance(node.names, cst.ImportStar) else [module.code(a.name) for a in node.names]
            named = [(node, [origin, *(f"{origin}.{name}" for name in names)])]
        else:
            continue
        for at, candidates in named:
            if folder is not None and _is_local(folder, candidates[0]):
                continue
            for rule, prefix in _imports():
                if any(c == prefix or c.startswith(prefix + ".") for c in candidates):
                    yield _hit(module, rule, at, f"import {prefix}")
                    break


def _is_local(folder: Path, name: str) -> bool:
    top = name.split(".")[0]
    return (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file()


@cache
def _imports() -> list[tuple[Rule, str]]:
    pairs = [(rule, prefix) for rule in catalogue().rules for prefix in rule.imports]
    return sorted(pairs, key=lambda pair: -len(pair[1]))


def _by_call(module: Module) -> Iterable[Hit]:
    for node in module.nodes:
        if not isinstance(node, cst.Call):
            continue
        full = module.resolve(node.func)
        method = node.func.attr.value if isinstance(node.func, cst.Attribute) else None
        if method is not None and (full is None or full.startswith("torch.")):
            yield from _by_method(module, node, method, full)
        for rule, spec in _arguments():
            if spec.call is not None and not (full and re.fullmatch(spec.call, full)):
                continue
            if spec.call is None and not (module.uses_torch or rule.id == "CU079"):
                continue
            if (found := _argument(node, spec)) is not None:
                yield _hit(
                    module,
                    rule,
                    found,
                    module.code(found)[:60].rstrip(", ") if found is not node else f"{full} without {spec.keyword}",
                )
        if full and PROCESS.match(full):
            yield from _by_command(module, node)


def _by_method(module: Module, node: cst.Call, method: str, full: str | None) -> Iterable[Hit]:
    if not module.uses_torch and method != "cuda":
        return
    for rule in _methods().get(method, ()):
        if full is None and not device_checks.is_other_library(module, node, method):
            yield _hit(module, rule, node, f".{method}()")
    for rule in catalogue().rules:
        for spec in rule.methods_args:
            if spec.method == method and full is None:
                for arg in node.args:
                    value = literal(arg.value)
                    if arg.keyword and arg.keyword.value == spec.keyword and any_of(spec.values).fullmatch(value or ""):
                        yield _hit(module, rule, arg, module.code(arg)[:60].rstrip(", "))


@cache
def _methods() -> dict[str, list[Rule]]:
    table: dict[str, list[Rule]] = {}
    for rule in catalogue().rules:
        for method in rule.methods:
            table.setdefault(method, []).append(rule)
    return table


@cache
def _arguments() -> list[tuple[Rule, Argument]]:
    return [(rule, spec) for rule in catalogue().rules for spec in rule.args]


def _argument(call: cst.Call, spec: Argument) -> cst.CSTNode | None:
    """The argument that spec means, or the call itself where spec looks for a missing one."""
    starred = any(arg.star for arg in call.args)
    positional = [arg for arg in call.args if arg.keyword is None and not arg.star]
    named = [arg for arg in call.args if arg.keyword is not None and re.fullmatch(spec.keyword, arg.keyword.value)]
    if spec.position is not None and spec.position < len(positional):
        named.append(positional[spec.position])
    if spec.missing:
        return call if not named and not starred else None
    for arg in named:
        value = literal(arg.value)
        if value is not None and any_of(spec.values).fullmatch(value):
            return arg
    return None


def _by_command(module: Module, call: cst.Call) -> Iterable[Hit]:
    """A command line handed to another process: the words of its first argument."""
    if not call.args:
        return
    first = call.args[0].value
    if isinstance(first, cst.List | cst.Tuple):
        words = " ".join(literal(e.value) or "_" for e in first.elements)
    elif isinstance(first, cst.FormattedString):
        words = "".join(p.value if isinstance(p, cst.FormattedStringText) else "_" for p in first.parts)
    else:
        words = literal(first) or ""
    for rule, text, _ in shell_rules(words):
        yield _hit(module, rule, call, text)


def _by_name(module: Module) -> Iterable[Hit]:
    for node in module.nodes:
        if not isinstance(node, cst.Name | cst.Attribute):
            continue
        parent = module.parents.get(node)
        if isinstance(parent, cst.Attribute):
            continue  # its longest chain is looked at
        if isinstance(node, cst.Attribute) and module.uses_torch:
            part: cst.CSTNode = node
            while isinstance(part, cst.Attribute):
                for rule in _attributes().get(part.attr.value, ()):
                    if module.resolve(part) is None:
                        yield _hit(module, rule, part, part.attr.value)
                part = part.value
        part = node
        while part is not None:
            if (full := module.resolve(part)) and (rule := rule_of_name(full)):
                if _is_use(module, part):
                    yield _hit(module, rule, part, full)
                break
            part = part.value if isinstance(part, cst.Attribute) else None


def _is_use(module: Module, node: cst.CSTNode) -> bool:
    """Whether a name is used: not imported, bound, the key of an argument, or the type of something."""
    parent = module.parents.get(node)
    if isinstance(parent, cst.ImportAlias | cst.ImportFrom | cst.AsName):
        return False
    if any(isinstance(above, cst.Annotation) for above in module.ancestors(node)):
        return False
    if isinstance(parent, cst.Arg) and parent.keyword is node:
        return False
    if isinstance(parent, cst.Param) and parent.name is node:
        return False
    return not (isinstance(parent, cst.AssignTarget) and isinstance(node, cst.Name))


@cache
def _attributes() -> dict[str, list[Rule]]:
    table: dict[str, list[Rule]] = {}
    for rule in catalogue().rules:
        for name in rule.attributes:
            table.setdefault(name, []).append(rule)
    return table


@cache
def rule_of_name(full: str) -> Rule | None:
    """The rule that names full; an exact name goes before `.*`, and the longest of several before the others."""
    best: tuple[tuple[bool, int], Rule] | None = None
    for rule in catalogue().rules:
        for pattern in rule.names:
            if re.fullmatch(pattern, full):
                rank = (not pattern.endswith(".*"), len(pattern))
                if best is None or rank > best[0]:
                    best = (rank, rule)
    return best[1] if best else None


def _by_string(module: Module) -> Iterable[Hit]:
    for node in module.nodes:
        if not isinstance(node, cst.SimpleString):
            continue
        value = literal(node)
        if not value or len(value) > 120 or is_prose(module, node):
            continue
        for rule in _required_package(module, node, value):
            yield _hit(module, rule, node, value)
        for rule in catalogue().rules:
            if (rule.env and any_of(rule.env).fullmatch(value)) or (
                rule.strings and any_of(rule.strings).fullmatch(value)
            ):
                yield _hit(module, rule, node, value)


def _required_package(module: Module, node: cst.CSTNode, value: str) -> Iterable[Rule]:
    """Rules of a requirement in the call of setup()."""
    inside = (p.keyword.value for p in module.ancestors(node) if isinstance(p, cst.Arg) and p.keyword is not None)
    if any(name in ("install_requires", "extras_require", "setup_requires") for name in inside):
        yield from rules_of_package(value)


def is_prose(module: Module, node: cst.CSTNode) -> bool:
    """Whether a string is there to be read: a docstring, a message, an exception's text, a help text."""
    child: cst.CSTNode = node
    for parent in module.ancestors(node):
        match parent:
            case cst.Expr() | cst.Raise() | cst.Assert():
                return True
            case cst.Arg(keyword=cst.Name(value=word)) if PROSE.match(word):
                return True
            case cst.Call():
                name = (
                    parent.func.attr.value
                    if isinstance(parent.func, cst.Attribute)
                    else getattr(parent.func, "value", "")
                )
                if isinstance(name, str) and child is not parent.func:
                    return bool(WORDS.match(name) or name.endswith(("Error", "Exception", "Warning")))
                return False
            case cst.BaseSmallStatement() | cst.BaseCompoundStatement() | cst.Comparison() | cst.Dict():
                return False
        child = parent
    return False
