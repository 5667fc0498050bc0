"""The automatic rewrites of Python: what a node becomes. Each keeps what CUDA does; none fits its own result.

A rewritten module takes its device from one line after its imports,
`ACCELERATOR = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from torchport.migrate.catalogue import Rule
from torchport.migrate.module import Module, literal

NAME = "ACCELERATOR"
WITHOUT_TORCH = ("map_location", "sdpa", "drop_nccl")  # change arguments and name nothing of torch
DTYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8"}
DTYPES |= {"Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool"}


@dataclass
class Edit:
    """Replaces target by what build makes of it; build is given the node with the edits inside it already made."""

    target: cst.CSTNode
    build: Callable[[cst.CSTNode], cst.CSTNode]
    needs_device: bool = False
    needs_torch: bool = True


def device_line(torch: str, name: str) -> str:
    """The statement that gives a module its device."""
    return f'{name} = {torch}.accelerator.current_accelerator(check_available=True) or {torch}.device("cpu")'


def device_name(module: Module) -> str:
    """ACCELERATOR, or another name where the module means something else by it."""
    line = device_line(module.torch or "torch", NAME)
    return NAME if module.top.bound.get(NAME) is None or line in module.source else f"TORCH_{NAME}"


def edits_for(module: Module, rule: Rule, node: cst.CSTNode) -> list[Edit]:
    """The edits of a hit; none where a person has to look."""
    if rule.rewrite in WITHOUT_TORCH:
        edits = _BUILDERS[rule.rewrite](module, node)
        for edit in edits:
            edit.needs_torch = False
        return edits
    if not module.imports_torch:
        return []
    if rule.rename:
        full = module.resolve(node)
        if full not in rule.rename:
            return []
        new = rule.rename[full].replace("torch", module.torch or "torch", 1)
        return [Edit(node, lambda old: _keep_parens(old, cst.parse_expression(new)))]
    return _BUILDERS[rule.rewrite](module, node) if rule.rewrite else []


def _keep_parens(old: cst.CSTNode, new: cst.BaseExpression) -> cst.BaseExpression:
    return new.with_changes(lpar=old.lpar, rpar=old.rpar) if old.lpar else new


def _expression(text: str) -> cst.BaseExpression:
    return cst.parse_expression(text)


def device_text(module: Module, word: str) -> str:
    """An expression for the string "cuda" or "cuda:1"."""
    name = device_name(module)
    return f"{name}.type" if ":" not in word else f'f"{{{name}.type}}:{word.split(":")[1]}"'


# ---- one builder a rewrite ------------------------------------------------------------------------------------------


def _cuda_method(module: Module, node: cst.CSTNode) -> list[Edit]:
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or any(a.star for a in node.args):
        return []
    name, torch = device_name(module), module.torch or "torch"
    first = node.args[0] if node.args else None
    has_device = first is not None and (first.keyword is None or first.keyword.value == "device")
    index = literal(first.value) if has_device else None
    if index == "None" or (has_device and any(a.keyword is None for a in node.args[1:])):
        return []

    def build(call: cst.Call) -> cst.Call:
        args = list(call.args)
        if not has_device:
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if args else cst.MaybeSentinel.DEFAULT
            args.insert(0, cst.Arg(_expression(name), comma=comma))
        elif index is not None and index.isdigit():
            args[0] = args[0].with_changes(value=_expression(f"{torch}.device({name}.type, {index})"))
        return call.with_changes(func=call.func.with_changes(attr=cst.Name("to")), args=args)

    return [Edit(node, build, needs_device=not has_device or bool(index and index.isdigit()))]


def _device_string(module: Module, node: cst.CSTNode) -> list[Edit]:
    """A plain string; alone in torch.device(...) the device itself."""
    if isinstance(node, cst.Arg):
        node = node.value
    word = literal(node) if isinstance(node, cst.SimpleString) else None
    if word is None or not (word == "cuda" or word.removeprefix("cuda:").isdigit()) or _is_choice(module, node):
        return []
    call = module.parents.get(module.parents.get(node))
    if (
        isinstance(call, cst.Call)
        and module.resolve(call.func) == "torch.device"
        and len(call.args) == 1
        and word == "cuda"
    ):
        return [Edit(call, lambda old: _expression(device_name(module)), needs_device=True)]
    if isinstance(module.parents.get(node), cst.ConcatenatedString):
        return []
    return [Edit(node, lambda old: _keep_parens(old, _expression(device_text(module, word))), needs_device=True)]


def _is_choice(module: Module, node: cst.CSTNode) -> bool:
    """Whether a string is one of several allowed words, in choices= or a Literal."""
    return any(isinstance(p, cst.Arg) and p.keyword and p.keyword.value == "choices" for p in module.ancestors(node))


def _device_choice(module: Module, node: cst.CSTNode) -> list[Edit]:
    from torchport.migrate.device_checks import branch_value, device_word, is_available_call

    name, torch = device_name(module), module.torch or "torch"
    if isinstance(node, cst.If):
        body, orelse = branch_value(module, node.body), branch_value(module, node.orelse.body)
        bare = is_available_call(module, node.test) and orelse is not None and device_word(module, orelse) == "cpu"
        targets = (
            [module.code(b.body[0].body[0].targets[0].target) for b in (node.body, node.orelse.body)] if bare else []
        )
        if not bare or "#" in module.code(node) or targets[0] != targets[1] or "elif" in module.code(node):
            return []
        is_device, word = isinstance(body, cst.Call), device_word(module, body)
        value = _device_value(name, torch, word, is_device)

        def line(old: cst.If) -> cst.SimpleStatementLine:
            new = cst.parse_statement(f"{targets[0]} = {value}")
            return new.with_changes(leading_lines=old.leading_lines)

        parent = module.parents.get(node)
        return [] if isinstance(parent, cst.If) else [Edit(node, line, needs_device=True)]

    word = device_word(module, node.body)
    is_device = isinstance(node.body, cst.Call)
    if not is_available_call(module, node.test) or not _ends_in_cpu(module, node.orelse):
        edits = [
            Edit(node.body, lambda old: _expression(_device_value(name, torch, word, is_device)), needs_device=True)
        ]
        for inner in module.within(node):
            if is_available_call(module, inner):
                edits.append(Edit(inner.func, lambda old: _expression(f"{torch}.accelerator.is_available")))
        return edits
    call = module.parents.get(module.parents.get(node))
    if isinstance(call, cst.Call) and module.resolve(call.func) == "torch.device" and len(call.args) == 1:
        return [Edit(call, lambda old: _expression(_device_value(name, torch, word, True)), needs_device=True)]
    return [Edit(node, lambda old: _expression(_device_value(name, torch, word, is_device)), needs_device=True)]


def _device_value(name: str, torch: str, word: str, is_device: bool) -> str:
    index = word.partition(":")[2]
    if is_device:
        return f"{torch}.device({name}.type, {index})" if index else name
    return f'f"{{{name}.type}}:{index}"' if index else f"{name}.type"


def _ends_in_cpu(module: Module, node: cst.BaseExpression) -> bool:
    from torchport.migrate.device_checks import device_word

    if isinstance(node, cst.IfExp):
        return device_word(module, node.body) in ("mps", "xpu") and _ends_in_cpu(module, node.orelse)
    return device_word(module, node) == "cpu"


def _cuda_type(module: Module, node: cst.CSTNode) -> list[Edit]:
    if isinstance(node, cst.Attribute) and node.attr.value == "is_cuda":

        def ask(old: cst.Attribute) -> cst.BaseExpression:
            head = cst.Attribute(cst.Attribute(old.value, cst.Name("device")), cst.Name("type"))
            target = cst.ComparisonTarget(cst.NotEqual(), cst.SimpleString('"cpu"'))
            return cst.Comparison(head, [target], lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

        return [Edit(node, ask)]
    call = module.parents.get(module.parents.get(node))
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "type":
        return []
    word = (module.resolve(node) or literal(node) or "").split(".")[-1].removesuffix("Tensor")
    if word not in DTYPES or len(call.args) != 1:
        return []
    text = f"{module.torch or 'torch'}.{DTYPES[word]}"

    def convert(old: cst.Call) -> cst.Call:
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        args = [cst.Arg(_expression(device_name(module)), comma=comma), cst.Arg(_expression(text))]
        return old.with_changes(func=old.func.with_changes(attr=cst.Name("to")), args=args)

    return [Edit(call, convert, needs_device=True)]


def _map_location(module: Module, node: cst.CSTNode) -> list[Edit]:
    def build(call: cst.Call) -> cst.Call:
        new = cst.Arg(cst.SimpleString('"cpu"'), keyword=cst.Name("map_location"), equal=_tight())
        last = call.args[-1]
        spaced = last.with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        if isinstance(last.comma, cst.Comma):
            spaced = last.with_changes(comma=call.args[0].comma)
            new = new.with_changes(comma=last.comma)
        return call.with_changes(args=[*call.args[:-1], spaced, new])

    return [Edit(node, build)] if isinstance(node, cst.Call) and node.args else []


def _tight() -> cst.AssignEqual:
    return cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _device_module(module: Module, node: cst.CSTNode) -> list[Edit]:
    last = (module.resolve(node) or "").split(".")[-1]
    text = f"{module.torch or 'torch'}.get_device_module({device_name(module)}).{last}"
    return [Edit(node, lambda old: _expression(text), needs_device=True)]


def _statement_call(module: Module, node: cst.CSTNode) -> cst.SimpleStatementLine | None:
    """The line that does nothing but call or assign node."""
    line = module.statement(node)
    if line is None:
        return None
    small = line.body[0]
    if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) and small.value.func is node:
        return line
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and small.targets[0].target is node:
        return line
    return None


def _guarded_by(
    module: Module, node: cst.CSTNode, test: str, needs_device: bool, rename: tuple[str, str] | None
) -> list[Edit]:
    line = _statement_call(module, node)
    if line is None:
        return []

    def build(old: cst.SimpleStatementLine) -> cst.If:
        inner = old.with_changes(leading_lines=[])
        if rename is not None:
            inner = cst.parse_statement(module.tree.code_for_node(inner).strip().replace(*rename, 1))
        return cst.If(_expression(test), cst.IndentedBlock([inner]), leading_lines=old.leading_lines)

    return [Edit(line, build, needs_device=needs_device)]


def _guard_cuda(module: Module, node: cst.CSTNode) -> list[Edit]:
    return _guarded_by(module, node, f'{device_name(module)}.type == "cuda"', True, None)


def _guard_accelerator(module: Module, node: cst.CSTNode) -> list[Edit]:
    torch = module.torch or "torch"
    rename = (module.code(node), f"{torch}.accelerator.empty_cache")
    return _guarded_by(module, node, f"{torch}.accelerator.is_available()", False, rename)


def _drop_argument(module: Module, node: cst.CSTNode) -> list[Edit]:
    call = module.parents.get(node)
    if not isinstance(node, cst.Arg) or not isinstance(call, cst.Call):
        return []
    index = next(i for i, arg in enumerate(call.args) if arg is node)
    if node.keyword is None and any(a.keyword is None for a in call.args[index + 1 :]):
        return []
    gone = node

    def build(old: cst.Call) -> cst.Call:
        at = next((i for i, arg in enumerate(old.args) if arg.deep_equals(gone)), None)
        if at is None:
            return old
        args = [*old.args[:at], *old.args[at + 1 :]]
        if args and at == len(args):
            args[-1] = args[-1].with_changes(comma=old.args[at].comma)
        return old.with_changes(args=args)

    return [Edit(call, build)]


def _drop_nccl(module: Module, node: cst.CSTNode) -> list[Edit]:
    call = module.parents.get(node)
    if isinstance(call, cst.Call) and module.resolve(call.func) == "torch.distributed.init_process_group":
        return _drop_argument(module, node)
    return []


def _when_cuda(module: Module, node: cst.CSTNode) -> list[Edit]:
    if not isinstance(node, cst.Arg) or literal(node.value) != "True" or node.keyword is None:
        return []
    text = f'{device_name(module)}.type == "cuda"' + (" or None" if node.keyword.value in ("fused", "foreach") else "")
    return [Edit(node.value, lambda old: _expression(text), needs_device=True)]


def _only_cuda(module: Module, node: cst.CSTNode) -> list[Edit]:
    """The value on CUDA, None, which is the default, elsewhere."""
    if not isinstance(node, cst.Arg) or node.keyword is None:
        return []
    text = f'{module.code(node.value)} if {device_name(module)}.type == "cuda" else None'
    return [Edit(node.value, lambda old: _expression(text), needs_device=True)]


def _autocast(module: Module, node: cst.CSTNode) -> list[Edit]:
    if isinstance(node, cst.Arg):
        return _device_string(module, node)
    call = module.parents.get(node)
    if not (isinstance(call, cst.Call) and call.func is node and (module.resolve(node) or "").endswith("autocast")):
        return []
    if sum(a.keyword is None for a in call.args) > 1 or any(a.star for a in call.args):
        return []
    torch = module.torch or "torch"

    def build(old: cst.Call) -> cst.Call:
        args = list(old.args)
        if args and args[0].keyword is None:
            args[0] = args[0].with_changes(keyword=cst.Name("enabled"), equal=_tight())
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if args else cst.MaybeSentinel.DEFAULT
        args.insert(0, cst.Arg(_expression(f"{device_name(module)}.type"), comma=comma))
        return old.with_changes(func=_expression(f"{torch}.autocast"), args=args)

    return [Edit(call, build, needs_device=True)]


def _channels_last(module: Module, node: cst.CSTNode) -> list[Edit]:
    text = (
        f'{module.code(node)} if {device_name(module)}.type == "cuda" else {module.torch or "torch"}.contiguous_format'
    )
    if not isinstance(module.parents.get(node), cst.Arg | cst.Assign):
        text = f"({text})"
    return [Edit(node, lambda old: _expression(text), needs_device=True)]


def _sdpa(module: Module, node: cst.CSTNode) -> list[Edit]:
    if isinstance(node, cst.Arg) and (literal(node.value) or "").startswith("flash_attention"):
        return [Edit(node.value, lambda old: cst.SimpleString('"sdpa"'))]
    return []


_BUILDERS: dict[str, Callable[[Module, cst.CSTNode], list[Edit]]] = {
    "cuda_method": _cuda_method,
    "device_string": _device_string,
    "device_choice": _device_choice,
    "cuda_type": _cuda_type,
    "map_location": _map_location,
    "device_module": _device_module,
    "guard_accelerator": _guard_accelerator,
    "guard_cuda": _guard_cuda,
    "only_cuda": _only_cuda,
    "drop_nccl": _drop_nccl,
    "when_cuda": _when_cuda,
    "autocast": _autocast,
    "channels_last": _channels_last,
    "sdpa": _sdpa,
}
