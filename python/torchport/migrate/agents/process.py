"""One program with a time limit, stopped together with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class Overran(Exception):
    """The program did not end in time; `output` is what it had said."""

    def __init__(self, output: bytes) -> None:
        super().__init__("the program did not end in time")
        self.output = output


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
    """Exit code, and standard output with standard error in it. Raises Overran after `seconds`."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # a process group of its own
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired as err:
            os.killpg(process.pid, signal.SIGKILL)
            raise Overran(process.communicate()[0]) from err
        return process.returncode, output
