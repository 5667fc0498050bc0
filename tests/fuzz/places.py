"""How the places of a template are filled: a function each, given hypothesis' draw and the tensor x as on the CPU."""

from collections.abc import Callable

import torch
from hypothesis import strategies as st

Draw = Callable

SHAPES = [(), (1,), (4,), (3, 4), (2, 3, 4), (3, 1), (1, 4), (0, 3), (4, 4), (2, 1, 2, 3)]
FLOATS = ["float32", "bfloat16", "float16", "float64"]
INTEGERS = ["int64", "int32", "uint8", "int8", "int16"]
DTYPES = [*FLOATS, *INTEGERS, "bool", "complex64"]
SCALARS = ["0", "1", "-1", "2", "3", "0.5", "-1.5", "True", "255"]


def _dim(draw: Draw, x: torch.Tensor) -> int:
    """A dimension, from either end; at times one too many."""
    return draw(st.integers(-max(x.dim(), 1), max(x.dim() - 1, 0)) | st.just(x.dim()) if draw(st.integers(0, 19)) == 19
                else st.integers(-max(x.dim(), 1), max(x.dim() - 1, 0)))  # fmt: skip


def _valid_dim(draw: Draw, x: torch.Tensor) -> int:
    return draw(st.integers(0, x.dim() - 1))


def _order(draw: Draw, x: torch.Tensor) -> str:
    return str(tuple(draw(st.permutations(range(x.dim())))))


def _slice(draw: Draw, size: int) -> str:
    start, end = draw(st.integers(0, size)), draw(st.integers(0, size))
    return draw(
        st.sampled_from(
            [":", f"{start}:", f":{end}", f"{min(start, end)}:{max(start, end)}", "::2", f"{start}::2", "-2:", "1:-1"]
        )
    )


def _slices(draw: Draw, x: torch.Tensor) -> str:
    parts = [_slice(draw, size) if draw(st.booleans()) else ":" for size in x.shape[: draw(st.integers(0, x.dim()))]]
    parts = [
        ("0" if draw(st.booleans()) and size else part) if part == ":" else part
        for part, size in zip(parts, x.shape, strict=False)
    ]
    parts += [draw(st.sampled_from(["None", "..."]))] if draw(st.integers(0, 3)) == 3 else []
    return ", ".join(parts) or "..."


def _factors(draw: Draw, x: torch.Tensor) -> str:
    n = x.numel()
    a = draw(st.sampled_from([k for k in range(1, max(n, 1) + 1) if n % k == 0] or [1]))
    return str(draw(st.sampled_from([(-1,), (n,), (a, n // a), (n // a, a), (1, a, n // a), (a, -1) if n else (0, a)])))


def _resized(draw: Draw, x: torch.Tensor) -> str:
    """Sizes that need no more memory (it would hold what it likes), none negative (the CPU's tensor would break)."""
    return str(tuple(draw(st.integers(0, size)) for size in x.shape))


def _wider(draw: Draw, x: torch.Tensor) -> str:
    sizes = [draw(st.sampled_from([2, 3])) if size == 1 else draw(st.sampled_from([size, -1])) for size in x.shape]
    return str(tuple([2] * draw(st.integers(0, 1)) + sizes))


def _run(draw: Draw, x: torch.Tensor) -> str:
    if x.dim() == 0:
        return "0, 0, 1"
    dim = _valid_dim(draw, x)
    start = draw(st.integers(0, x.shape[dim]))
    return f"{dim}, {start}, {draw(st.integers(0, x.shape[dim] - start))}"


def _windows(draw: Draw, x: torch.Tensor) -> str:
    if x.dim() == 0:
        return "0, 1, 1"
    dim = _valid_dim(draw, x)
    return f"{dim}, {draw(st.integers(0, x.shape[dim]))}, {draw(st.integers(1, 2))}"


def _window(draw: Draw, x: torch.Tensor) -> str:
    """Sizes, strides and offset, mostly within the storage."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=3))
    steps = [draw(st.integers(0, 4)) for _ in sizes]
    return f"{tuple(sizes)}, {tuple(steps)}, {draw(st.integers(0, 3))}"


def _numbers(draw: Draw, size: int) -> str:
    chosen = draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=4))
    return f"torch.tensor({chosen}, device=device)"


def _pieces(unique: bool) -> Callable[[Draw, torch.Tensor], str]:
    """A dim, indices along it, and a source of the shape that they choose."""

    def place(draw: Draw, x: torch.Tensor) -> str:
        dim = _valid_dim(draw, x)
        chosen = draw(st.lists(st.integers(0, x.shape[dim] - 1), min_size=1, max_size=3, unique=unique))
        shape = [*x.shape[:dim], len(chosen), *x.shape[dim + 1 :]]
        return f"{dim}, torch.tensor({chosen}, device=device), {_literal('steps', shape, x.dtype)}"

    return place


def _chosen(draw: Draw, x: torch.Tensor) -> str:
    dim = _valid_dim(draw, x)
    return f"{dim}, {_numbers(draw, x.shape[dim])}"


def _gathered(draw: Draw, x: torch.Tensor) -> str:
    """A dim and indices of x's shape, zeros or ones within range."""
    dim = _valid_dim(draw, x)
    last = draw(st.integers(0, x.shape[dim] - 1))
    return f"{dim}, torch.full({tuple(x.shape)}, {last}, device=device)"


def _scatter_add(draw: Draw, x: torch.Tensor) -> str:
    return f"{_gathered(draw, x)}, {_literal('steps', x.shape, x.dtype)}"


def _literal(pattern: str, shape: object, dtype: object) -> str:
    return f"make({pattern!r}, {tuple(shape)}, {dtype}, device)"


PLACES: dict[str, Callable[[Draw, torch.Tensor], object]] = {
    "dim": _dim,
    "dim_new": lambda draw, x: draw(st.integers(-x.dim() - 1, x.dim())),
    "order": _order,
    "slices": _slices,
    "place": lambda draw, x: draw(st.integers(-1, 1)),
    "wider": _wider,
    "factors": _factors,
    "resized": _resized,
    "run": _run,
    "windows": _windows,
    "window": _window,
    "offset": lambda draw, x: draw(st.integers(-1, 1)),
    "dtype": lambda draw, x: draw(st.sampled_from(DTYPES)),
    "dtype_signed": lambda draw, x: draw(st.sampled_from([name for name in DTYPES if name != "uint8"])),
    "scalar": lambda draw, x: draw(st.sampled_from(SCALARS)),
    "scalar_not_0": lambda draw, x: draw(st.sampled_from(["2", "-4", "0.5", "3"])),
    "divisor": lambda draw, x: _literal("steps", x.shape, x.dtype),
    "zero_d": lambda draw, x: _literal("steps", (), x.dtype),
    "square": lambda draw, x: _literal("halves", (x.shape[-1], draw(st.sampled_from([1, x.shape[-1]]))), x.dtype),
    "index": lambda draw, x: _numbers(draw, min(x.shape[0], x.shape[-1])),
    "index_flat": lambda draw, x: _numbers(draw, x.numel()),
    "chosen": _chosen,
    "gathered": _gathered,
    "scatter_add": _scatter_add,
    "index_add": _pieces(unique=False),
    "index_copy": _pieces(unique=True),
}
