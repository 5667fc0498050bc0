"""The four ways a sample of PyTorch's op database is run: forward, backward, out= and in-place, on CPU and on a device.

Each function returns True when the sample was compared and False when the CPU itself refuses it. `errors` runs the
database's wrong calls.
"""

import copy
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_leaves, tree_map

from conformance.compare import ValuesDiffer, assert_same, assert_strides, nearer, undetermined
from conformance.invariants import invariant, random_sample

SEED = 0
HOST_ARGUMENTS = {"tensor_split"}  # takes its indices from the CPU on every device: "expected ... to be on cpu"
WIDER = {
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


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
    """An op and a sample's arguments, copied to a device."""

    def __init__(
        self,
        op: OpInfo,
        sample: SampleInput,
        device: str | torch.device,
        grad: bool = False,
        layout: Callable | None = None,
    ):
        copier, stays = Copier(device), sample.args if op.full_name in HOST_ARGUMENTS else ()
        self.op = op

        def place(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or any(leaf is argument for argument in stays):
                return leaf
            moved = layout(copier(leaf)) if layout else copier(leaf)
            # Parts of one storage are views of one tensor: each that wants a gradient is a leaf of its own.
            if grad and leaf.requires_grad and (moved.is_floating_point() or moved.is_complex()):
                moved = moved.detach().requires_grad_()
            return moved

        self.input, self.args, self.kwargs = tree_map(place, (sample.input, sample.args, sample.kwargs))
        if self.kwargs.get("device") is not None:
            self.kwargs["device"] = device

    def __call__(self, function: Callable | None = None, **extra: Any) -> Any:
        torch.manual_seed(SEED)
        return (function or self.op)(self.input, *self.args, **{**self.kwargs, **extra})

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


def widened(sample: SampleInput) -> SampleInput:
    """The sample with every floating number, and every floating dtype asked for, in double precision."""

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in WIDER and leaf.layout is torch.strided:
            return leaf.detach().to(WIDER[leaf.dtype]).requires_grad_(leaf.requires_grad)
        return WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf

    found = copy.copy(sample)
    found.input, found.args, found.kwargs = tree_map(widen, (sample.input, sample.args, sample.kwargs))
    return found


def agree(
    run: Callable[[SampleInput, Any], Any],
    view: Callable[[Any], Any],
    op: OpInfo,
    sample: SampleInput,
    dtype: torch.dtype,
    device: Any,
    tol: tuple | None,
) -> tuple[Any, Any] | None:
    """Both devices' results of `run`, once `view` of them was found equal; None when the CPU refuses.

    Where they differ by more than the tolerance, the device may still be the better of the two: then its error against
    the CPU in double precision is not larger than the CPU's own.
    """
    valid, want = reference(lambda: run(sample, "cpu"))
    if not valid:
        return None
    got = run(sample, device)
    try:
        assert_same(view(want), view(got), dtype, determined(op, sample), tol)
    except ValuesDiffer:
        valid, exact = reference(lambda: run(widened(sample), "cpu"))
        if not valid or not nearer(view(exact), view(want), view(got)):
            raise
    return want, got


def forward(
    op: OpInfo,
    sample: SampleInput,
    dtype: torch.dtype,
    device: Any,
    tol: tuple | None = None,
    layout: Callable | None = None,
) -> bool:
    """Compares the results of a plain call, strides included."""

    def run(given: SampleInput, where: Any) -> Any:
        return Call(op, given, where, layout=layout)()

    both = agree(run, partial(invariant(op.full_name), sample), op, sample, dtype, device, tol)
    if both:
        assert_strides(*both)
    return both is not None


def backward(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares the results and the gradients of every input."""

    def run(given: SampleInput, where: Any) -> Any:
        call = Call(op, given, where, grad=True)
        result, leaves = call(), call.leaves()
        outputs = tensors(given.output_process_fn_grad(result))
        if not (outputs and leaves):
            return result, len(outputs), []
        try:
            found = gradients(outputs, leaves)
        except Exception:
            if where != "cpu":
                raise
            raise NoGradient from None
        return result, len(outputs), [torch.zeros(0) if grad is None else grad for grad in found]

    def view(returned: tuple) -> tuple:
        return fixed(sample, returned[0]), *returned[1:]

    fixed = invariant(op.full_name)
    return agree(run, view, op, sample, dtype, device, tol) is not None


class NoGradient(Exception):
    """The CPU has no gradient for this sample."""


def gradients(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> Iterable[torch.Tensor | None]:
    """Gradients of the outputs' sum."""
    return torch.autograd.grad(outputs, inputs, [torch.ones_like(o) for o in outputs], allow_unused=True)


def _exact(like: torch.Tensor, device: Any) -> torch.Tensor:
    return torch.zeros_like(like, device=device)  # the CPU does not write all of some out= (fft.ihfft2)


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

    def run(given: SampleInput, where: Any, make: Callable) -> Any:
        _, like = reference(lambda: Call(op, given, "cpu")())
        written = _outputs(like, make, where)
        returned = Call(op, given, where)(out=written)
        pairs = zip(tree_leaves(returned), tree_leaves(written), strict=False)
        same = len(tree_leaves(returned)) == len(tree_leaves(written)) and all(a is b for a, b in pairs)
        assert same, "the call returned other tensors than were given"
        return written

    valid, shape = reference(lambda: Call(op, sample, "cpu")())
    leaves = tree_leaves(shape)
    flat = isinstance(shape, torch.Tensor) or (isinstance(shape, tuple) and len(leaves) == len(shape))
    if not valid or not flat or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return False
    compared, view = False, partial(invariant(op.full_name), sample)
    for make in outputs:
        valid, own = reference(lambda make=make: run(sample, "cpu", make))
        if not valid or not itself(op, sample, shape, own, dtype):
            continue
        try:
            both = agree(partial(run, make=make), view, op, sample, dtype, device, tol)
            if both:
                assert_strides(*both)
        except AssertionError as difference:
            raise type(difference)(f"out= {make.__name__.strip('_')}: {difference}") from None
        compared |= both is not None
    return compared


def itself(op: OpInfo, sample: SampleInput, result: Any, written: Any, dtype: torch.dtype) -> bool:
    """Whether the CPU writes to out= what it returns without; some kernels take any out= for contiguous (avg_pool3d)."""
    fixed = invariant(op.full_name)
    try:
        assert_same(fixed(sample, result), fixed(sample, written), dtype, determined(op, sample))
    except AssertionError:
        return False
    return True


def _outputs(shape: Any, make: Callable, device: Any) -> Any:
    """Tensors for out=: one, or a tuple of them."""
    if isinstance(shape, torch.Tensor):
        return make(shape, device)
    return tuple(make(leaf, device) for leaf in shape)


def inplace(op: OpInfo, sample: SampleInput, dtype: torch.dtype, device: Any, tol: tuple | None = None) -> bool:
    """Compares the result of the in-place form and what it leaves in its input."""

    def run(given: SampleInput, where: Any) -> Any:
        call = Call(op, given, where)
        return call(op.get_inplace()), call.input

    if sample.broadcasts_input:
        return False
    both = agree(run, lambda returned: returned, op, sample, dtype, device, tol)
    if both:
        assert_strides(*both)
    return both is not None


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
        want = raised(lambda sample=sample: Call(op, sample, "cpu", grad=True)())
        if want is None:  # an error of another device, or one that this call alone does not meet
            yield "skip", "the CPU takes it"
            continue
        got = raised(lambda sample=sample: Call(op, sample, device, grad=True)())
        name = "no exception" if got is None else got.__name__
        message = (
            "" if got is want else f"{name} wants {want.__name__}: {' '.join(str(wrong.error_regex).split())[:200]}"
        )
        yield ("pass" if got is want else "fail"), message
