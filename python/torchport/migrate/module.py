"""One Python module as the rules see it: its tree, what each name stands for, and which branches are guarded.

One walk over the tree records parents, scopes and imports; everything else is looked up. Names are resolved through
imports (`import torch.cuda as C`, `from torch import cuda`), plain aliases (`amp = torch.cuda.amp`) and scopes, so a
parameter that happens to be called torch stands for nothing. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

# Whoever imports one of these handles tensors, even without the word torch.
TORCH_PACKAGES = frozenset(
    [
        "torch",
        "torchvision",
        "torchaudio",
        "transformers",
        "accelerate",
        "diffusers",
        "lightning",
        "pytorch_lightning",
        "peft",
        "trl",
    ]
)
FLAG = re.compile(
    r"(?i)^_*(no_?)?((use|has|have|is|with|enable|on|want)_?\w*)?(cuda|gpu|nccl|flash_attn\w*|triton|apex|xformers)(_?\w*available)?$"
)
CUDA_WORD = re.compile(r"^(cuda(:\d+)?|nccl|gpu)$")
_LEAVES = (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Comma, cst.Dot, cst.Semicolon)


@dataclass
class Scope:
    """The names of a module, class or function: what they were imported as, or that they are bound to something else."""

    parent: Scope | None
    is_class: bool = False
    imports: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, cst.BaseExpression] = field(default_factory=dict)
    bound: dict[str, int] = field(default_factory=dict)

    def bind(self, name: str) -> None:
        self.bound[name] = self.bound.get(name, 0) + 1


class _Collector(cst.CSTVisitor):
    """The one walk: parents, scopes, and nodes in the order of the source."""

    def __init__(self) -> None:
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.scopes: dict[cst.CSTNode, Scope] = {}
        self.nodes: list[cst.CSTNode] = []
        self.spans: dict[cst.CSTNode, tuple[int, int]] = {}
        self.top = Scope(None)
        self.modules: set[str] = set()
        self.always: dict[str, str] = {}  # imports of the top that no branch and no try stands around
        self._stack: list[cst.CSTNode] = []
        self._scope = [self.top]

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _LEAVES):
            return False
        if self._stack:
            self.parents[node] = self._stack[-1]
        self._stack.append(node)
        self.spans[node] = (len(self.nodes), -1)
        self.nodes.append(node)
        self.scopes[node] = self._scope[-1]
        self._record(node)
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            self._scope.append(Scope(self._scope[-1], isinstance(node, cst.ClassDef)))
        return True

    def on_leave(self, node: cst.CSTNode) -> None:
        if isinstance(node, _LEAVES):
            return
        self._stack.pop()
        self.spans[node] = (self.spans[node][0], len(self.nodes))
        if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            self._scope.pop()

    def _record(self, node: cst.CSTNode) -> None:
        scope = self._scope[-1]
        match node:
            case cst.Import():
                for alias in node.names:
                    name = dotted(alias.name) or ""
                    self.modules.add(name)
                    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                        self._import(alias.asname.name.value, name)
                    else:
                        self._import(name.split(".")[0], name.split(".")[0])
            case cst.ImportFrom() if not isinstance(node.names, cst.ImportStar):
                origin = "." * len(node.relative) + (dotted(node.module) or "" if node.module else "")
                self.modules.add(origin)
                for alias in node.names:
                    bound = alias.asname.name if alias.asname is not None else alias.name
                    if isinstance(bound, cst.Name):
                        self._import(bound.value, f"{origin}.{dotted(alias.name)}")
            case cst.FunctionDef() | cst.ClassDef():
                scope.bind(node.name.value)
            case cst.Param():
                scope.bind(node.name.value)
            case cst.Assign():
                for target in node.targets:
                    self._bind_target(target.target)
                if len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name) and dotted(node.value):
                    scope.aliases[node.targets[0].target.value] = node.value
            case cst.AnnAssign() | cst.AugAssign() | cst.NamedExpr() | cst.For():
                self._bind_target(node.target)
            case cst.AsName():
                if not isinstance(self._stack[-2] if len(self._stack) > 1 else None, cst.ImportAlias):
                    self._bind_target(node.name)

    def _import(self, name: str, full: str) -> None:
        self._scope[-1].imports[name] = full
        if len(self._stack) == 3:  # module, line, import
            self.always[name] = full

    def _bind_target(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self._scope[-1].bind(target.value)
        elif isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._bind_target(element.value)


def dotted(node: cst.CSTNode | None) -> str | None:
    """a.b.c as it is written, or None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        head = dotted(node.value)
        return head and f"{head}.{node.attr.value}"
    return None


