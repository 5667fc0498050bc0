"""One FX call as nodes of a program's graph: views become strided reads, other ops nodes of the op table."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
Overload = torch._ops.OpOverload
Convert = Callable[[Any], Any]


class Ref:
    """A value of the program's graph, until the extension's own reference takes its place."""

    __slots__ = ("id",)

    def __init__(self, id: Any) -> None:
        self.id = id


def full_name(op: Overload) -> str:
    """ "aten::add.Tensor"; the default overload has no suffix."""
    return op._schema.name + (f".{op._schema.overload_name}" if op._schema.overload_name else "")


def is_view(op: Any) -> bool:
    """Whether the schema says that the result shares the first argument's memory and nothing is written."""
    if not isinstance(op, Overload) or op._schema.is_mutable or not op._schema.arguments:
        return False
    return op._schema.arguments[0].alias_info is not None and bool(op._schema.returns)


@functools.cache
def as_view(op: Overload) -> Overload | None:
    """The view op with the same meaning: of a view itself, of _unsafe_view, of permute_copy and the like."""
    if is_view(op):
        return op
    if op is aten._unsafe_view.default:
        return aten.view.default
    namespace, name = op._schema.name.split("::")
    plain = name.removesuffix("_copy") if name.endswith("_copy") else name.removeprefix("unsafe_")
    if namespace != "aten" or plain == name or not hasattr(aten, plain):
        return None
    packet = getattr(aten, plain)
    overload = op._overloadname if op._overloadname in packet.overloads() else None
    return None if overload is None or not is_view(getattr(packet, overload)) else getattr(packet, overload)


_EMPTY = {
    aten.empty.memory_format,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.new_empty_strided.default,
}


_CONJUGATES = {aten._conj.default, aten.conj.default, aten._neg_view.default}
_INDEXING = {
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten._unsafe_index_put.default,
}
_IDENTITY = {aten.lift_fresh_copy.default, aten.lift_fresh.default}
_PLACEMENT = ("device", "layout", "memory_format", "pin_memory", "generator")


def is_handled(op: Overload) -> bool:
    """Whether lower_call knows the op without a lowering of its own."""
    return as_view(op) is not None or op in _EMPTY or op in _IDENTITY or op in _CONJUGATES


def lower_call(core: Any, graph: Any, node: Node, convert: Convert) -> tuple[Any, Node | None]:
    """Add a call to the graph. Returns its id or list of ids, and for a view the node it is a view of.

    NotImplementedError when the op table has no lowering for it.
    """
    target, args, kwargs = node.target, node.args, node.kwargs
    view = as_view(target)
    if view is not None:
        ids = _lower_view(core, graph, node, view, convert)
        if ids is not None:
            return ids, node.args[0] if is_view(target) else None
    if target is aten.index_put.default and (ids := _masked_put(core, graph, node, convert)) is not None:
        return ids, None
    if target in _INDEXING and any(_is_mask(index) for index in node.args[1]):
        raise NotImplementedError("how many elements a mask picks depends on data")
    if target in _EMPTY:  # what it holds is not defined; zeros are
        value = node.meta["val"]
        target, args, kwargs = aten.full.default, ([int(s) for s in value.shape], 0), {"dtype": value.dtype}
    elif target is torch.ops.prims.convert_element_type.default:
        target, args, kwargs = aten._to_copy.default, args[:1], {"dtype": args[1]}
    elif target in _IDENTITY:
        target = aten.clone.default
    elif target in _CONJUGATES:
        target = aten.neg.default if target is aten._neg_view.default else aten._conj_physical.default
    ids = graph.node(full_name(target), _arguments(core, node, target, args, kwargs, convert))
    return _checked(core, graph, node, ids), None


def _is_mask(index: Node | None) -> bool:
    return index is not None and index.meta["val"].dtype in (torch.bool, torch.uint8)


def _masked_put(core: Any, graph: Any, node: Node, convert: Convert) -> int | None:
    """x[mask] = number as a selection: how many elements the mask picks does not matter then."""
    base, indices, value = node.args[:3]
    accumulate = node.args[3] if len(node.args) > 3 else node.kwargs.get("accumulate", False)
    if accumulate or len(indices) != 1 or value.meta["val"].numel() != 1 or value.meta["val"].dim() > 1:
        return None
    if not _is_mask(indices[0]):
        return None
    mask = indices[0].meta["val"]
    sizes = [int(s) for s in mask.shape] + [1] * (base.meta["val"].dim() - mask.dim())
    strides = torch.empty(sizes, device="meta").stride()
    chosen = graph.view(convert(indices[0]).id, sizes, list(strides), 0)
    refs = [core.Ref(chosen), core.Ref(convert(value).id), core.Ref(convert(base).id)]
    return _checked(core, graph, node, graph.node("aten::where.self", refs))


