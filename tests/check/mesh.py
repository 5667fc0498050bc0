"""Splitting and joining tensors over a mesh by coordinates, without the compiler's notation."""

import itertools

import torch

Sizes = tuple[tuple[str, int], ...]
Spec = tuple[tuple[str, ...], ...]


def coordinates(sizes: Sizes) -> list[dict[str, int]]:
    """Of each device, in the order of their numbers: the last axis runs fastest."""
    names = [name for name, _ in sizes]
    return [dict(zip(names, at, strict=True)) for at in itertools.product(*(range(n) for _, n in sizes))]


def _slices(shape: torch.Size, sizes: Sizes, spec: Spec, at: dict[str, int]) -> tuple[slice, ...]:
    known, found = dict(sizes), []
    for size, axes in zip(shape, spec, strict=True):
        index, ways = 0, 1
        for axis in axes:
            index, ways = index * known[axis] + at[axis], ways * known[axis]
        assert size % ways == 0
        found.append(slice(index * size // ways, (index + 1) * size // ways))
    return tuple(found)


def scattered(value: torch.Tensor, sizes: Sizes, spec: Spec) -> list[torch.Tensor]:
    """What each device holds."""
    return [value[_slices(value.shape, sizes, spec, at)].contiguous() for at in coordinates(sizes)]


def gathered(pieces: list[torch.Tensor], sizes: Sizes, spec: Spec) -> torch.Tensor:
    """The whole; devices that hold the same part must hold the same values."""
    known, ways = dict(sizes), []
    for axes in spec:
        ways.append(1)
        for axis in axes:
            ways[-1] *= known[axis]
    whole = torch.full([n * w for n, w in zip(pieces[0].shape, ways, strict=True)], -1, dtype=pieces[0].dtype)
    filled = torch.zeros(whole.shape, dtype=torch.bool)
    for piece, at in zip(pieces, coordinates(sizes), strict=True):
        place = _slices(whole.shape, sizes, spec, at)
        if filled[place].all():
            torch.testing.assert_close(piece, whole[place])
        whole[place], filled[place] = piece, True
    assert filled.all()
    return whole