def literal(node: cst.CSTNode | None) -> str | None:
    """The value of a plain string, the spelling of a number, True, False or None; None for anything else."""
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    if isinstance(node, cst.Integer | cst.Float):
        return node.value
    if isinstance(node, cst.Name) and node.value in ("True", "False", "None"):
        return node.value
    return None


class Module:
    """A parsed module; raises libcst.ParserSyntaxError where the source is not Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = source.splitlines()
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self.tree = wrapper.module
        self._positions = wrapper.resolve(PositionProvider)
        collector = _Collector()
        self.tree.visit(collector)
        self.parents, self.scopes, self.nodes = collector.parents, collector.scopes, collector.nodes
        self.top, self._spans, self._always = collector.top, collector.spans, collector.always
        roots = {name.split(".")[0] for name in collector.modules}
        self.modules = collector.modules
        self.uses_torch = bool(roots & TORCH_PACKAGES)
        self._resolved: dict[cst.CSTNode, str | None] = {}
        self._guarded: dict[cst.CSTNode, bool] = {}
        self._guard_names: set[str] | None = None

    # ---- places ------------------------------------------------------------------------------------------------------

    def place(self, node: cst.CSTNode) -> tuple[int, int]:
        """Line and column, from 1. A method is where its name is, not where its receiver begins."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.func.attr if dotted(node.func) is None else node.func
        start = self._positions[node].start
        return start.line, start.column + 1

    def end_line(self, node: cst.CSTNode) -> int:
        return self._positions[node].end.line

    def code(self, node: cst.CSTNode) -> str:
        return self.tree.code_for_node(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Parents, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def within(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """All nodes below this one, in the order of the source."""
        start, end = self._spans[node]
        return self.nodes[start + 1 : end]

    def lies_in(self, node: cst.CSTNode, outer: cst.CSTNode) -> bool:
        """Whether node lies below outer."""
        start, end = self._spans[outer]
        return start < self._spans[node][0] < end

    def statement(self, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
        """The line's statement, where it is the only one on its line."""
        for parent in (node, *self.ancestors(node)):
            if isinstance(parent, cst.SimpleStatementLine):
                return parent if len(parent.body) == 1 else None
        return None

    # ---- names -------------------------------------------------------------------------------------------------------

    def resolve(self, node: cst.CSTNode | None) -> str | None:
        """The full name that an expression stands for, such as torch.cuda.synchronize, if imports give it one."""
        if not isinstance(node, cst.Name | cst.Attribute):
            return None
        if node not in self._resolved:
            self._resolved[node] = None  # what an alias of itself gives
            if isinstance(node, cst.Name):
                self._resolved[node] = self._look_up(node.value, self.scopes.get(node))
            elif (head := self.resolve(node.value)) is not None:
                self._resolved[node] = f"{head}.{node.attr.value}"
        return self._resolved[node]

    def _look_up(self, name: str, scope: Scope | None) -> str | None:
        innermost = scope
        while scope is not None:
            if scope is innermost or not scope.is_class:
                if name in scope.imports:
                    return scope.imports[name]
                if name in scope.aliases and scope.bound.get(name) == 1:
                    return self.resolve(scope.aliases[name])
                if name in scope.bound:
                    return None
            scope = scope.parent
        return None

    @property
    def torch(self) -> str | None:
        """What `torch` is called in the module, or None where it is not always imported at its top."""
        return next((name for name, full in self._always.items() if full == "torch"), None)

    @property
    def imports_torch(self) -> bool:
        """Whether the module always imports torch or a part of it, so that another import of it costs nothing."""
        return any(full == "torch" or full.startswith("torch.") for full in self._always.values())

    # ---- guards ------------------------------------------------------------------------------------------------------

    def guards(self, test: cst.CSTNode) -> int:
        """+1 if the test holds on CUDA alone, -1 if it holds only elsewhere, 0 if it says nothing about the device."""
        match test:
            case cst.UnaryOperation(operator=cst.Not()):
                return -self.guards(test.expression)
            case cst.BooleanOperation():
                sides = (self.guards(test.left), self.guards(test.right))
                if isinstance(test.operator, cst.And):
                    return 1 if 1 in sides else min(sides)
                return -1 if -1 in sides else (1 if sides == (1, 1) else 0)
            case cst.Comparison(comparisons=[only]):
                return self._compares(test.left, only)
            case cst.Call(func=cst.Attribute(attr=cst.Name(value="startswith"))) if test.args:
                return int((literal(test.args[0].value) or "").startswith(("cuda", "nccl")))
            case cst.Call():
                return self._names_cuda(test.func)
            case cst.Name() | cst.Attribute():
                return self._names_cuda(test)
            case cst.NamedExpr():
                return self.guards(test.value)
        return 0

    def _compares(self, left: cst.BaseExpression, target: cst.ComparisonTarget) -> int:
        right = target.comparator
        words = [literal(left), literal(right)]
        if isinstance(right, cst.Tuple | cst.List | cst.Set) and isinstance(target.operator, cst.In | cst.NotIn):
            words += [literal(e.value) for e in right.elements]
        known = any(word and CUDA_WORD.match(word) for word in words)
        if "None" in words and self.resolve(left) == "torch.version.cuda":
            return 1 if isinstance(target.operator, cst.IsNot | cst.NotEqual) else -1
        if not known:
            return 0
        return -1 if isinstance(target.operator, cst.NotEqual | cst.NotIn) else 1

    def _names_cuda(self, node: cst.BaseExpression) -> int:
        if self.resolve(node) in ("torch.cuda.is_available", "torch.version.cuda"):
            return 1
        text = dotted(node)
        last = node.attr.value if isinstance(node, cst.Attribute) else text
        if last is None:
            return 0
        if FLAG.match(last) and not (self.resolve(node) or "").startswith(("torch.", "numba.")):
            return -1 if last.lower().lstrip("_").startswith("no") else 1
        return int(text in self.guard_names)

    @property
    def guard_names(self) -> set[str]:
        """Names that were given the answer of a guard, such as `fast = torch.cuda.is_available()`."""
        if self._guard_names is None:
            self._guard_names = set()  # what the guards of the next lines ask for
            assigned = [node for node in self.nodes if isinstance(node, cst.Assign) and len(node.targets) == 1]
            names = {dotted(node.targets[0].target) for node in assigned if self.guards(node.value) == 1}
            self._guard_names = {name for name in names if name is not None}
        return self._guard_names

    def is_guarded(self, node: cst.CSTNode) -> bool:
        """Whether only CUDA gets here: a branch, the right of an `and`, the rest after an early return."""
        if node in self._guarded:
            return self._guarded[node]
        parent = self.parents.get(node)
        answer = parent is not None and (self._guards_child(parent, node) or self.is_guarded(parent))
        self._guarded[node] = answer
        return answer

    def _guards_child(self, parent: cst.CSTNode, child: cst.CSTNode) -> bool:
        match parent:
            case cst.If() | cst.IfExp():
                kind = self.guards(parent.test)
                return (kind > 0 and child is parent.body) or (kind < 0 and child is parent.orelse)
            case cst.While():
                return child is parent.body and self.guards(parent.test) > 0
            case cst.BooleanOperation():
                kind = self.guards(parent.left)
                return child is parent.right and (kind > 0 if isinstance(parent.operator, cst.And) else kind < 0)
            case cst.FunctionDef() | cst.ClassDef():
                return child is parent.body and any(self._skips(d.decorator) for d in parent.decorators)
            case cst.IndentedBlock():
                return self._after_early_return(parent, child)
        return False

    def _skips(self, decorator: cst.BaseExpression) -> bool:
        """@skipif(not torch.cuda.is_available()), @skipUnless(torch.cuda.is_available()), @require_cuda and the like."""
        if not isinstance(decorator, cst.Call):
            name = (dotted(decorator) or "").split(".")[-1]
            return bool(re.match(r"(require|only|skip_?(if|unless))\w*(cuda|gpu)", name, re.IGNORECASE))
        name = (dotted(decorator.func) or "").split(".")[-1].lower()
        if "skip" not in name or not decorator.args:
            return bool(re.match(r"(require|only)\w*(cuda|gpu)", name))
        kind = self.guards(decorator.args[0].value)
        return kind > 0 if "unless" in name else kind < 0

    def _after_early_return(self, block: cst.IndentedBlock, child: cst.CSTNode) -> bool:
        for statement in block.body:
            if statement is child:
                return False
            if isinstance(statement, cst.If) and statement.orelse is None and self.guards(statement.test) < 0:
                last = statement.body.body[-1] if statement.body.body else None
                if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return | cst.Continue):
                    return True
        return False

    def is_optional_import(self, node: cst.CSTNode) -> bool:
        """Whether an import stands in a `try` that goes on without it."""
        for parent in self.ancestors(node):
            if isinstance(parent, cst.Try) and any(
                re.search(r"ImportError|ModuleNotFoundError|^$|Exception", self.code(h.type) if h.type else "")
                for h in parent.handlers
            ):
                return self.lies_in(node, parent.body)
        return False
