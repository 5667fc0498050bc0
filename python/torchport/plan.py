"""From a functional FX graph to a plan: programs, and between them the steps that no program can take.

Inside a program values are dense and have no strides, so every view op is one strided read whose geometry the op itself
gives when it runs on a dense meta tensor. Strides that the caller will see are put back on the program's results.
Steps keep the graph's order wherever random numbers are drawn, so compiled code draws what eager code would.
"""

from __future__ import annotations

import logging
import operator
import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import _disable_current_modes

from torchport.rewrite import Ref, full_name, is_view, lower_call
from torchport.steps import Call, Plan, Program, Slot, slots_in

log = logging.getLogger("torchport")
log.setLevel((os.environ.get("TORCHPORT_LOG") or "warning").upper())
_CHECKS = {  # what they check is already certain: the program is for exactly these shapes and types
    torch.ops.aten._assert_tensor_metadata.default,
    torch.ops.aten.sym_constrain_range.default,
    torch.ops.aten.sym_constrain_range_for_size.default,
}
__all__ = ["Ledger", "Plan", "build", "concrete", "full_name", "is_getitem", "is_view"]


class Ledger:
    """What torch.compile made, for torchport.report()."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.graphs = 0
        self.programs = 0
        self.eager: Counter[tuple[str, str]] = Counter()

    def as_dict(self) -> dict[str, Any]:
        steps = [{"op": op, "why": why, "count": count} for (op, why), count in self.eager.most_common()]
        return {"graphs": self.graphs, "programs": self.programs, "eager_steps": steps}


def is_getitem(node: Node) -> bool:
    return node.target is operator.getitem


def concrete(size: Any) -> Any:
    """The number behind a symbolic one, with a guard; sizes that depend on data have none."""
    if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
        if free_unbacked_symbols(size):
            raise RuntimeError(
                f"[torch.compile] must have static shapes, got a size that depends on data ({size}) (TP0130). "
                "Try: dynamic=False, and torch._dynamo.config.capture_dynamic_output_shape_ops = False"
            )
        kind = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(size)]
        return kind(size)
    return size


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)


def _is_static(tensor: torch.Tensor) -> bool:
    return not any(isinstance(s, torch.SymInt) and free_unbacked_symbols(s) for s in tensor.shape)


def _sizes(tensor: torch.Tensor) -> list[int]:
    return [concrete(s) for s in tensor.shape]


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


class _Segment:
    """Nodes that go into one program."""

    def __init__(self, core: Any, device: torch.device) -> None:
        self.graph = core.Graph()
        self.device = device
        self.ids: dict[Node, Any] = {}  # a value's id, or a list of ids
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.members: set[Node] = set()
        self.views: dict[Node, Node] = {}  # view -> what it is a view of
        self.random = False

    def add(self, node: Node, ids: Any) -> None:
        self.ids[node] = ids
        self.nodes.append(node)
        self.members.add(node)
        if isinstance(ids, list):
            for user in node.users:
                if is_getitem(user):
                    self.ids[user] = ids[user.args[1]]
                    self.nodes.append(user)
                    self.members.add(user)
                    if node in self.views:
                        self.views[user] = node


class _Refused(Exception):
    """Why a node cannot go into a program."""


class _Builder:
    def __init__(self, core: Any, gm: GraphModule, ledger: Ledger) -> None:
        self.core, self.gm, self.ledger = core, gm, ledger
        self.name = torch._C._get_privateuse1_backend_name()
        self.slots: list[Any] = []  # constants stand in their slots from the start
        self.slot_of: dict[Node, int] = {}
        self.constant: set[Node] = set()
        self.numbers: dict[Node, Any] = {}  # symbolic sizes, now numbers
        self.steps: list[Any] = []
        self.segment: _Segment | None = None
        self.outside_steps: Counter[tuple[str, str]] = Counter()

    def build(self) -> Plan:
        nodes = list(self.gm.graph.nodes)
        arguments = sum(node.op == "placeholder" for node in nodes)
        outputs: list[Any] = []
        self.escaping = self.find_escaping(nodes[-1])
        for node in nodes:
            if node.op == "placeholder":
                self.new_slot(node)
                self.note_number(node)
            elif node.op == "get_attr":
                self.new_slot(node, operator.attrgetter(node.target)(self.gm))
                self.constant.add(node)
            elif node.op == "output":
                self.close()
                outputs = [self.outside(out) for out in node.args[0]]
            elif node not in self.slot_of and (self.segment is None or node not in self.segment.ids):
                self.call(node)
        self.drop_early({out.slot for out in outputs if isinstance(out, Slot)})
        if self.outside_steps:
            self.ledger.eager += self.outside_steps
            steps = "; ".join(f"{op} x {count}: {why}" for (op, why), count in self.outside_steps.most_common())
            log.warning("torch.compile: %d steps run outside the programs: %s", self.outside_steps.total(), steps)
        return Plan(self.slots, arguments, self.steps, outputs)

    @staticmethod
    def find_escaping(output: Node) -> set[Node]:
        """Nodes whose memory the caller gets: the outputs and what they are views of."""
        escaping: set[Node] = set()
        for node in output.all_input_nodes:
            while node not in escaping:
                escaping.add(node)
                if node.op == "call_function" and (is_getitem(node) or is_view(node.target)):
                    node = node.args[0]
        return escaping

    # -- values outside programs

    def new_slot(self, node: Node, value: Any = None) -> int:
        self.slots.append(value)
        self.slot_of[node] = len(self.slots) - 1
        return self.slot_of[node]

    def note_number(self, node: Node) -> bool:
        value = node.meta.get("val")
        symbolic = isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
        if isinstance(value, int | float) or (symbolic and not free_unbacked_symbols(value)):
            self.numbers[node] = concrete(value)
        return node in self.numbers

    def outside(self, arg: Any) -> Any:
        if isinstance(arg, Node):
            return self.numbers[arg] if arg in self.numbers else Slot(self.slot_of[arg])
        return concrete(arg)

    # -- one node

    def call(self, node: Node) -> None:
        if self.note_number(node) or node.target in _CHECKS:
            return
        if is_getitem(node):  # of a step's result; a program's results are split when it is made
            self.eager(node, None)
            return
        try:
            self.join(node)
        except _Refused as why:
            self.eager(node, str(why))

    def join(self, node: Node) -> None:
        """Add the node to the open program, or to a new one when it is for another device."""
        if not isinstance(node.target, torch._ops.OpOverload):
            raise _Refused("not an aten op")
        results = list(_tensors(node.meta.get("val")))
        if not results:
            raise _Refused("no tensor as a result")
        devices = {t.device for t in results}
        for arg in node.all_input_nodes:
            for tensor in _tensors(arg.meta.get("val")):
                if not (tensor.device.type == "cpu" and tensor.dim() == 0):
                    devices.add(tensor.device)
                results.append(tensor)
        if any(device.type != self.name for device in devices):
            raise _Refused("on " + ", ".join(sorted({device.type for device in devices} - {self.name})))
        if len(devices) != 1:
            raise _Refused("on several devices")
        if not all(map(_is_static, results)):
            raise _Refused("a shape depends on data")
        if _is_random(node) and self.core.random_mode() == "cpu":
            raise _Refused("the CPU's random numbers are drawn on the host")
        if any(t.layout != torch.strided for t in results):
            raise _Refused("not a dense layout")
        device = devices.pop()
        if self.segment is not None and self.segment.device != device:
            self.close()
        if self.segment is None:
            self.segment = _Segment(self.core, device)
        segment = self.segment
        try:
            ids, base = lower_call(self.core, segment.graph, node, self.inside)
        except NotImplementedError as err:
            raise _Refused(str(err).splitlines()[0]) from err
        if base is not None:
            segment.views[node] = base
        segment.add(node, ids)
        segment.random |= _is_random(node)

    def inside(self, arg: Any) -> Any:
        """An argument as the program's graph takes it."""
        if not isinstance(arg, Node):
            return concrete(arg)
        if arg in self.numbers:
            return self.numbers[arg]
        segment = self.segment
        assert segment is not None
        if arg not in segment.ids:
            value = arg.meta["val"] if "val" in arg.meta else self.slots[self.slot_of[arg]]
            segment.ids[arg] = segment.graph.input(value.dtype, _sizes(value))
            segment.inputs.append(arg)
        return Ref(segment.ids[arg])

    def eager(self, node: Node, why: str | None) -> None:
        """A step between programs. It may overtake the open program, unless it needs a result or draws after it."""
        if self.segment is not None:
            needs = any(arg in self.segment.members for arg in node.all_input_nodes)
            if needs or (_is_random(node) and self.segment.random):
                self.close()
        args, kwargs = (map_aggregate(a, self.outside) for a in (node.args, node.kwargs))
        if self.is_foldable(node):
            with unset_fake_temporarily(), _disable_current_modes(), torch.no_grad():
                fill = self.slots
                value = node.target(
                    *map_aggregate(args, lambda a: fill[a.slot] if isinstance(a, Slot) else a),
                    **map_aggregate(kwargs, lambda a: fill[a.slot] if isinstance(a, Slot) else a),
                )
            self.new_slot(node, value)
            self.constant.add(node)
            return
        self.steps.append(Call(node.target, args, kwargs, self.new_slot(node)))
        if why is not None:
            op = full_name(node.target) if isinstance(node.target, torch._ops.OpOverload) else str(node.target)
            self.outside_steps[op, why] += 1

    def is_foldable(self, node: Node) -> bool:
        """Whether the node gives the same each time and no caller gets to keep (and change) it."""
        return (
            node.op == "call_function"
            and isinstance(node.target, torch._ops.OpOverload)
            and not _is_random(node)
            and not node.target._schema.is_mutable
            and bool(list(_tensors(node.meta.get("val"))))
            and all(arg in self.constant or arg in self.numbers for arg in node.all_input_nodes)
            and node not in self.escaping
        )

    # -- the end of a program

    def close(self) -> None:
        """Compile the open program; its results that others use become slots."""
        segment, self.segment = self.segment, None
        if segment is None:
            return
        wanted = [
            node
            for node in segment.nodes
            if not isinstance(segment.ids[node], list) and any(user not in segment.members for user in node.users)
        ]
        # A list whose elements were taken apart is complete; one that leaves whole does not occur in aten graphs.
        # Views are taken outside, on what they view: free, and the outputs share memory as in eager code.
        computed = [node for node in wanted if node not in segment.views]
        for node in wanted:
            root = self.root(segment, node)
            if root in segment.members and root not in computed:
                computed.append(root)
        if computed:
            self.compile(segment, computed)
        for node in wanted:
            self.replay(segment, node)

    @staticmethod
    def root(segment: _Segment, node: Node) -> Node:
        """What a chain of views looks at."""
        while node in segment.views:
            node = segment.views[node]
        return node

    def replay(self, segment: _Segment, node: Node) -> None:
        if node in self.slot_of:
            return
        for arg in node.all_input_nodes:
            self.replay(segment, arg)
        args, kwargs = (map_aggregate(a, self.outside) for a in (node.args, node.kwargs))
        self.steps.append(Call(node.target, args, kwargs, self.new_slot(node)))

    def compile(self, segment: _Segment, computed: list[Node]) -> None:
        graph = segment.graph
        ids: list[int] = []
        strides: list[tuple[int, list[int], list[int]]] = []
        outputs: list[int] = []
        for node in computed:
            value_id, slot, value = segment.ids[node], self.new_slot(node), node.meta["val"]
            order = memory_order(value)
            if order is not None:
                sizes, seen = _sizes(value), dense_strides(_sizes(value))
                value_id = graph.view(value_id, [sizes[d] for d in order], [seen[d] for d in order], 0)
                strides.append((slot, sizes, dense_strides(sizes, order)))
            ids.append(value_id)
            outputs.append(slot)
        graph.outputs(ids)
        exe = graph.compile(segment.device.index or 0)
        program = Program(exe, [self.slot_of[node] for node in segment.inputs], outputs)
        program.strides = strides
        for at, node in enumerate(segment.inputs):
            if (change := preparation(node.meta.get("val"), segment.device)) is not None:
                program.prepare.append((at, change))
        self.steps.append(program)
        self.ledger.programs += 1

    def drop_early(self, kept: set[int]) -> None:
        """Let each step drop the tensors that no later step uses."""
        constants = {self.slot_of[node] for node in self.constant}
        seen = kept | constants
        for step in reversed(self.steps):
            used = (
                set(step.inputs) if isinstance(step, Program) else {s.slot for s in slots_in((step.args, step.kwargs))}
            )
            step.drop = sorted(used - seen)
            seen |= used


def dense_strides(sizes: list[int], order: list[int] | None = None) -> list[int]:
    """Strides of a dense tensor whose dimensions lie in memory in this order, outermost first."""
    strides, step = [0] * len(sizes), 1
    for d in reversed(order if order is not None else range(len(sizes))):
        strides[d] = step
        step *= max(sizes[d], 1)
    return strides


def memory_order(value: torch.Tensor) -> list[int] | None:
    """The order of dimensions in memory, when it is not the plain one."""
    if value.is_contiguous():
        return None
    strides = [concrete(s) for s in value.stride()]
    order = sorted(range(value.dim()), key=lambda d: -strides[d])
    return None if order == list(range(value.dim())) else order


def preparation(value: Any, device: torch.device) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """What must be done to an input before a program reads it."""
    if value is None:
        return None
    if value.device.type == "cpu":
        return lambda t: t.to(device)
    if value.is_conj() or value.is_neg():
        return lambda t: t.resolve_conj().resolve_neg()
    return None


def build(core: Any, gm: GraphModule, ledger: Ledger) -> Plan:
    """The plan for a functional graph."""
    ledger.graphs += 1
    return _Builder(core, gm, ledger).build()
