"""Runs cases in a process that may die: reads one task a line from stdin, writes one JSON row an event to stdout."""

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch.testing._internal.common_methods_invocations import op_db

import target
from conformance.compare import NotComparable
from conformance.modes import MODES, samples, supports


class CaseTimeout(BaseException):
    """Raised by the alarm; not an Exception, so that no handler of the code under test swallows it."""


def on_alarm(*_: object) -> None:
    raise CaseTimeout


def run_case(op: object, dtype: torch.dtype, mode: str, count: int) -> tuple[str, str, int]:
    """Result, message and number of samples compared; an op passes only when every sample agrees."""
    compared = 0
    try:
        for sample in samples(op, dtype, mode, count):
            compared += MODES[mode](op, sample, dtype, target.DEVICE)
    except NotComparable as error:
        return "skip", str(error), compared
    except CaseTimeout:
        return "hang", "timed out", compared
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is the result)
        return "fail", f"{type(error).__name__}: {str(error)[:400]}", compared
    return ("pass" if compared else "skip"), "", compared


def main() -> None:
    """Serves tasks until stdin closes."""
    # The protocol has the real stdout to itself; whatever the code under test prints goes to stderr.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, on_alarm)
    ops = {op.full_name: op for op in op_db}

    def emit(**row: object) -> None:
        channel.write(json.dumps(row) + "\n")

    emit(ready=True)
    for line in sys.stdin:
        task = json.loads(line)
        op, dtype = ops[task["op"]], getattr(torch, task["dtype"])
        for mode in task["modes"]:
            emit(begin=mode)
            if not supports(op, dtype, mode):
                continue
            target.reset_fallbacks()
            began = time.monotonic()
            signal.setitimer(signal.ITIMER_REAL, task["timeout"])
            result, message, compared = run_case(op, dtype, mode, task["samples"])
            signal.setitimer(signal.ITIMER_REAL, 0)
            emit(
                op=task["op"],
                dtype=task["dtype"],
                mode=mode,
                result=result,
                message=message,
                samples=compared,
                fallbacks=target.fallbacks(),
                seconds=round(time.monotonic() - began, 3),
            )
        emit(done=True)


if __name__ == "__main__":
    main()
