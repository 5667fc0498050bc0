"""The four ways a sample of PyTorch's op database is run: forward, backward, out= and in-place, on CPU and on a device.

Each function returns True when the sample was compared and False when the CPU itself refuses it.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from conformance.compare import assert_same, undetermined

SEED = 0


def supports(op: OpInfo, dtype: torch.dtype, mode: str) -> bool:
    """Whether CPU PyTorch has this op for this dtype in this mode."""
    if dtype not in op.supported_dtypes("cpu"):
        return False
    if mode == "backward":
        return op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    if mode == "out":
        return op.supports_out
    if mode == "inplace":
        return op.get_inplace() is not None
    return True


def samples(op: OpInfo, dtype: torch.dtype, mode: str, count: int) -> list[SampleInput]:
    """The first samples of an op, the same on every call."""
    torch.manual_seed(SEED)
    return list(op.sample_inputs("cpu", dtype, requires_grad=mode == "backward"))[:count]


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors of a pytree that want gradients."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


class Call:
    """A sample's arguments, copied to a device."""

    def __init__(
        self, sample: SampleInput, device: str | torch.device, grad: bool = False, layout: Callable | None = None
    ):
        def copy(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            moved = leaf.detach().clone() if torch.device(device).type == "cpu" else leaf.detach().to(device)
            moved = layout(moved) if layout else moved
            if grad and (moved.is_floating_point() or moved.is_complex()):
                moved.requires_grad_(leaf.requires_grad)
            return moved

        self.input, self.args, self.kwargs = tree_map(copy, (sample.input, sample.args, sample.kwargs))
        if self.kwargs.get("device") is not None:
            self.kwargs["device"] = device

    def __call__(self, function: Callable, **extra: Any) -> Any:
        torch.manual_seed(SEED)
        return function(self.input, *self.args, **self.kwargs, **extra)

    def leaves(self) -> list[torch.Tensor]:
        """The arguments that want gradients."""
        return tensors((self.input, self.args, self.kwargs))


def reference(call: Callable[[], Any]) -> tuple[bool, Any]:
    """Runs the CPU's side; an op that the CPU refuses sets no expectation."""
    try:
        return True, call()
    except Exception:  # noqa: BLE001 (any refusal counts)
        return False, None


def forward(
    op: OpInfo,
    sample: SampleInput,
    dtype: torch.dtype,
    device: Any,
    tol: tuple | None = None,
    layout: Callable | None = None,
) -> bool:
    """Compares the results of a plain call."""
    valid, want = reference(lambda: Call(sample, "cpu", layout=layout)(op))
    if not valid:
        return False
    assert_same(want, Call(sample, device, layout=layout)(op), dtype, not undetermined(op.full_name), tol)
    return True


def backward(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares the results and the gradients of every input."""
    host, values = Call(sample, "cpu", grad=True), not undetermined(op.full_name)
    valid, want = reference(lambda: host(op))
    if not valid:
        return False
    port = Call(sample, device, grad=True)
    got = port(op)
    assert_same(want, got, dtype, values, tol)
    wants, gots = tensors(sample.output_process_fn_grad(want)), tensors(sample.output_process_fn_grad(got))
    assert len(wants) == len(gots), f"{len(gots)} outputs require grad, wants {len(wants)}"
    if not (wants and host.leaves()):
        return True
    valid, grads = reference(lambda: gradients(wants, host.leaves()))
    if not valid:
        return False
    actual = gradients(gots, port.leaves())
    present = [g is not None for g in grads]
    assert present == [g is not None for g in actual], "gradients reach other inputs than on CPU"
    assert_same([g for g in grads if g is not None], [g for g in actual if g is not None], dtype, values, tol)
    return True


def gradients(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> Iterable[torch.Tensor | None]:
    """Gradients of the outputs' sum."""
    return torch.autograd.grad(outputs, inputs, [torch.ones_like(o) for o in outputs], allow_unused=True)


def out(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares what an out= call writes; the returned tensor must be the one given."""
    valid, shape = reference(lambda: Call(sample, "cpu")(op))
    if not valid or not isinstance(shape, torch.Tensor):
        return False
    want = torch.empty_like(shape)
    valid, _ = reference(lambda: Call(sample, "cpu")(op, out=want))
    if not valid:
        return False
    got = torch.empty_like(shape, device=device)
    assert Call(sample, device)(op, out=got) is got, "out= call returned another tensor"
    assert_same(want, got, dtype, not undetermined(op.full_name), tol)
    return True


def inplace(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares the result of the in-place form and what it leaves in its input."""
    if sample.broadcasts_input:
        return False
    host, port, values = Call(sample, "cpu"), Call(sample, device), not undetermined(op.full_name)
    valid, want = reference(lambda: host(op.get_inplace()))
    if not valid:
        return False
    assert_same(want, port(op.get_inplace()), dtype, values, tol)
    assert_same(host.input, port.input, dtype, values, tol)
    return True


MODES: dict[str, Callable[..., bool]] = {"forward": forward, "backward": backward, "out": out, "inplace": inplace}
