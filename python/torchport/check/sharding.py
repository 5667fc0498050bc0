"""How a step lies on a mesh of devices: axes dp, fsdp and tp, and one rule a parameter.

Axes are ordered with the one that talks most innermost, so that tp groups are neighbouring device numbers. dp and
fsdp split the batch; fsdp splits the parameters and what belongs to them as well; tp splits matrices by the plan that
the model's configuration brings (transformers' tp_plan), else by the usual names of column and row parallel layers.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch import nn

from torchport.check.abstract import Slot, Step, WorkloadError

AXES = ("dp", "fsdp", "tp")
BATCH = ("dp", "fsdp")
Spec = tuple[tuple[str, ...], ...]  # a dimension: the axes that split it

# Column parallel: outputs are split, so a row parallel layer after it, whose inputs are split, needs no exchange.
_COLUMN = re.compile(
    r"(q|k|v|qkv|gate|up|gate_up|in)_proj|query(_key_value)?|key|value|c_attn|c_fc|fc1|fc_in|wi(_\d)?|w1|w3"
    r"|intermediate\.dense|dense_h_to_4h|lm_head|embed_out"
)
_ROW = re.compile(r"(o|out|down|c)_proj|fc2|fc_out|wo|w2|output\.dense|attention\.dense|dense_4h_to_h|dense")


@dataclass(frozen=True)
class Mesh:
    """Sizes of the axes, all of them, outermost first."""

    sizes: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """`tp=8,fsdp=4`; axes that are not named have size 1."""
        given: dict[str, int] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, _, size = part.partition("=")
            if name not in AXES or name in given or not size.isdigit() or int(size) < 1:
                raise WorkloadError(
                    f"[--parallel] must be a list such as tp=8,fsdp=4 of {', '.join(AXES)}, each once, got {part!r}"
                )
            given[name] = int(size)
        return cls(tuple((axis, given.get(axis, 1)) for axis in AXES))

    @property
    def devices(self) -> int:
        return prod(size for _, size in self.sizes)

    def size(self, axes: Sequence[str]) -> int:
        return prod(dict(self.sizes)[axis] for axis in axes)

    def text(self, spec: Spec) -> str:
        """HloSharding's notation: tile sizes, then the device numbers as a transposed iota."""
        split = [axis for axes in spec for axis in axes if self.size((axis,)) > 1]
        if not split:
            return "{replicated}"
        kept = [axis for axis, size in self.sizes if size > 1 and axis not in split]
        tiles = [self.size(axes) for axes in spec]
        names = [axis for axis, size in self.sizes if size > 1]
        order = [names.index(axis) for axis in (*split, *kept)]
        tail = " last_tile_dim_replicate" if kept else ""
        if kept:
            tiles.append(self.size(kept))
        iota = f"[{self.devices}]"
        if order != sorted(order):
            iota = f"[{','.join(str(self.size((n,))) for n in names)}]T({','.join(map(str, order))})"
        return f"{{devices=[{','.join(map(str, tiles))}]<={iota}{tail}}}"

    def shard(self, shape: Sequence[int], spec: Spec) -> tuple[int, ...]:
        """Sizes of what one device holds (the largest, where a dimension does not divide)."""
        return tuple(-(-size // self.size(axes)) for size, axes in zip(shape, spec, strict=True))


class Plan:
    """A spec for every argument, result and mark of a step."""

    def __init__(self, mesh: Mesh, model: nn.Module) -> None:
        self.mesh, self.model = mesh, model
        self.tp_plan: dict[str, str] = dict(getattr(model, "tp_plan", None) or getattr(model, "_tp_plan", None) or {})
        self.parameters = {name: self.of_parameter(name, tuple(p.shape)) for name, p in model.named_parameters()}

    def of(self, slot: Slot) -> Spec:
        """The spec of an argument or result."""
        name, rank = slot.name, len(slot.shape)
        if slot.role == "optimizer":
            name = name.partition(".")[2]
        if name in self.parameters and rank == len(self.parameters[name]):
            return self.parameters[name]
        if slot.role == "cache" and rank == 4:  # [batch, heads, length, head size]
            return (self.batch(slot.shape[0]), *self.heads(slot.shape))
        if slot.name in ("input_ids", "labels"):
            return (self.batch(slot.shape[0]), *((),) * (rank - 1))
        if slot.name == "logits":
            tp = ("tp",) if slot.shape[-1] % self.mesh.size(("tp",)) == 0 else ()
            return (self.batch(slot.shape[0]), *((),) * (rank - 2), tp)
        return ((),) * rank

    def of_mark(self, shape: Sequence[int]) -> Spec:
        """Activations between layers: the batch is split, the rest is whole, as column parallel layers need it."""
        return (self.batch(shape[0]), *((),) * (len(shape) - 1))

    def batch(self, size: int) -> tuple[str, ...]:
        ways = self.mesh.size(BATCH)
        if size % ways:
            raise WorkloadError(
                f"[--batch] must be a multiple of dp * fsdp = {ways}, which split it, got {size}. "
                "Try: another batch, or more tp"
            )
        return BATCH

    def heads(self, shape: Sequence[int]) -> Spec:
        """The heads of a cache over tp, else (fewer heads than devices) the elements of a head."""
        ways = self.mesh.size(("tp",))
        if shape[1] % ways == 0:
            return (("tp",), (), ())
        if shape[3] % ways == 0:
            return ((), (), ("tp",))
        return ((), (), ())

    def of_parameter(self, name: str, shape: tuple[int, ...]) -> Spec:
        spec: list[tuple[str, ...]] = [()] * len(shape)
        at = self.tp_dim(name, shape)
        if at is not None and shape[at] % self.mesh.size(("tp",)) == 0:
            spec[at] = ("tp",)
        ways = self.mesh.size(("fsdp",))
        free = [d for d, axes in enumerate(spec) if not axes and shape[d] % ways == 0]
        if ways > 1 and len(shape) > 1 and free:
            spec[max(free, key=lambda d: (shape[d], -d))] = ("fsdp",)
        return tuple(spec)

    def tp_dim(self, name: str, shape: tuple[int, ...]) -> int | None:
        """The dimension that tp splits, or None."""
        layer, _, leaf = name.rpartition(".")
        module: Any = self.model.get_submodule(layer)
        if isinstance(module, nn.Embedding):
            return 0
        style = self.style(name, layer)
        if style is None:
            return None
        out, into = (-1, -2) if type(module).__name__ == "Conv1D" else (-2, -1)
        if leaf == "bias" or len(shape) == 1:
            return 0 if style == "column" and len(shape) == 1 and not _is_norm(module) else None
        return len(shape) + (out if style == "column" else into)

    def style(self, name: str, layer: str) -> str | None:
        """column or row, by the model's plan, else by the layer's name; None for what is replicated."""
        for pattern, style in self.tp_plan.items():
            if fnmatch.fnmatchcase(layer, pattern) or fnmatch.fnmatchcase(name, pattern):
                return "column" if "colwise" in style else "row" if "rowwise" in style else None
        if self.tp_plan:
            return None
        for style, names in (("row", _ROW), ("column", _COLUMN)):
            if re.search(rf"(^|\.)({names.pattern})$", layer):
                return style
        return None


def _is_norm(module: Any) -> bool:
    return "norm" in type(module).__name__.lower()


def check(step: Step, mesh: Mesh) -> None:
    """Refuse a mesh that the model cannot use."""
    heads = getattr(step.config.get_text_config(), "num_attention_heads", None)
    tp = mesh.size(("tp",))
    if heads is not None and heads % tp:
        raise WorkloadError(f"[--parallel] tp must divide the model's {heads} attention heads, got {tp}")
