"""Checks about waiting for the device: reads in loops, clocks, loops that depend on data."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from torchport.migrate.module import Module, dotted

Place = tuple[cst.CSTNode, str]

LOOPS = (cst.For, cst.While, cst.CompFor)
TENSOR_NAME = re.compile(r"(?i)(^|_|\.)(loss(es)?|logits?|grad_?norm|preds?|outputs?|tensor)(_\w+)?$")
LOGGING = re.compile(
    r"^(set_postfix|set_description|add_scalar|add_scalars|log_metric|log_metrics|info|debug|log|print)$"
)
WAITS = re.compile(r"(synchronize|^item$|^cpu$|^tolist$|^numpy$|elapsed_time|block_until_ready|mark_step)")
CLOCK = re.compile(r"^time\.(time|perf_counter|monotonic|process_time|time_ns|perf_counter_ns)$")


def method_of(node: cst.CSTNode) -> str | None:
    return node.func.attr.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None


def in_loop(module: Module, node: cst.CSTNode) -> bool:
    """Whether node runs in each turn of a loop, and not only every k-th (`if step % 100 == 0`)."""
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, cst.If) and child is parent.body and "%" in module.code(parent.test):
            return False
        if (
            isinstance(parent, cst.If)
            and child is parent.body
            and re.search(r"rank|verbose|debug", module.code(parent.test))
        ):
            return False
        if isinstance(parent, cst.For | cst.While) and child is parent.body:
            return True
        if (
            isinstance(parent, cst.ListComp | cst.SetComp | cst.GeneratorExp | cst.DictComp)
            and child is not parent.for_in
        ):
            return True
        if isinstance(parent, cst.FunctionDef | cst.Lambda | cst.ClassDef):
            return False
        child = parent
    return False


def is_tensor(module: Module, node: cst.CSTNode) -> bool:
    """Whether an expression is a tensor as far as one can see: by its name, or because torch made it."""
    if isinstance(node, cst.Call):
        full = module.resolve(node.func) or ""
        return full.startswith("torch.") and not full.startswith(("torch.cuda.", "torch.distributed.", "torch.utils."))
    if isinstance(node, cst.Subscript):
        return is_tensor(module, node.value)
    name = dotted(node)
    if name is None:
        return False
    if TENSOR_NAME.search(name) and module.resolve(node) is None:
        return True
    return name in _made_by_torch(module)


def _made_by_torch(module: Module) -> set[str]:
    if (known := getattr(module, "tensors", None)) is None:
        known = set()
        for node in module.nodes:
            if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
                full = module.resolve(node.value.func) or ""
                if re.match(r"torch\.(nn\.functional\.)?[a-z_0-9]+$", full) and not full.endswith(
                    ("device", "compile", "load", "is_tensor", "numel", "get_num_threads", "manual_seed", "Generator")
                ):
                    known.update(name for t in node.targets if (name := dotted(t.target)))
        module.tensors = known
    return known


def scalar_read_in_loop(module: Module) -> Iterable[Place]:
    """.item(), float(tensor), `if tensor > 0` in a loop."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if isinstance(node, cst.Call):
            if method_of(node) == "item" and not node.args and in_loop(module, node):
                yield node, ".item() in a loop"
            elif (
                dotted(node.func) in ("float", "int", "bool")
                and len(node.args) == 1
                and is_tensor(module, node.args[0].value)
                and in_loop(module, node)
            ):
                yield node, f"{dotted(node.func)}() of a tensor in a loop"
        elif (
            isinstance(node, cst.If)
            and isinstance(node.test, cst.Comparison)
            and in_loop(module, node)
            and is_tensor(module, node.test.left)
            and not isinstance(node.test.comparisons[0].operator, cst.Is | cst.IsNot | cst.In)
        ):
            yield node.test, "a branch on a tensor in a loop"


def tensor_read_in_loop(module: Module) -> Iterable[Place]:
    """.cpu(), .numpy(), .tolist(), print(tensor) in a loop."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if isinstance(node, cst.Call) and in_loop(module, node):
            if method_of(node) in ("cpu", "numpy", "tolist") and not node.args:
                if not _is_numpy(module, node.func.value):
                    yield node, f".{method_of(node)}() in a loop"
            elif dotted(node.func) == "print" and any(is_tensor(module, a.value) for a in node.args):
                yield node, "print of a tensor in a loop"


def _is_numpy(module: Module, node: cst.BaseExpression) -> bool:
    while isinstance(node, cst.Call | cst.Attribute):
        if (module.resolve(node.func if isinstance(node, cst.Call) else node) or "").startswith(("numpy.", "pandas.")):
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def log_every_step(module: Module) -> Iterable[Place]:
    """A progress bar or a logger that is given the loss in every turn."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        name = method_of(node)
        if (
            name
            and name != "print"
            and LOGGING.match(name)
            and in_loop(module, node)
            and _mentions_tensor(module, node)
        ):
            yield node, f".{name}() of a tensor in every turn"


