"""What of a result PyTorch's documentation fixes, for the ops that may give one of several right results.

Sorts and selections may order equal elements as they like (torch.topk, kthvalue, median, mode, and sort and argsort
without stable=True: "the indices of equivalent elements" are not guaranteed), so their indices are compared by the
elements that they point at. max and min with a dim document the first index and are compared as they are. Factors of a
matrix are compared by their product where the documentation leaves signs, phases or a random start open.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.opinfo.core import SampleInput

Invariant = Callable[[SampleInput, Any], Any]


def _argument(sample: SampleInput, position: int, name: str, default: Any) -> Any:
    """An argument by position after the input, or by name."""
    return sample.args[position] if len(sample.args) > position else sample.kwargs.get(name, default)


def _pointed_at(source: torch.Tensor, indices: torch.Tensor, dim: int) -> tuple[Any, ...]:
    """The elements that indices point at, with the indices' dtype, and whether no index comes twice in a row."""
    source, kind = source.detach().cpu(), indices.new_empty(0).cpu()
    indices = indices.detach().cpu()
    if source.dim() == 0:
        return source, indices, kind
    ordered = indices.sort(dim).values
    return source.gather(dim, indices), ordered.diff(dim=dim).ne(0), kind


def _sorted(sample: SampleInput, result: Any) -> Any:
    """sort, msort and topk: values as they are, indices by what they point at."""
    return result[0], _pointed_at(sample.input, result[1], _argument(sample, 0, "dim", -1))


def _sort(sample: SampleInput, result: Any) -> Any:
    stable = _argument(sample, 2, "stable", False) is True
    return result if stable else _sorted(sample, result)


def _topk(sample: SampleInput, result: Any) -> Any:
    values, dim = result[0], _argument(sample, 1, "dim", -1)
    if _argument(sample, 3, "sorted", True) is False and values.dim():
        values = values.detach().cpu().sort(dim).values
        pointed = _pointed_at(sample.input, result[1], dim)
        return values, pointed[0].sort(dim).values, pointed[1:]
    return values, _pointed_at(sample.input, result[1], dim)


def _argsort(sample: SampleInput, result: Any) -> Any:
    stable = sample.kwargs.get("stable", False) is True
    return result if stable else _pointed_at(sample.input, result, _argument(sample, 0, "dim", -1))


def _selected(position: int) -> Invariant:
    """kthvalue, median, nanmedian, mode: one element a row; their dim and keepdim stand after `position` arguments."""

    def compare(sample: SampleInput, result: Any) -> Any:
        if isinstance(result, torch.Tensor):
            return result
        values, indices = result
        dim, source = _argument(sample, position, "dim", -1), sample.input.detach().cpu()
        if source.dim() == 0:
            return result
        at = indices.detach().cpu()
        at = at if at.dim() == source.dim() else at.unsqueeze(dim)
        return values, source.gather(dim, at), indices.new_empty(indices.shape).zero_()

    return compare


def _adjoint(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.transpose(-2, -1).conj()


def _host(result: Any) -> list[torch.Tensor]:
    return [part.detach().cpu() for part in result]


def _eigh(sample: SampleInput, result: Any) -> Any:
    """Eigenvectors are unique up to a phase, and within the space of equal eigenvalues up to any rotation."""
    values, vectors = _host(result)
    product = (vectors * values.unsqueeze(-2).to(vectors.dtype)) @ _adjoint(vectors)
    return values, product, _adjoint(vectors) @ vectors


def _svd_v(sample: SampleInput, result: Any) -> Any:
    """U, S, V up to a common phase of each pair of singular vectors."""
    u, s, v = _host(result)
    rank = s.shape[-1]
    return s, (u[..., :rank] * s.unsqueeze(-2).to(u.dtype)) @ _adjoint(v[..., :rank])


def _svd_vh(sample: SampleInput, result: Any) -> Any:
    u, s, vh = _host(result)
    return (s, u, vh) if u.numel() == 0 else _svd_v(sample, (u, s, _adjoint(vh)))


INVARIANTS: dict[str, Invariant] = {
    "sort": _sort,
    "topk": _topk,
    "argsort": _argsort,
    "kthvalue": _selected(1),
    "median": _selected(0),
    "nanmedian": _selected(0),
    "mode": _selected(0),
    "linalg.eig": lambda sample, result: sample.output_process_fn_grad(result),
    "linalg.eigh": _eigh,
    "linalg.svd": _svd_vh,
    "svd": _svd_v,
    "svd_lowrank": _svd_v,
    "pca_lowrank": _svd_v,
}


def invariant(op_name: str) -> Invariant:
    """What of the op's result is compared; everything for most."""
    return INVARIANTS.get(op_name, lambda sample, result: result)


def _dropout(op_name: str, sample: SampleInput) -> float:
    """Probability with which an attention op drops elements of this sample."""
    if op_name == "nn.functional.multi_head_attention_forward":
        return _argument(sample, 9, "dropout_p", 0.0) if sample.kwargs.get("training", True) else 0.0
    if op_name == "nn.functional.scaled_dot_product_attention":
        return _argument(sample, 3, "dropout_p", 0.0)
    return 0.0


def random_sample(op_name: str, sample: SampleInput) -> bool:
    """Whether this sample of an otherwise determined op draws random numbers."""
    if op_name.startswith("nn.functional.fractional_max_pool"):
        return sample.kwargs.get("_random_samples") is None
    return _dropout(op_name, sample) > 0.0
