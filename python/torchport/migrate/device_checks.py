"""Checks about devices, processes and precision in tests: where a device's name is a device and where it is a word."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from torchport.migrate.module import Module, dotted, literal

Place = tuple[cst.CSTNode, str]

DEVICE = re.compile(r"^cuda(:\d+)?$")
BUILT = re.compile(r"^cuda:?(\{\w*\}|%[ds])?$")
DEVICE_NAME = re.compile(r"(?i)(device|(^|_)dev(s|$)|accelerator|map_location|(^|_)gpus?($|_)|(^|_)cuda($|_))")
OPTION = re.compile(r"(?i)^--?\w*-?(device|accelerator|gpu)s?$")
NOT_DEVICES = re.compile(
    r"(?i)^(print|pprint|getLogger|startswith|endswith|find|index|count|split|replace|get|pop|setdefault|getattr|hasattr"
    r"|setattr|delattr|import_module|join|add_tag|set_tag|strip|remove|discard|info|warning|warn|debug|error|exception|log"
    r"|echo|Path|exists|open|skip|fail|match|search|compile|sub|mark|find_spec|add_argument_group|add_parser|register"
    r"|require|isinstance|len|sorted|Literal|TypeVar)$"
)
TEST = re.compile(r"(^test|parity|compare|equiv)")
RANK = re.compile(r"(?i)(^|_|\.)(local_?|global_?)?rank$")


def claims_of(module: Module, rule: str, node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes that a hit of these rules speaks for, so that a more general rule does not name them again."""
    if rule not in ("CU003", "CU007", "CU033", "CU081"):
        return []
    call = module.parents.get(node)
    if rule == "CU007" and isinstance(call, cst.Call):
        node = call
    return [node, *module.within(node)]


def is_other_library(module: Module, call: cst.Call, method: str) -> bool:
    """Whether a method is that of another library as far as one can see: pandas' unique, numba's cuda."""
    others = {"unique": ("pandas", "polars", "sqlalchemy"), "double": ("decimal",), "long": ()}.get(method, ())
    if any(name.split(".")[0] in others for name in module.modules):
        return True
    receiver = module.resolve(call.func.value) if isinstance(call.func, cst.Attribute) else None
    return bool(receiver) and not receiver.startswith("torch")


# ---- device strings --------------------------------------------------------------------------------------------------


def device_string(module: Module) -> Iterable[Place]:
    """Plain strings "cuda" and "cuda:1" where they are a device."""
    for node in module.nodes:
        value = literal(node) if isinstance(node, cst.SimpleString) else None
        if value and (DEVICE.match(value) or BUILT.match(value)) and _is_device(module, node):
            yield node, value


def device_fstring(module: Module) -> Iterable[Place]:
    """f"cuda:{i}", whatever it is for; with a rank in it, it is rank_device's."""
    for node in module.nodes:
        if (
            isinstance(node, cst.FormattedString)
            and _starts_with_cuda(node)
            and not _ranks(node)
            and not _is_shown(module, node)
        ):
            yield node, module.code(node)


def rank_device(module: Module) -> Iterable[Place]:
    """A rank used as the index of a CUDA device."""
    for node in module.nodes:
        if (
            isinstance(node, cst.FormattedString)
            and _starts_with_cuda(node)
            and _ranks(node)
            or (
                isinstance(node, cst.Call)
                and module.resolve(node.func) == "torch.device"
                and len(node.args) == 2
                and literal(node.args[0].value) == "cuda"
                and RANK.search(dotted(node.args[1].value) or "")
            )
        ):
            yield node, module.code(node)


def gpu_world_size(module: Module) -> Iterable[Place]:
    """world_size, nprocs and their like counted in CUDA devices."""
    for node in module.nodes:
        if isinstance(node, cst.Call) and module.resolve(node.func) == "torch.cuda.device_count":
            parent = module.parents.get(node)
            if isinstance(parent, cst.Arg) and parent.keyword is not None:
                name = parent.keyword.value
            elif isinstance(parent, cst.Assign):
                name = dotted(parent.targets[0].target) or ""
            else:
                continue
            if re.search(r"(?i)world_?size|n_?procs|num_(processes|replicas|workers_per)|ngpus", name):
                yield node, f"{name} = torch.cuda.device_count()"


def nccl_default(module: Module) -> Iterable[Place]:
    """ "nccl" as a value that later becomes the backend: a default, a constant, a choice."""
    for node in module.nodes:
        if (
            isinstance(node, cst.SimpleString)
            and literal(node) == "nccl"
            and module.guards(_outermost(module, node)) == 0
        ):
            parent = _outermost_parent(module, node)
            if (
                isinstance(parent, cst.Arg)
                and parent.keyword is not None
                and parent.keyword.value == "default"
                or isinstance(parent, cst.Assign | cst.AnnAssign | cst.Param | cst.DictElement)
                and re.search(r"(?i)backend", _target(module, parent, node))
            ):
                yield node, "nccl"


