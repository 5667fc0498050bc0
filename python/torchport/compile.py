"""torch.compile(backend="torchport"): AOTAutograd's functional graph becomes one program through eager's op table.

backend() -> AOTAutograd (functional forward and backward graphs) -> plan.build() -> one Program, or Programs with steps
between them that run eagerly because an op has no lowering. Those steps are counted in torchport.report() and logged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import device_interface
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from torch.utils.checkpoint import CheckpointPolicy

import torchport
from torchport import fake, plan
from torchport.rewrite import full_name, is_handled

ledger = plan.Ledger()
fake.register()


def backend(gm: GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """What torch.compile calls with a traced graph."""
    core = torchport._core()
    unknown = {name: value for name, value in options.items() if value}
    if unknown:
        raise ValueError(f"[torch.compile] must be called without mode and options, got {unknown} (TP0340)")
    _register_interface()
    specialise(example_inputs)
    compiler = functools.partial(_compile, core)
    return aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(core),
        partition_fn=_partition,
    )(gm, example_inputs)


def _compile(core: Any, gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return plan.build(core, gm, ledger)


def specialise(example_inputs: Sequence[Any]) -> None:
    """Programs have static shapes: turn every symbolic size into the number at hand, with the guard that goes with it.

    torch.compile traces with symbolic sizes when it meets a second shape (or when asked by dynamic=True); with guards
    each shape gets its own program.
    """
    for value in example_inputs:
        sizes: list[Any] = [value]
        if isinstance(value, torch.Tensor):
            sizes = [*value.size(), *value.stride(), value.storage_offset()]
        for size in sizes:
            if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool):
                plan.concrete(size)


@functools.cache
def decompositions(core: Any) -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions, for those ops alone that have no lowering of their own."""
    from torch._decomp import core_aten_decompositions, global_decomposition_table

    table: dict[Any, Callable[..., Any]] = {}
    # torch._decomp stays within aten; torch._refs, the other source of the global table, ends in prims.
    for op, function in global_decomposition_table["post_autograd"].items():
        if getattr(function, "__module__", "").startswith("torch._decomp"):
            table[op] = function
    table.update(core_aten_decompositions().items())
    return {
        op: function
        for op, function in table.items()
        if isinstance(op, torch._ops.OpOverload) and not is_handled(op) and not core.has_lowering(full_name(op))
    }


def _partition(joint: GraphModule, joint_inputs: Any, **kwargs: Any) -> tuple[GraphModule, GraphModule]:
    """Min-cut, but a random op is never run again in the backward: the device's generator would have moved on."""
    for node in joint.graph.nodes:
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
            for user in node.users:
                if plan.is_getitem(user):
                    user.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return min_cut_rematerialization_partition(joint, joint_inputs, **kwargs)


@functools.cache
def _register_interface() -> None:
    """Tell Dynamo how to use streams and devices here. It has an entry of its own for `tpu`, meant for another package."""
    device_interface.init_device_reg()
    module = torch.get_device_module(torch._C._get_privateuse1_backend_name())

    class Interface(device_interface.DeviceInterface):
        device = module.device
        Event = module.Event
        Stream = module.Stream
        current_device = staticmethod(module.current_device)
        set_device = staticmethod(module.set_device)
        device_count = staticmethod(module.device_count)
        is_available = staticmethod(module.is_available)
        stream = staticmethod(module.stream)
        current_stream = staticmethod(module.current_stream)
        set_stream = staticmethod(module.set_stream)
        synchronize = staticmethod(module.synchronize)
        get_device_properties = staticmethod(module.get_device_properties)
        get_compute_capability = staticmethod(module.get_device_capability)
        is_bf16_supported = staticmethod(module.is_bf16_supported)
        memory_allocated = staticmethod(module.memory_allocated)
        exchange_device = staticmethod(torchport._core().exchange_device)
        maybe_exchange_device = staticmethod(torchport._core().maybe_exchange_device)

        class Worker:
            set_device = staticmethod(module.set_device)
            current_device = staticmethod(module.current_device)
            get_device_properties = staticmethod(module.get_device_properties)

    name = torch._C._get_privateuse1_backend_name()
    device_interface.register_interface_for_device(name, Interface)
    for i in range(module.device_count()):
        device_interface.register_interface_for_device(f"{name}:{i}", Interface)
