"""The four ways a sample of PyTorch's op database is run: forward, backward, out= and in-place, on CPU and on a device.

Each function returns True when the sample was compared and False when the CPU itself refuses it. `errors` runs the
database's wrong calls.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from conformance.compare import assert_same, assert_strides, undetermined
from conformance.invariants import invariant, random_sample

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
    """The first samples of an op (all of them for count 0), the same on every call."""
    torch.manual_seed(SEED)
    return list(op.sample_inputs("cpu", dtype, requires_grad=mode == "backward"))[: count or None]


def tensors(tree: Any) -> list[torch.Tensor]:
    """The tensors of a pytree that want gradients."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


class Copier:
    """Copies tensors to a device as they lie in memory: strides, offset, and storages that several of them share."""

    def __init__(self, device: torch.device | str):
        self.device, self.storages = torch.device(device), {}

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach()
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and source.layout is torch.strided
        if source.device.type != "cpu":  # a wrong call's tensor on another device stays there
            return source
        if not plain or source.is_quantized or source.is_conj() or source.is_neg():
            return source.clone() if self.device.type == "cpu" else source.to(self.device)
        storage = source.untyped_storage()
        key = (storage.data_ptr(), storage.nbytes(), source.dtype)
        if key not in self.storages:
            flat = torch.empty(0, dtype=source.dtype, device=source.device)
            flat.set_(storage, 0, (storage.nbytes() // source.itemsize,))
            self.storages[key] = flat.clone() if self.device.type == "cpu" else flat.to(self.device)
        return self.storages[key].as_strided(source.shape, source.stride(), source.storage_offset())


class Call:
    """A sample's arguments, copied to a device."""

    def __init__(
        self, sample: SampleInput, device: str | torch.device, grad: bool = False, layout: Callable | None = None
    ):
        copier = Copier(device)

        def copy(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            moved = layout(copier(leaf)) if layout else copier(leaf)
            # Parts of one storage are views of one tensor: each that wants a gradient is a leaf of its own.
            if grad and leaf.requires_grad and (moved.is_floating_point() or moved.is_complex()):
                moved = moved.detach().requires_grad_()
            return moved

        self.input, self.args, self.kwargs = tree_map(copy, (sample.input, sample.args, sample.kwargs))
        if self.kwargs.get("device") is not None:
            self.kwargs["device"] = device

    def __call__(self, function: Callable, **extra: Any) -> Any:
        torch.manual_seed(SEED)
        return function(self.input, *self.args, **{**self.kwargs, **extra})

    def leaves(self) -> list[torch.Tensor]:
        """The arguments that want gradients."""
        return tensors((self.input, self.args, self.kwargs))


def reference(call: Callable[[], Any]) -> tuple[bool, Any]:
    """Runs the CPU's side; an op that the CPU refuses sets no expectation."""
    try:
        return True, call()
    except Exception:  # noqa: BLE001 (any refusal counts)
        return False, None


def determined(op: OpInfo, sample: SampleInput) -> bool:
    """Whether the values of this sample's result can be compared at all."""
    return not undetermined(op.full_name) and not random_sample(op.full_name, sample)


def forward(
    op: OpInfo,
    sample: SampleInput,
    dtype: torch.dtype,
    device: Any,
    tol: tuple | None = None,
    layout: Callable | None = None,
) -> bool:
    """Compares the results of a plain call, strides included."""
    valid, want = reference(lambda: Call(sample, "cpu", layout=layout)(op))
    if not valid:
        return False
    got, fixed = Call(sample, device, layout=layout)(op), invariant(op.full_name)
    assert_same(fixed(sample, want), fixed(sample, got), dtype, determined(op, sample), tol)
    assert_strides(want, got)
    return True


def backward(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares the results and the gradients of every input."""
    host, values, fixed = Call(sample, "cpu", grad=True), determined(op, sample), invariant(op.full_name)
    valid, want = reference(lambda: host(op))
    if not valid:
        return False
    port = Call(sample, device, grad=True)
    got = port(op)
    assert_same(fixed(sample, want), fixed(sample, got), dtype, values, tol)
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


def _exact(like: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.empty_like(like, device=device)


def _to_resize(like: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.empty(0, dtype=like.dtype, device=device)


def _with_gaps(like: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.zeros((*like.shape, 2), dtype=like.dtype, device=device)[..., 0]


OUTPUTS = (_exact, _to_resize, _with_gaps)


def out(
    op: OpInfo,
    sample: SampleInput,
    dtype: torch.dtype,
    device: Any,
    tol: tuple | None = None,
    outputs: tuple[Callable, ...] = OUTPUTS,
) -> bool:
    """Compares what out= calls write, into tensors of the result's layout, empty ones and ones with gaps.

    The returned tensors must be the ones given.
    """
    valid, shape = reference(lambda: Call(sample, "cpu")(op))
    leaves = tree_leaves(shape)
    flat = isinstance(shape, torch.Tensor) or (isinstance(shape, tuple) and len(leaves) == len(shape))
    if not valid or not flat or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return False
    values, fixed, compared = determined(op, sample), invariant(op.full_name), False
    for make in outputs:
        want, got = _outputs(shape, make, "cpu"), _outputs(shape, make, device)
        valid, _ = reference(lambda want=want: Call(sample, "cpu")(op, out=want))
        if not valid:
            continue
        returned, before = Call(sample, device)(op, out=got), f"out= {make.__name__.strip('_')}: "
        pairs = zip(tree_leaves(returned), tree_leaves(got), strict=False)
        same = len(tree_leaves(returned)) == len(tree_leaves(got)) and all(a is b for a, b in pairs)
        assert same, before + "the call returned other tensors than were given"
        assert_same(fixed(sample, want), fixed(sample, got), dtype, values, tol, before)
        assert_strides(want, got, before)
        compared = True
    return compared


def _outputs(shape: Any, make: Callable, device: Any) -> Any:
    """Tensors for out=: one, or a tuple of them."""
    if isinstance(shape, torch.Tensor):
        return make(shape, device)
    return tuple(make(leaf, device) for leaf in shape)


def inplace(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares the result of the in-place form and what it leaves in its input."""
    if sample.broadcasts_input:
        return False
    host, port, values = Call(sample, "cpu"), Call(sample, device), determined(op, sample)
    valid, want = reference(lambda: host(op.get_inplace()))
    if not valid:
        return False
    got = port(op.get_inplace())
    assert_same(want, got, dtype, values, tol)
    assert_same(host.input, port.input, dtype, values, tol)
    assert_strides(want, got)
    return True


MODES: dict[str, Callable[..., bool]] = {"forward": forward, "backward": backward, "out": out, "inplace": inplace}


def raised(call: Callable[[], Any]) -> type[BaseException] | None:
    """The type of what a call raises; a result that is still on its way is waited for."""
    try:
        for leaf in tree_leaves(call()):
            if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
                leaf.cpu()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the result)
        return type(error)
    return None


def errors(op: OpInfo, device: Any) -> Iterator[tuple[str, str]]:
    """Result and message of each of the database's wrong calls: the exception's type must be the CPU's."""
    if op.error_inputs_func is None:
        return
    torch.manual_seed(SEED)
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        want = raised(lambda sample=sample: Call(sample, "cpu", grad=True)(op))
        if want is None:  # an error of another device, or one that this call alone does not meet
            yield "skip", "the CPU takes it"
            continue
        got = raised(lambda sample=sample: Call(sample, device, grad=True)(op))
        name = "no exception" if got is None else got.__name__
        message = (
            "" if got is want else f"{name} wants {want.__name__}: {' '.join(str(wrong.error_regex).split())[:200]}"
        )
        yield ("pass" if got is want else "fail"), message