def _arguments(core: Any, node: Node, target: Overload, args: Any, kwargs: Any, convert: Convert) -> list[Any]:
    """One entry per schema argument, in its order."""

    def plain(arg: Any) -> Any:
        if isinstance(arg, list | tuple):
            return [plain(a) for a in arg]
        arg = convert(arg)
        if isinstance(arg, Ref):
            return core.Ref(arg.id)
        return arg

    given: list[Any] = []
    for at, argument in enumerate(target._schema.arguments):
        if at < len(args):
            value = args[at]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            value = argument.default_value if argument.has_default_value() else None
        if argument.name == "dtype" and not isinstance(value, torch.dtype) and not node.all_input_nodes:
            value = node.meta["val"].dtype  # a factory: torch's default type of the moment of tracing, or the schema's
        # Where a value lies and in which order is not the program's business; it draws from the default generator.
        given.append(None if argument.name in _PLACEMENT else plain(value))
    return given


def _checked(core: Any, graph: Any, node: Node, ids: list[int]) -> Any:
    """The ids in the form of the op's result, after a look at whether the lowering gives what PyTorch says."""
    value = node.meta["val"]
    expected = list(value) if isinstance(value, list | tuple) else [value]
    ids = list(ids)
    for at, (value_id, tensor) in enumerate(zip(ids, expected, strict=True)):
        if not isinstance(tensor, torch.Tensor) or value_id < 0:
            continue
        dtype, sizes = graph.result_type(value_id)
        if at > 0 and dtype.is_floating_point and tensor.dtype.is_floating_point and dtype != tensor.dtype:
            # What a norm keeps for its backward pass is in the input's type on the CPU, as the lowering has it, and in
            # float32 on other devices, as the graph says.
            ids[at] = graph.node("aten::_to_copy", [core.Ref(value_id), tensor.dtype, *[None] * 3, False, None])[0]
            dtype = tensor.dtype
        if dtype != tensor.dtype or list(sizes) != [int(s) for s in tensor.shape]:
            raise RuntimeError(
                f"[{node.target}] must give {tensor.dtype} {list(tensor.shape)} as PyTorch does, "
                f"got {dtype} {list(sizes)} from its lowering (TP0001)"
            )
    return list(ids) if isinstance(value, list | tuple) else ids[0]


def _lower_view(core: Any, graph: Any, node: Node, view: Overload, convert: Convert) -> Any:
    """The call as strided reads of its dense input, or None when it is more than a read (a conjugate, a negative)."""
    source = node.args[0]
    if not isinstance(source, Node):
        return None
    base = source.meta["val"]
    sizes = [int(s) for s in base.shape]
    ref = convert(source)
    if view is aten.as_strided.default:
        return _lower_as_strided(graph, node, ref.id)

    def plain(arg: Any) -> Any:
        if isinstance(arg, list | tuple):
            return [plain(a) for a in arg]
        return convert(arg)

    with _disable_current_modes():
        dense = torch.empty(sizes, dtype=base.dtype, device="meta")
        got = view(dense, *(plain(a) for a in node.args[1:]), **{k: plain(a) for k, a in node.kwargs.items()})
    parts = got if isinstance(got, list | tuple) else [got]
    if any(p.is_conj() or p.is_neg() for p in parts):
        return None
    ids = [_read(graph, ref.id, dense, p) for p in parts]
    return ids if isinstance(got, list | tuple) else ids[0]


def _read(graph: Any, value_id: int, base: torch.Tensor, view: torch.Tensor) -> int:
    if view.dtype != base.dtype:
        return graph.view(value_id, list(view.shape), list(view.stride()), view.storage_offset(), view.dtype)
    if view.shape == base.shape and view.storage_offset() == 0 and view.stride() == base.stride():
        return value_id  # alias, detach and other views of the whole
    return graph.view(value_id, list(view.shape), list(view.stride()), view.storage_offset())


def _lower_as_strided(graph: Any, node: Node, value_id: int) -> int:
    """as_strided speaks of the storage, so the input must be all of its storage, in whatever order of dimensions."""
    base = node.args[0].meta["val"]
    sizes, strides = ([int(s) for s in node.args[at]] for at in (1, 2))
    offset = node.args[3] if len(node.args) > 3 else node.kwargs.get("storage_offset")
    offset = int(base.storage_offset() if offset is None else offset)
    order = sorted(range(base.dim()), key=lambda d: (-int(base.stride(d)), d))
    step = 1
    for d in reversed(order):
        if base.size(d) != 1 and base.stride(d) != step:
            raise NotImplementedError("as_strided of a view that does not cover its storage")
        step *= max(int(base.size(d)), 1)
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if base.storage_offset() != 0 or (0 not in sizes and last >= base.numel()):
        raise NotImplementedError("as_strided of a view that does not cover its storage")
    if order != list(range(base.dim())):
        dense = torch.empty(base.shape, device="meta").stride()
        value_id = graph.view(value_id, [int(base.size(d)) for d in order], [dense[d] for d in order], 0)
    return graph.view(value_id, sizes, strides, offset)
