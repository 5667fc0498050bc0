"""Random numbers: the generators live on the host, one a device, so seeding opens no device."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torchport import _C
from torchport.device._utils import NAME, Device, _get_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _count() -> int:
    return _C.device_count() if _C.is_available() else 0


def get_rng_state(device: Device = NAME) -> torch.Tensor:
    """State of a device's default generator, as a CPU tensor of bytes."""
    return _C.default_generator(_get_device_index(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """States of every device's default generator."""
    return [get_rng_state(i) for i in range(_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = NAME) -> None:
    """Put back a state that get_rng_state gave."""
    _C.default_generator(_get_device_index(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Put back states that get_rng_state_all gave."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seed the current device's default generator."""
    _C.default_generator(_C.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every device's default generator, also of devices that are not open yet. torch.manual_seed calls it."""
    _C.manual_seed_all(int(seed))


def seed() -> None:
    """Seed the current device's default generator with a random number."""
    _C.default_generator(_C.current_device()).seed()


def seed_all() -> None:
    """Seed every device's default generator with one random number."""
    _C.manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """Seed of the current device's default generator."""
    return _C.default_generator(_C.current_device()).initial_seed()