def _mentions_tensor(module: Module, call: cst.Call) -> bool:
    for node in (inner for arg in call.args for inner in module.within(arg)):
        if isinstance(node, cst.Name | cst.Attribute):
            if isinstance(module.parents.get(node), cst.Arg) and module.parents[node].keyword is node:
                continue
            if is_tensor(module, node):
                return True
    return False


def nan_branch(module: Module) -> Iterable[Place]:
    """if torch.isnan(loss).any(): and its kin."""
    for node in module.nodes:
        if isinstance(node, cst.Call) and re.fullmatch(
            r"torch\.(isnan|isinf|isfinite|is_nonzero)", module.resolve(node.func) or ""
        ):
            child = node
            for parent in module.ancestors(node):
                if isinstance(parent, cst.If | cst.While | cst.Assert | cst.IfExp):
                    if child is parent.test:
                        yield node, module.resolve(node.func)
                    break
                if isinstance(parent, cst.BaseSmallStatement):
                    break
                child = parent


def data_dependent_loop(module: Module) -> Iterable[Place]:
    """while not done.all(), for _ in range(int(lengths.max()))."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if isinstance(node, cst.While):
            if _calls(module, node.test, ("all", "any", "item")):
                yield node.test, "a loop until a tensor says so"
        elif (
            isinstance(node, cst.For)
            and isinstance(node.iter, cst.Call)
            and dotted(node.iter.func) == "range"
            and _calls(module, node.iter, ("item", "max", "min", "sum", "tolist"))
        ):
            yield node.iter, "a range that a tensor gives"


def _calls(module: Module, root: cst.CSTNode, methods: tuple[str, ...]) -> bool:
    return any(
        isinstance(node, cst.Call) and method_of(node) in methods and not node.args
        for node in (root, *module.within(root))
    )


def unsynchronised_timing(module: Module) -> Iterable[Place]:
    """A difference of two clock readings around device work, in a function that never waits for the device."""
    if not module.uses_torch:
        return
    starts: dict[tuple[int, str], cst.CSTNode] = {}
    waits: set[int] = set()
    works: set[int] = set()
    for node in module.nodes:
        owner = id(next((p for p in module.ancestors(node) if isinstance(p, cst.FunctionDef)), None))
        if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
            if CLOCK.match(module.resolve(node.value.func) or "") and (name := dotted(node.targets[0].target)):
                starts[owner, name] = node
        elif isinstance(node, cst.Call):
            name = (dotted(node.func) or method_of(node) or "").split(".")[-1]
            if WAITS.search(name):
                waits.add(owner)
            elif re.search(r"(?i)^(backward|forward|generate|step|encode|predict)$|model|net$", name) or is_tensor(
                module, node
            ):
                works.add(owner)
    for node in module.nodes:
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract):
            owner = id(next((p for p in module.ancestors(node) if isinstance(p, cst.FunctionDef)), None))
            if (owner, dotted(node.right) or "") in starts and owner in works and owner not in waits:
                yield node, module.code(node)


def rank_zero_work(module: Module) -> Iterable[Place]:
    """if rank == 0: evaluate(model)."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if isinstance(node, cst.If) and _is_rank_zero(module, node.test):
            for inner in module.within(node.body):
                if isinstance(inner, cst.Call):
                    name = (dotted(inner.func) or method_of(inner) or "").split(".")[-1]
                    if re.search(
                        r"(?i)^(eval(uate)?|validate|test|generate|backward|forward)(_\w+)?$|^(\w+_)?model$", name
                    ):
                        yield inner, f"{name}() on rank 0"
                        break


def _is_rank_zero(module: Module, test: cst.BaseExpression) -> bool:
    code = module.code(test)
    return bool(re.search(r"(?i)(rank(\(\))?\s*==\s*0|not\s+\w*rank\b|is_(main|master|rank_?zero)\w*)", code))


CHECKS = {
    check.__name__: check
    for check in (
        *(scalar_read_in_loop, tensor_read_in_loop, log_every_step, nan_branch, data_dependent_loop),
        *(unsynchronised_timing, rank_zero_work),
    )
}
