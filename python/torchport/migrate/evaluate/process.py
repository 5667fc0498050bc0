"""The workload's process: started in a group of its own, watched, stopped with everything it started."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchport.migrate.evaluate.errors import EvalError
from torchport.migrate.evaluate.plan import Stage

PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PRCTL = ctypes.CDLL(None).prctl if sys.platform == "linux" else None  # found before the fork: the child only calls it
GRACE_S = 20  # a server may finish its requests and write its report


class Process:
    """A running workload."""

    def __init__(self, name: str, popen: subprocess.Popen, started: float, port: int, work: Path) -> None:
        self.name, self.popen, self.started, self.port = name, popen, started, port
        self.events_path, self.report_path, self.log = work / "events.jsonl", work / "report.json", work / "log"

    def check(self) -> None:
        """Raises when the process has ended with an error."""
        if self.popen.poll() not in (None, 0):
            raise EvalError(
                f"eval run {self.name}", "run to its end", f"exit status {self.popen.returncode}\n{self.tail()}"
            )

    def tail(self, lines: int = 15) -> str:
        """End of its output, for the screen; never stored, since it may quote requests."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait(self, timeout_s: float, until: Callable[[], bool], what: str) -> None:
        """Waits for a condition; raises when the process ends or the time is over."""
        while not until():
            if time.monotonic() - self.started > timeout_s:
                raise EvalError(f"eval run {self.name}", f"{what} within {timeout_s:g} s", f"none\n{self.tail()}")
            self.check()
            if self.popen.poll() == 0 and not until():
                raise EvalError(f"eval run {self.name}", what, f"a process that has ended\n{self.tail()}")
            time.sleep(0.01)

    def events(self) -> list[dict[str, Any]]:
        """What the workload wrote to its events file."""
        text = self.events_path.read_text() if self.events_path.exists() else ""
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        except ValueError as error:
            raise EvalError(
                f"eval run {self.name}", "write one JSON object a line to its events file", error
            ) from error

    def report(self) -> dict[str, Any]:
        """The device's own report, when the workload ran on a device of TorchPort; empty otherwise."""
        return json.loads(self.report_path.read_text()) if self.report_path.exists() else {}

    def stop(self) -> None:
        """Ctrl-C to the group (Python then runs its exit handlers, which SIGTERM skips), then harder."""
        for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.popen.pid, sign)
                self.popen.wait(GRACE_S)
            except ProcessLookupError:
                pass  # the group has gone: what was wanted
            except subprocess.TimeoutExpired:
                continue
            break


@contextmanager
def running(folder: Path, name: str, stage: Stage) -> Iterator[Process]:
    """Starts a stage's command and stops it on the way out."""
    with tempfile.TemporaryDirectory(prefix="torchport-eval-") as scratch:
        work = Path(scratch)
        port = free_port()
        fill = {"port": str(port), "events": str(work / "events.jsonl"), "python": sys.executable}
        command = [filled(part, fill) for part in stage.command]
        environment = {
            **os.environ,
            **{k: filled(v, fill) for k, v in stage.env.items()},
            "TORCHPORT_EVAL_EVENTS": fill["events"],
            "TORCHPORT_REPORT": str(work / "report.json"),
        }
        with (work / "log").open("wb") as log:
            started = time.monotonic()
            try:
                popen = subprocess.Popen(
                    command, cwd=folder / stage.cwd, env=environment, stdout=log, stderr=subprocess.STDOUT,
                    stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_in_child,  # noqa: PLW1509
                )  # fmt: skip
            except OSError as error:
                raise EvalError(
                    f"stages.{name}.command", "be a command that starts", f"{' '.join(command)}: {error}"
                ) from error
            process = Process(name, popen, started, port, work)
            try:
                yield process
            finally:
                process.stop()


def filled(text: str, values: dict[str, str]) -> str:
    """Replaces {port}, {events} and {python} (this interpreter); other braces stay as they are."""
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def free_port() -> int:
    """A TCP port of loopback that is free now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _in_child() -> None:
    """If the evaluator is killed, the workload must not go on holding the device (Linux only); Ctrl-C must stop it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs inherit: ignored
    if _PRCTL:
        _PRCTL(PR_SET_PDEATHSIG, signal.SIGTERM)
