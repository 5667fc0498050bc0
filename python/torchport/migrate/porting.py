"""Writes what the automatic rewrites make of a module or of a text. Imports no torch."""

from __future__ import annotations

import libcst as cst

from torchport.migrate import rewrites
from torchport.migrate.module import Module
from torchport.migrate.python_scan import Hit
from torchport.migrate.rewrites import Edit
from torchport.migrate.text_scan import TextHit


class _Apply(cst.CSTTransformer):
    def __init__(self, edits: dict[cst.CSTNode, list[Edit]]) -> None:
        self.edits = edits

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        for edit in self.edits.get(original, ()):
            updated = edit.build(updated)
        return updated


def port_module(module: Module, hits: list[Hit]) -> str:
    """The module's source with every edit made, and with the line that names its device where an edit needs it."""
    edits: dict[cst.CSTNode, list[Edit]] = {}
    for hit in hits:
        for edit in hit.edits:
            edits.setdefault(edit.target, []).append(edit)
    if not edits:
        return module.source
    tree = module.tree.visit(_Apply(edits))
    if any(edit.needs_device for made in edits.values() for edit in made):
        tree = _with_device_line(module, tree)
    elif module.torch is None and any(edit.needs_torch for made in edits.values() for edit in made):
        tree = _with_lines(module, tree, ["import torch"])
    return tree.code


def _with_device_line(module: Module, tree: cst.Module) -> cst.Module:
    line = rewrites.device_line(module.torch or "torch", rewrites.device_name(module))
    if line in module.source:
        return tree
    return _with_lines(module, tree, ([] if module.torch else ["import torch"]) + ["", line])


def _with_lines(module: Module, tree: cst.Module, lines: list[str]) -> cst.Module:
    at = _after_imports(module.tree)
    new: list[cst.SimpleStatementLine] = []
    blank = False
    for line in lines:
        if not line:
            blank = True
            continue
        statement = cst.parse_statement(line)
        new.append(statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] if blank else []))
        blank = False
    return tree.with_changes(body=[*tree.body[:at], *new, *tree.body[at:]])


def _after_imports(tree: cst.Module) -> int:
    """Where the imports at the head of a module end, or the first import of torch if that comes later."""
    head = 0
    for i, statement in enumerate(tree.body):
        if _only_imports(statement) or (i == 0 and _is_docstring(statement)):
            head = i + 1
        else:
            break
    for i, statement in enumerate(tree.body):
        if isinstance(statement, cst.SimpleStatementLine) and any(_imports_torch(small) for small in statement.body):
            return max(head, i + 1)
    return head


def _imports_torch(small: cst.CSTNode) -> bool:
    if isinstance(small, cst.Import):
        return any(_root(alias.name) == "torch" for alias in small.names)
    return (
        isinstance(small, cst.ImportFrom)
        and not small.relative
        and small.module is not None
        and _root(small.module) == "torch"
    )


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def _only_imports(statement: cst.CSTNode) -> bool:
    if isinstance(statement, cst.SimpleStatementLine):
        return all(isinstance(small, cst.Import | cst.ImportFrom) for small in statement.body)
    return False


def _is_docstring(statement: cst.CSTNode) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and isinstance(statement.body[0], cst.Expr)
        and isinstance(statement.body[0].value, cst.SimpleString | cst.ConcatenatedString)
    )


def port_text(text: str, hits: list[TextHit]) -> str:
    """The text with the values that have a replacement replaced."""
    lines = text.splitlines(keepends=True)
    for hit in sorted(hits, key=lambda h: (h.line, -h.start)):
        if hit.new is not None:
            line = lines[hit.line - 1]
            lines[hit.line - 1] = line[: hit.start] + hit.new + line[hit.end :]
    return "".join(lines)
