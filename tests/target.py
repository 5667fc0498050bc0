"""The device under test, chosen once for every suite: TORCHPORT_TEST_DEVICE (default "tpu", "cpu" checks the tests)."""

import os

import torch

NAME = os.environ.get("TORCHPORT_TEST_DEVICE", "tpu")
IS_CPU = NAME.partition(":")[0] == "cpu"

if not IS_CPU:
    import torchport  # where no entry point is installed, this is what registers the device

DEVICE = torch.device(NAME)


def reset_fallbacks() -> None:
    """Forgets the fallbacks counted so far."""
    if not IS_CPU:
        torchport.reset_report()


def fallbacks() -> list[str]:
    """Names of the ops that ran on the CPU since the last reset."""
    if IS_CPU:
        return []
    return sorted({row["op"] for row in torchport.report()["fallbacks"] if row["count"]})