def _starts_with_cuda(node: cst.FormattedString) -> bool:
    first = node.parts[0] if node.parts else None
    return isinstance(first, cst.FormattedStringText) and bool(re.match(r"^cuda:?$", first.value))


def _ranks(node: cst.FormattedString) -> bool:
    return any(
        isinstance(part, cst.FormattedStringExpression) and RANK.search(_last_word(part.expression))
        for part in node.parts
    )


def _last_word(node: cst.BaseExpression) -> str:
    if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
        return literal(node.slice[0].slice.value) or ""
    if isinstance(node, cst.Call):
        return _last_word(node.args[0].value) if node.args and dotted(node.func) == "int" else (dotted(node.func) or "")
    return dotted(node) or ""


def _is_shown(module: Module, node: cst.CSTNode) -> bool:
    for parent in module.ancestors(node):
        if isinstance(parent, cst.Call):
            name = dotted(parent.func) or ""
            return bool(NOT_DEVICES.match(name.split(".")[-1]))
        if isinstance(parent, cst.Expr | cst.Raise | cst.Assert | cst.BaseSmallStatement):
            return not isinstance(parent, cst.Assign | cst.AnnAssign | cst.Return)
    return False


def _outermost(module: Module, node: cst.CSTNode) -> cst.CSTNode:
    for parent in module.ancestors(node):
        if not isinstance(parent, cst.BaseExpression | cst.ComparisonTarget):
            return node
        node = parent
    return node


