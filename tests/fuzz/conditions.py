"""What the tensors of a statement must satisfy, as they are on the CPU: x first, then the others that it reads."""

from collections.abc import Callable

import torch


def anything(*tensors: torch.Tensor) -> bool:
    return True


def real(*tensors: torch.Tensor) -> bool:
    return not any(t.is_complex() for t in tensors)


def floating(*tensors: torch.Tensor) -> bool:
    return all(t.is_floating_point() for t in tensors)


def inexact(*tensors: torch.Tensor) -> bool:
    return all(t.is_floating_point() or t.is_complex() for t in tensors)


def integral(*tensors: torch.Tensor) -> bool:
    return not any(t.is_floating_point() or t.is_complex() for t in tensors)


def whole(*tensors: torch.Tensor) -> bool:
    """Integers that are no bools."""
    return integral(*tensors) and not any(t.dtype is torch.bool for t in tensors)


def dims(least: int, condition: Callable = anything) -> Callable[..., bool]:
    """At least so many dimensions, none of them empty."""
    return lambda x, *rest: x.dim() >= least and x.numel() > 0 and condition(x, *rest)


def bounded(*tensors: torch.Tensor) -> bool:
    """No number beyond 100, no NaN."""
    return all(t.dtype is torch.bool or t.numel() == 0 or bool((t.abs() <= 100).all()) for t in tensors)


def plain(*tensors: torch.Tensor) -> bool:
    """No infinity or NaN beside a complex number: products with them depend on how the CPU writes a multiplication."""
    return real(*tensors) or bounded(*tensors)


def castable(x: torch.Tensor, *rest: torch.Tensor) -> bool:
    """Numbers that every signed integer holds, none negative where uint8 shall: C leaves other casts undefined."""
    sources = rest or (x,)
    negative = any(bool((t < 0).any()) for t in sources if t.is_floating_point())
    return real(x, *rest) and bounded(*sources) and not (x.dtype is torch.uint8 and negative)
