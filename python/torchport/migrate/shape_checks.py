"""Checks about shapes and layouts that depend on values, and about what compiles again."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from torchport.migrate.loop_checks import in_loop, method_of
from torchport.migrate.module import Module, dotted, literal

Place = tuple[cst.CSTNode, str]

MASK = re.compile(r"(?i)(^|_)(mask|masks|keep|valid|is_pad|selected)$")
CACHE = re.compile(r"(?i)(past|cache|(^|_)kv($|_))")
ROUTES = re.compile(r"^(get|post|put|route|api_route|websocket)$")


def calls_to(module: Module, *names: str) -> Iterable[cst.Call]:
    for node in module.nodes:
        if isinstance(node, cst.Call) and module.resolve(node.func) in names:
            yield node


def single_argument_where(module: Module) -> Iterable[Place]:
    """torch.where(condition), which is nonzero by another name."""
    for node in calls_to(module, "torch.where"):
        if len(node.args) == 1 and not node.args[0].star:
            yield node, "torch.where(condition)"


def mask_index(module: Module) -> Iterable[Place]:
    """x[mask] and x[x > 0] as values; an assignment through a mask keeps its shape."""
    if not module.uses_torch or {"numpy", "pandas"} & {m.split(".")[0] for m in module.modules}:
        return
    for node in module.nodes:
        if not isinstance(node, cst.Subscript) or isinstance(
            module.parents.get(node), cst.AssignTarget | cst.AugAssign
        ):
            continue
        index = node.slice[0].slice
        if len(node.slice) != 1 or not isinstance(index, cst.Index):
            continue
        value = index.value
        while isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.BitInvert):
            value = value.expression
        is_mask = isinstance(value, cst.Name) and MASK.search(value.value)
        if is_mask or (isinstance(value, cst.Comparison) and dotted(value.left) and literal(node.value) is None):
            yield node, module.code(node)


def padding_to_longest(module: Module) -> Iterable[Place]:
    """tokenizer(texts, padding=True): as long as the longest of the batch."""
    for node in module.nodes:
        if isinstance(node, cst.Call) and re.search(r"(?i)tokenizer$", dotted(node.func) or ""):
            for arg in node.args:
                if arg.keyword and arg.keyword.value == "padding" and literal(arg.value) == "True":
                    yield arg, "padding=True"


def growing_cat(module: Module) -> Iterable[Place]:
    """x = torch.cat([x, new]) in a loop, and caches that grow by cat anywhere."""
    for node in calls_to(module, "torch.cat", "torch.concat", "torch.concatenate"):
        if not node.args or not isinstance(node.args[0].value, cst.List | cst.Tuple):
            continue
        parts = [dotted(e.value) or dotted(getattr(e.value, "value", None)) or "" for e in node.args[0].value.elements]
        parent = module.parents.get(node)
        target = module.code(parent.targets[0].target) if isinstance(parent, cst.Assign) else ""
        grows = target and any(part and target.split("[")[0] == part for part in parts) and in_loop(module, node)
        if grows or any(CACHE.search(part) for part in parts):
            yield node, "a tensor that grows by cat"


def ragged_repeat(module: Module) -> Iterable[Place]:
    """repeat_interleave by a tensor; by a number it is static."""
    for node in module.nodes:
        if not isinstance(node, cst.Call) or not module.uses_torch:
            continue
        if module.resolve(node.func) == "torch.repeat_interleave":
            repeats = next((a.value for a in node.args if a.keyword and a.keyword.value == "repeats"), None)
            repeats = repeats or (node.args[1].value if len(node.args) > 1 and not node.args[1].keyword else None)
        elif method_of(node) == "repeat_interleave" and node.args:
            repeats = node.args[0].value
        else:
            continue
        if repeats is not None and re.search(r"(?i)(lengths?|counts?|repeats|sizes|lens)$|torch", module.code(repeats)):
            yield node, "repeat_interleave by a tensor"


def ragged_split(module: Module) -> Iterable[Place]:
    """x.split(lengths.tolist())."""
    for node in module.nodes:
        if (
            isinstance(node, cst.Call)
            and module.uses_torch
            and (
                (module.resolve(node.func) == "torch.split" or method_of(node) == "split")
                and any(method_of(a.value) == "tolist" for a in node.args)
            )
        ):
            yield node, "split by a tensor's values"


def narrow_heads(module: Module) -> Iterable[Place]:
    """Attention heads whose dimension is no multiple of 128, as far as numbers stand in the code."""
    for node in calls_to(
        module, "torch.nn.MultiheadAttention", "torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer"
    ):
        named = {a.keyword.value: literal(a.value) for a in node.args if a.keyword}
        positional = [literal(a.value) for a in node.args if not a.keyword]
        width = named.get("embed_dim") or named.get("d_model") or (positional[0] if positional else None)
        heads = named.get("num_heads") or named.get("nhead") or (positional[1] if len(positional) > 1 else None)
        if (width or "").isdigit() and (heads or "").isdigit() and int(width) // int(heads) % 128:
            yield node, f"heads of {int(width) // int(heads)}"
    if not module.uses_torch:
        return
    for node in module.nodes:
        if (
            isinstance(node, cst.Arg)
            and node.keyword
            and node.keyword.value == "head_dim"
            and (value := literal(node.value) or "").isdigit()
            and int(value) % 128
        ):
            yield node, f"heads of {value}"


def reentrant_checkpoint(module: Module) -> Iterable[Place]:
    """torch.utils.checkpoint and gradient_checkpointing_enable without use_reentrant=False."""
    checkpoint = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
    for node in module.nodes:
        if not isinstance(node, cst.Call):
            continue
        if module.resolve(node.func) in checkpoint or method_of(node) == "gradient_checkpointing_enable":
            code = module.code(node).replace(" ", "").replace('"', "").replace("'", "")
            if not any(ok in code for ok in ("use_reentrant=False", "use_reentrant:False")):
                yield node, "checkpoint without use_reentrant=False"


def compile_per_request(module: Module) -> Iterable[Place]:
    """torch.compile in a loop or in the handler of a request."""
    for node in calls_to(module, "torch.compile"):
        if in_loop(module, node) or _in_handler(module, node):
            yield node, "torch.compile again and again"


def copy_of_compiled(module: Module) -> Iterable[Place]:
    """deepcopy of a compiled model."""
    compiled = {
        dotted(node.targets[0].target)
        for node in module.nodes
        if isinstance(node, cst.Assign)
        and isinstance(node.value, cst.Call)
        and module.resolve(node.value.func) == "torch.compile"
    }
    for node in calls_to(module, "copy.deepcopy"):
        name = dotted(node.args[0].value) if node.args else None
        if name and (name in compiled or "compiled" in name):
            yield node, "deepcopy of a compiled model"


def _in_handler(module: Module, node: cst.CSTNode) -> bool:
    for parent in module.ancestors(node):
        if isinstance(parent, cst.FunctionDef):
            return any(ROUTES.match(method_of(d.decorator) or "") for d in parent.decorators)
    return False


CHECKS = {
    check.__name__: check
    for check in (
        *(single_argument_where, mask_index, padding_to_longest, growing_cat, ragged_repeat, ragged_split),
        *(narrow_heads, reentrant_checkpoint, compile_per_request, copy_of_compiled),
    )
}