def _outermost_parent(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """What a string is the value of, seen through `or`, a conditional, + and %, lists and .format."""
    for parent in module.ancestors(node):
        if isinstance(
            parent, cst.BooleanOperation | cst.IfExp | cst.Element | cst.List | cst.Tuple | cst.BinaryOperation
        ):
            continue
        if isinstance(parent, cst.Attribute) and parent.attr.value == "format":
            continue
        if (
            isinstance(parent, cst.Call)
            and isinstance(parent.func, cst.Attribute)
            and parent.func.attr.value == "format"
        ) and module.lies_in(node, parent.func):
            continue
        return parent
    return None


def _is_device(module: Module, node: cst.SimpleString) -> bool:
    parent = _outermost_parent(module, node)
    match parent:
        case cst.Arg():
            return _is_device_argument(module, parent, node)
        case cst.DictElement() if DEVICE.match(literal(parent.key) or ""):  # map_location={"cuda:0": "cuda:1"}
            return not _is_key(module, parent, node)
        case cst.Assign() | cst.AnnAssign() | cst.Param() | cst.DictElement():
            return bool(DEVICE_NAME.search(_target(module, parent, node)))
        case cst.Return():
            function = next((p for p in module.ancestors(parent) if isinstance(p, cst.FunctionDef)), None)
            return function is not None and bool(DEVICE_NAME.search(function.name.value))
    return False


def _target(module: Module, parent: cst.CSTNode, node: cst.CSTNode) -> str:
    """The name, key or parameter that a value is given to."""
    match parent:
        case cst.Assign():
            target = parent.targets[0].target
            if isinstance(target, cst.Subscript) and isinstance(target.slice[0].slice, cst.Index):
                return literal(target.slice[0].slice.value) or ""
            return (dotted(target) or "").split(".")[-1]
        case cst.AnnAssign():
            return (dotted(parent.target) or "").split(".")[-1]
        case cst.Param():
            return parent.name.value if parent.name is not node else ""
        case cst.DictElement():
            return (literal(parent.key) or "") if not _is_key(module, parent, node) else ""
    return ""


def _is_key(module: Module, element: cst.DictElement, node: cst.CSTNode) -> bool:
    return node is element.key or module.lies_in(node, element.key)


def _is_device_argument(module: Module, arg: cst.Arg, node: cst.SimpleString) -> bool:
    call = module.parents.get(arg)
    if not isinstance(call, cst.Call):
        return False
    name = (dotted(call.func) or (call.func.attr.value if isinstance(call.func, cst.Attribute) else "")).split(".")[-1]
    if arg.keyword is not None:
        if arg.keyword.value == "default":
            options = [literal(a.value) or "" for a in call.args if a.keyword is None]
            about = any(OPTION.match(option) for option in options)
            return about or bool(DEVICE_NAME.search(_assigned_name(module, call)))
        if arg.keyword.value == "choices":
            return any(OPTION.match(literal(a.value) or "") for a in call.args if a.keyword is None)
        return bool(DEVICE_NAME.search(arg.keyword.value))
    full = module.resolve(call.func) or ""
    if full.startswith("torch.") and not full.startswith("torch.library."):
        return True
    return not NOT_DEVICES.match(name) and not full.startswith(("logging.", "os.", "pathlib.", "importlib.", "re."))


def _assigned_name(module: Module, node: cst.CSTNode) -> str:
    parent = _outermost_parent(module, node)
    return _target(module, parent, node) if isinstance(parent, cst.Assign | cst.AnnAssign | cst.Param) else ""


def is_available_call(module: Module, node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and module.resolve(node.func) == "torch.cuda.is_available"


def device_word(module: Module, node: cst.CSTNode) -> str | None:
    """ "cuda", "cuda:0", "cpu" out of a string or torch.device of one."""
    if isinstance(node, cst.Call) and module.resolve(node.func) == "torch.device" and len(node.args) == 1:
        node = node.args[0].value
    return literal(node) if isinstance(node, cst.SimpleString) else None


def device_choice(module: Module) -> Iterable[Place]:
    """The choice of CUDA or CPU by availability, as an expression or as an if with an else."""
    for node in module.nodes:
        if isinstance(node, cst.IfExp):
            body, _orelse, test = node.body, node.orelse, node.test
        elif isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
            body, _orelse, test = branch_value(module, node.body), branch_value(module, node.orelse.body), node.test
        else:
            continue
        if (
            body is not None
            and DEVICE.match(device_word(module, body) or "")
            and module.guards(test) > 0
            and not isinstance(test, cst.Comparison)
        ):
            yield node, "cuda if available, else cpu"


def branch_value(module: Module, block: cst.CSTNode) -> cst.BaseExpression | None:
    """The value of a branch that does nothing but assign one device."""
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        line = block.body[0]
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and isinstance(line.body[0], cst.Assign):
            return line.body[0].value
    return None


# ---- processes and tests ---------------------------------------------------------------------------------------------


def _touches_device(module: Module, node: cst.CSTNode) -> bool:
    for inner in module.within(node):
        if isinstance(inner, cst.Call) and isinstance(inner.func, cst.Attribute) and inner.func.attr.value == "cuda":
            return True
        if isinstance(inner, cst.SimpleString) and DEVICE.match(literal(inner) or ""):
            return True
    return False


def device_tensor_in_queue(module: Module) -> Iterable[Place]:
    """queue.put(x.cuda()) in a module that uses several processes."""
    if not any("multiprocessing" in name for name in module.modules):
        return
    for node in module.nodes:
        if (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in ("put", "send", "put_nowait")
            and _touches_device(module, node)
        ):
            yield node, f".{node.func.attr.value}() of a CUDA tensor"


def device_work_in_worker(module: Module) -> Iterable[Place]:
    """__getitem__, collate and worker_init functions that touch the device."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if (
            isinstance(node, cst.FunctionDef)
            and re.search(r"^__getitem__$|collate|worker_init", node.name.value)
            and _touches_device(module, node.body)
        ):
            yield node.name, f"{node.name.value} uses the device"


def device_noise_in_test(module: Module) -> Iterable[Place]:
    """Random numbers drawn on the device, and dropout, in functions that compare devices."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if not isinstance(node, cst.Call) or not _in_test(module, node):
            continue
        full = module.resolve(node.func) or ""
        if re.fullmatch(r"torch\.(rand|randn|randint|randperm|normal|bernoulli)(_like)?", full):
            if any(a.keyword and a.keyword.value == "device" and literal(a.value) != "cpu" for a in node.args):
                yield node, full
        elif re.fullmatch(r"torch\.nn\.(functional\.)?(alpha_|feature_alpha_)?[Dd]ropout\w*", full):
            yield node, full


def _in_test(module: Module, node: cst.CSTNode) -> bool:
    return any(isinstance(p, cst.FunctionDef) and TEST.search(p.name.value) for p in module.ancestors(node))


def zero_tolerance(module: Module) -> Iterable[Place]:
    """assert_close(rtol=0, atol=0), and (a == b).all() in tests."""
    if not module.uses_torch:
        return
    for node in module.nodes:
        if not isinstance(node, cst.Call):
            continue
        if (module.resolve(node.func) or "") in ("torch.testing.assert_close", "torch.allclose"):
            given = {a.keyword.value: literal(a.value) for a in node.args if a.keyword}
            if all(given.get(name) in ("0", "0.0") for name in ("rtol", "atol")):
                yield node, "rtol=0, atol=0"
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "all" and _in_test(module, node):
            inner = node.func.value
            if isinstance(inner, cst.Comparison) and isinstance(inner.comparisons[0].operator, cst.Equal):
                yield node, "(a == b).all()"


CHECKS = {
    check.__name__: check
    for check in (
        *(device_string, device_fstring, device_choice, rank_device, gpu_world_size, nccl_default),
        *(device_tensor_in_queue, device_work_in_worker, device_noise_in_test, zero_tolerance),
    )
}
