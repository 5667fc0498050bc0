"""Runs cases in a process that may die: reads one task a line from stdin, writes one JSON row an event to stdout."""

import hashlib
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
from torch.testing._internal.opinfo.core import OpInfo

import target
from conformance.compare import NotComparable, StridesDiffer
from conformance.modes import MODES, errors, samples, supports
from ops.cases import CASES


class CaseTimeout(BaseException):
    """Raised by the alarm; not an Exception, so that no handler of the code under test swallows it."""


def on_alarm(*_: object) -> None:
    raise CaseTimeout


def run_case(op: OpInfo, dtype: torch.dtype, mode: str, count: int, budget: float) -> dict:
    """What a row says of a case; an op passes only when every sample agrees. Strides are told apart from the rest.

    count: first samples to take, 0 for all. budget: seconds after which no further sample begins.
    """
    row = {"result": "pass", "message": "", "samples": 0, "there": 0, "strides": ""}
    began = time.monotonic()
    try:
        every = samples(op, dtype, mode, count)
        row["there"] = len(every)
        for sample in every:
            try:
                row["samples"] += MODES[mode](op, sample, dtype, target.DEVICE)
            except StridesDiffer as difference:
                row["samples"] += 1
                row["strides"] = row["strides"] or str(difference)
            if time.monotonic() - began > budget:
                break
    except NotComparable as error:
        return {**row, "result": "skip", "message": str(error)}
    except CaseTimeout:
        return {**row, "result": "hang", "message": "timed out"}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is the result)
        return {**row, "result": "fail", "message": f"{type(error).__name__}: {str(error)[:400]}"}
    return row if row["samples"] else {**row, "result": "skip"}


def run_errors(op: OpInfo) -> list[tuple[str, str]]:
    """Result and message of every wrong call of the database."""
    rows = []
    try:
        rows.extend(errors(op, target.DEVICE))
    except CaseTimeout:
        rows.append(("hang", "timed out"))
    return rows


class Programs:
    """The StableHLO programs that the device launches, written to files named by their hash."""

    def __init__(self, folder: Path):
        from torchport import _C

        self.core, self.folder, self.names = _C, folder, []
        folder.mkdir(parents=True, exist_ok=True)
        _C.capture_begin()

    def launched(self) -> dict[str, str]:
        """File -> name of the lowering, of the programs launched since the last call."""
        for program in self.core.capture_programs(len(self.names)):
            name = f"{hashlib.sha256(program['text'].encode()).hexdigest()[:32]}.mlir"
            path = self.folder / name
            if not path.exists():
                part = path.with_suffix(f".{os.getpid()}")
                part.write_text(program["text"])
                part.replace(path)
            self.names.append((name, program["name"]))
        launches = self.core.capture_launches()
        return dict(sorted({self.names[launch[0]] for launch in launches if launch[0] >= 0}))


def main() -> None:
    """Serves tasks until stdin closes."""
    # The protocol has the real stdout to itself; whatever the code under test prints goes to stderr.
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, on_alarm)
    ops = {case.name: case.op for case in CASES if case.custom} | {op.full_name: op for op in op_db}

    def emit(**row: object) -> None:
        channel.write(json.dumps(row) + "\n")

    emit(ready=True)
    programs = None
    for line in sys.stdin:
        task = json.loads(line)
        op = ops[task["op"]]
        if task["programs"] and programs is None:
            programs = Programs(Path(task["programs"]))
        for mode in task["modes"]:
            emit(begin=mode)
            signal.setitimer(signal.ITIMER_REAL, task["timeout"])
            row = {"op": task["op"], "dtype": task["dtype"], "mode": mode}
            if mode == "errors":
                wrong = run_errors(op)
                signal.setitimer(signal.ITIMER_REAL, 0)
                for index, (result, message) in enumerate(wrong):
                    emit(**row, index=index, result=result, message=message, samples=1, fallbacks=[], seconds=0.0)
                continue
            dtype = getattr(torch, task["dtype"])
            if not supports(op, dtype, mode):
                signal.setitimer(signal.ITIMER_REAL, 0)
                continue
            if programs:
                programs.launched()  # forget those of wrong calls
            target.reset_fallbacks()
            began = time.monotonic()
            found = run_case(op, dtype, mode, task["samples"], task["budget"])
            signal.setitimer(signal.ITIMER_REAL, 0)
            emit(
                **row,
                **found,
                fallbacks=target.fallbacks(),
                seconds=round(time.monotonic() - began, 3),
                **({"programs": programs.launched()} if programs else {}),
            )
        emit(done=True)


if __name__ == "__main__":
    main()
