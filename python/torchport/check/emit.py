"""A traced step as one StableHLO program for a platform and a mesh, through the op table that every other way uses too."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node

import torchport
from torchport.check.abstract import Slot, Step, WorkloadError
from torchport.check.sharding import Mesh, Plan
from torchport.rewrite import Ref, full_name, lower_call


@dataclass(frozen=True)
class Placed:
    """An argument or result: what it is, how it lies on the mesh, and what one device holds of it."""

    slot: Slot
    sharding: str
    shard: tuple[int, ...]
    donated: bool = False

    @property
    def shard_bytes(self) -> int:
        return torch.Size(self.shard).numel() * self.slot.dtype.itemsize


@dataclass(frozen=True)
class Program:
    """text: StableHLO for `partitions` devices. Donated arguments come back as results, after the others."""

    text: str
    partitions: int
    arguments: list[Placed]
    results: list[Placed]
    words: int  # 32-bit words of a last argument that holds random state; 0: no such argument
    checks: int  # a last result that is not 0 when an index was out of bounds; 0: no such result


class _Emitter:
    def __init__(self, step: Step, platform: str, plan: Plan) -> None:
        self.core = torchport._core()
        self.step, self.plan = step, plan
        self.graph = self.core.Graph(platform)
        self.ids: dict[Node, Any] = {}

    def inside(self, arg: Any) -> Any:
        return Ref(self.ids[arg]) if isinstance(arg, Node) else arg

    def emit(self) -> Program:
        for node, slot in self.step.inputs:
            self.ids[node] = self.graph.input(slot.dtype, list(slot.shape))
        for node in self.step.graph.graph.nodes:
            if node.op == "get_attr":
                self.constant(node)
            elif node.op == "call_function" and node not in self.ids:
                self.call(node)
        self.graph.outputs([self.ids[node] for node, _ in self.step.outputs])
        for target, value in self.step.writes:
            self.graph.write(self.ids[target], self.ids[value])
        mesh = self.plan.mesh
        written = {target for target, _ in self.step.writes}
        arguments = [self.placed(slot, node in written) for node, slot in self.step.inputs]
        results = [self.placed(slot) for _, slot in self.step.outputs]
        lowered = self.graph.lower(mesh.devices, [a.sharding for a in arguments], [r.sharding for r in results])
        results += [arguments[i] for i in lowered["written"]]
        return Program(lowered["text"], mesh.devices, arguments, results, lowered["words"], lowered["checks"])

    def placed(self, slot: Slot, donated: bool = False) -> Placed:
        mesh, spec = self.plan.mesh, self.plan.of(slot)
        return Placed(slot, mesh.text(spec), mesh.shard(slot.shape, spec), donated)

    def constant(self, node: Node) -> None:
        """A tensor that the model makes from a Python number: part of the program."""
        value = operator.attrgetter(node.target)(self.step.graph)
        value = getattr(value, "constant", None) if isinstance(value, FakeTensor) else value
        if value is None or value.numel() != 1:
            raise WorkloadError(
                f"[--model] must make no tensors of several elements from Python lists while it runs, got {node.target}"
            )
        schema = torch.ops.aten.full.default._schema.arguments
        given = {"size": list(value.shape), "fill_value": value.item(), "dtype": value.dtype}
        self.ids[node] = self.graph.node("aten::full", [given.get(argument.name) for argument in schema])[0]

    def call(self, node: Node) -> None:
        target = node.target
        if target is torch.ops.aten.copy_.default:
            return
        if target is operator.getitem:
            self.ids[node] = self.ids[node.args[0]][node.args[1]]
        elif target is torch.ops.torchport.barrier.default:
            self.ids[node] = self.graph.barrier([self.ids[a] for a in node.args[0]])
        elif target is torch.ops.torchport.mark.default:
            value, mesh = node.args[0], self.plan.mesh
            spec = self.plan.of_mark(node.meta["val"].shape)
            one = mesh.devices == 1
            self.ids[node] = self.ids[value] if one else self.graph.sharding(self.ids[value], mesh.text(spec))
        else:
            try:
                self.ids[node], _ = lower_call(self.core, self.graph, node, self.inside)
            except NotImplementedError as error:
                name = full_name(target) if isinstance(target, torch._ops.OpOverload) else str(target)
                raise WorkloadError(f"[{name}] must have a lowering, got none: {error}") from error
            except RuntimeError as error:  # the op table refuses what the op is given; its message names both
                raise WorkloadError(str(error)) from error


def emit(step: Step, platform: str, mesh: Mesh) -> Program:
    """The step as a program for all devices of the mesh."""
    return _Emitter(step, platform, Plan(mesh, step.model)).emit()
