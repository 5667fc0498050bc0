"""A plan at run time: slots that hold tensors, and the steps that fill them. plan.py makes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import map_aggregate


class Plan:
    """Runs the steps over a list of slots. The first slots are the arguments."""

    def __init__(
        self, slots: list[Any], arguments: int, steps: list[Callable[[list], None]], outputs: list[Any]
    ) -> None:
        self.slots, self.arguments, self.steps, self.outputs = slots, arguments, steps, outputs
        # The caller hands over a list, so that tensors go as soon as they are used. On the instance: wrappers copy it.
        self._boxed_call = True

    def __call__(self, args: list[Any]) -> list[Any]:
        slots = self.slots.copy()
        slots[: self.arguments] = args
        args.clear()
        with torch.no_grad():
            for step in self.steps:
                step(slots)
        return [slots[out.slot] if isinstance(out, Slot) else out for out in self.outputs]


class Slot:
    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


class Call:
    """A step that runs one op eagerly: a view of a tensor at hand, or an op that no program can take."""

    def __init__(self, target: Callable[..., Any], args: Any, kwargs: Any, out: int) -> None:
        self.target, self.args, self.kwargs, self.out = target, args, kwargs, out
        self.drop: list[int] = []

    def __call__(self, slots: list[Any]) -> None:
        def fill(a: Any) -> Any:
            return slots[a.slot] if isinstance(a, Slot) else a

        slots[self.out] = self.target(*map_aggregate(self.args, fill), **map_aggregate(self.kwargs, fill))
        for slot in self.drop:
            slots[slot] = None


class Program:
    """A step that runs one compiled program."""

    def __init__(self, exe: Any, inputs: list[int], outputs: list[int]) -> None:
        self.exe, self.inputs, self.outputs = exe, inputs, outputs
        self.prepare: list[tuple[int, Callable[[torch.Tensor], torch.Tensor]]] = []
        self.strides: list[tuple[int, list[int], list[int]]] = []
        self.drop: list[int] = []

    def __call__(self, slots: list[Any]) -> None:
        inputs = [slots[i] for i in self.inputs]
        for at, change in self.prepare:
            inputs[at] = change(inputs[at])
        for slot in self.drop:
            slots[slot] = None
        for slot, result in zip(self.outputs, self.exe(inputs), strict=True):
            slots[slot] = result
        for slot, sizes, strides in self.strides:
            slots[slot] = slots[slot].as_strided(sizes, strides)


def slots_in(value: Any) -> list[Slot]:
    found: list[Slot] = []
    map_aggregate(value, lambda a: found.append(a) if isinstance(a, Slot) else None)
    return found
