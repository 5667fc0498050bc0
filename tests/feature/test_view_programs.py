"""Random programs of views and in-place writes, run on the CPU and on the device: every alias must agree after each."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import target
from conformance.compare import assert_same

index = st.integers(-3, 3)
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def pick(sequence: list, at: int) -> Any:
    """An element by any integer."""
    return sequence[at % len(sequence)]


def view(x: torch.Tensor, kind: str, a: int, b: int) -> torch.Tensor:
    """A view of x chosen by kind and two numbers, which wrap so that they are always valid."""
    if x.dim() == 0:
        return x.unsqueeze(0)
    dim, size = a % x.dim(), x.size(a % x.dim())
    if kind == "slice":
        start = b % (size + 1)
        return x[(slice(None),) * dim + (slice(start, None, 1 + abs(a) % 2),)]
    if kind == "select":
        return x.select(dim, b % size) if size else x
    if kind == "transpose":
        return x.transpose(dim, b % x.dim())
    if kind == "unsqueeze":
        return x.unsqueeze(dim) if x.dim() < 4 else x
    if kind == "diagonal":
        other = (dim + 1) % x.dim()
        return x.diagonal(b, dim, other) if dim != other else x
    if kind == "flatten":
        return x.view(-1) if x.is_contiguous() else x
    if kind == "unfold":
        return x.unfold(dim, 2, 2) if size >= 2 and x.dim() < 4 else x
    if kind == "as_strided":
        length = x.untyped_storage().nbytes() // x.element_size()
        start = b % length
        rest = length - start
        return x.as_strided((max(rest // 3, 1), 2), (2, 1), start) if rest >= 3 else x
    if kind == "split":
        return pick(list(x.split(max(size // 2, 1), dim)), b) if size else x
    if kind == "dtype":
        # Integers only: their bits read as floats are denormal numbers, which a device may flush to zero.
        return x.view(torch.int32) if x.dtype is torch.int64 and x.stride(-1) == 1 else x
    raise AssertionError(kind)


def write(x: torch.Tensor, source: torch.Tensor, kind: str, a: int) -> None:
    """Changes x in place; `source` is another alias, read after a copy so that overlaps are defined."""
    if kind == "fill":
        x.fill_(a)
    elif kind == "add":
        x.add_(a)
    elif kind == "mul":
        x.mul_(2)
    elif kind == "copy":
        taken = source.reshape(-1)[: x.numel()].clone()
        if taken.numel() == x.numel() and taken.dtype == x.dtype:
            x.copy_(taken.view(x.shape))
    elif kind == "flip":
        x.copy_(x.flip(0) if x.dim() else x.clone())
    elif kind == "first":
        if x.numel():
            x[(0,) * x.dim()] = a
    elif kind == "masked":
        x.masked_fill_(x > a, a)
    elif kind == "cumsum":
        x.copy_(x.cumsum(0) if x.dim() else x.clone())
    elif kind == "add_source":
        x.add_(source.sum().to(x.dtype))


VIEWS = ("slice", "select", "transpose", "unsqueeze", "diagonal", "flatten", "unfold", "as_strided", "split", "dtype")
WRITES = ("fill", "add", "mul", "copy", "flip", "first", "masked", "cumsum", "add_source")
step = st.one_of(
    st.tuples(st.just("view"), index, st.sampled_from(VIEWS), index, index),
    st.tuples(st.just("write"), index, st.sampled_from(WRITES), index, index),
)


def run(
    device: torch.device, dtype: torch.dtype, shape: tuple[int, ...], steps: list[tuple]
) -> list[list[torch.Tensor]]:
    """Runs the steps and returns what every alias holds at the end and at two points on the way."""
    count = int(torch.tensor(shape).prod())
    aliases, seen = [torch.arange(-1, count - 1, dtype=dtype).view(shape).to(device, copy=True)], []
    for at, (action, which, kind, a, b) in enumerate(steps):
        x = pick(aliases, which)
        if action == "view":
            aliases.append(view(x, kind, a, b))
        else:
            write(x, pick(aliases, b), kind, a)
        if at in (2, 5):
            seen.append([alias.clone() for alias in aliases])
    return [*seen, aliases]


@SETTINGS
@given(
    st.sampled_from([torch.float32, torch.int64]),
    st.sampled_from([(6,), (4, 6), (2, 3, 4), (1, 5, 2)]),
    st.lists(step, min_size=1, max_size=9),
)
def test_random_view_programs(dtype, shape, steps):
    want, got = run(torch.device("cpu"), dtype, shape, steps), run(target.DEVICE, dtype, shape, steps)
    assert_same(want, got, torch.float32)
    for p, q in zip(want[-1], got[-1], strict=True):
        assert (p.stride(), p.storage_offset()) == (q.stride(), q.storage_offset())


@SETTINGS
@given(st.lists(step, min_size=1, max_size=7), st.integers(0, 3))
def test_random_view_programs_have_the_right_gradients(steps, power):
    def program(device: torch.device) -> tuple:
        leaf = torch.arange(1.0, 13.0).view(3, 4).to(device).requires_grad_()
        aliases = [leaf * 1]
        for action, which, kind, a, b in steps:
            x = pick(aliases, which)
            if action == "view" and kind != "dtype":
                aliases.append(view(x, kind, a, b))
            elif action == "write" and kind in ("fill", "add", "mul", "first", "flip"):
                write(x, x, kind, a)
        (aliases[0] ** (power % 3 + 1)).sum().backward()
        return aliases[0], leaf.grad

    try:
        want = program(torch.device("cpu"))
    except RuntimeError as refusal:  # a view of several outputs that may not be written, for one
        with pytest.raises(type(refusal)):
            program(target.DEVICE)
        return
    assert_same(want, program(target.DEVICE), torch.float32)
