"""One target's compiler in a process of its own, watched: its answers, its memory, its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from torchport.check.targets import Target

Outcome = Literal[
    "compiled", "refused", "too_large", "aborted", "timed_out", "host_memory", "killed", "no_plugin", "no_compiler"
]
SAY_S = 20.0  # between lines that say that a compiler is still at work


def _resident(pid: int) -> int:
    """Bytes of memory that a process holds now; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Failed(Exception):
    """The worker ended without an answer."""

    def __init__(self, outcome: Outcome, words: str) -> None:
        super().__init__(words)
        self.outcome: Outcome = outcome


class Worker:
    """A process with one target's compiler loaded; used for one program after another."""

    def __init__(self, wanted: Target, command: Sequence[str], memory_bytes: int) -> None:
        self.memory_bytes = memory_bytes
        self.peak = 0
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        read, write = os.pipe()
        environment = {k: v for k, v in os.environ.items() if k not in ("TORCHPORT_DUMP", "TORCHPORT_REPORT")}
        environment |= {"TORCHPORT_DEVICE": "tpu", "TPU_STDERR_LOG_LEVEL": "3", "TF_CPP_MIN_LOG_LEVEL": "2"}
        # No chip is held, so several processes with libtpu do not disturb each other.
        environment["ALLOW_MULTIPLE_LIBTPU_LOAD"] = "1"
        try:
            self.process = subprocess.Popen(
                [*command, str(write), wanted.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                pass_fds=(write,),
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(write)
        self.replies = os.fdopen(read, "rb", buffering=0)
        self.buffer = b""

    def ask(
        self,
        request: dict[str, Any] | None,
        timeout_s: float,
        waiting: Callable[[float, int], None] = lambda seconds, resident: None,
    ) -> dict[str, Any]:
        """Sends a request (None: waits for the greeting) and waits for the answer; Failed when there is none.

        waiting: called every SAY_S seconds, with the seconds so far and the bytes of memory that the process holds.
        """
        if request is not None:
            assert self.process.stdin is not None
            try:
                self.process.stdin.write(json.dumps(request).encode() + b"\n")
                self.process.stdin.flush()
            except BrokenPipeError:
                raise self._death() from None
        started = said = time.monotonic()
        deadline = started + timeout_s
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.replies], [], [], 0.1)
            if ready:
                chunk = os.read(self.replies.fileno(), 1 << 16)
                if not chunk:
                    raise self._death()
                self.buffer += chunk
            now = _resident(self.process.pid)
            self.peak = max(self.peak, now)
            if now > self.memory_bytes:
                self.stop()
                words = f"the compiler used {now / 1e9:.1f} GB of host memory, over the limit of {self.memory_bytes / 1e9:.1f} GB"
                raise Failed("host_memory", words)
            if time.monotonic() - said > SAY_S:
                said = time.monotonic()
                waiting(said - started, now)
            if time.monotonic() > deadline:
                self.stop()
                raise Failed("timed_out", f"the compiler gave no answer in {timeout_s:.0f} s")
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    def _death(self) -> Failed:
        """Why the process is no more, in its own words."""
        status = self.process.wait()
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(size - 20000, 0))
        lines = [line for line in self.errors.read().decode(errors="replace").splitlines() if line.strip()]
        # A compiler's last words are a failed check (F...); stack frames and raw logs after it say nothing to a user.
        fatal = [line for line in lines if re.match(r"F\d{4} |.*(Check failed|terminate called|what\(\))", line)]
        words = " / ".join(fatal[-2:] or lines[-2:])[:2000]
        if status < 0:
            name = signal.Signals(-status).name
            outcome: Outcome = "killed" if -status in (signal.SIGKILL, signal.SIGTERM) else "aborted"
            return Failed(outcome, f"the compiler's process ended by {name}" + (f": {words}" if words else ""))
        return Failed("aborted", f"the compiler's process ended with status {status}" + (f": {words}" if words else ""))

    def stop(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.stop()
        self.replies.close()
        self.errors.close()
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
