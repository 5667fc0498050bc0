"""Worker processes that survive what they run: a crash or a hang costs one case, then the rest goes on."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
START_SECONDS = 300  # importing the op database on a loaded machine
GRACE_SECONDS = 10
TASKS_EACH = 200  # then a fresh process takes over: every program that was compiled stays in memory


@dataclass
class Task:
    """One op and dtype, with the modes still to run."""

    op: str
    dtype: str
    modes: list[str]


class Worker:
    """One process and the thread that reads its rows."""

    def __init__(self, log: Path, script: Path):
        self.log = log
        self.rows: queue.Queue[dict | None] = queue.Queue()
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.rows.put(json.loads(line))
        self.rows.put(None)

    def send(self, task: dict[str, Any]) -> None:
        """Hands over a task; a process that is already dead shows in the next row."""
        try:
            self.process.stdin.write(json.dumps(task) + "\n")
        except BrokenPipeError:
            self.rows.put(None)

    def next(self, seconds: float) -> dict | None:
        """The next row, None when the process ended; queue.Empty when it stayed silent."""
        return self.rows.get(timeout=seconds)

    def exit_text(self) -> str:
        """How the process ended, in words."""
        code = self.process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


class Pool:
    """Runs tasks on several workers and calls `report` with each row and `finished` after each task.

    timeout: seconds a case may take. options: what every task carries beside op, dtype and modes.
    """

    def __init__(
        self,
        jobs: int,
        timeout: float,
        options: dict[str, Any],
        log: Path,
        report: Callable,
        finished: Callable,
        script: Path = WORKER,
    ):
        self.jobs, self.timeout, self.options, self.log = jobs, timeout, options, log
        self.report, self.finished, self.script = report, finished, script
        self.lock, self.errors = threading.Lock(), []

    def run(self, tasks: list[Task]) -> None:
        """Runs every task; raises when a worker cannot even start."""
        pending = iter(tasks)
        threads = [threading.Thread(target=self._guarded, args=(i, pending), daemon=True) for i in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # a join without a limit would not let Ctrl-C through
                thread.join(0.5)
        if self.errors:
            raise self.errors[0]

    def _guarded(self, index: int, pending: Iterator[Task]) -> None:
        try:
            self._serve(index, pending)
        except Exception as error:  # noqa: BLE001 (raised again by run)
            self.errors.append(error)

    def _take(self, pending: Iterator[Task]) -> Task | None:
        with self.lock:
            return None if self.errors else next(pending, None)

    def _start(self, index: int) -> Worker:
        log = self.log.with_name(f"{self.log.name}.{index}.log")
        worker = Worker(log, self.script)
        try:
            row = worker.next(START_SECONDS)
        except queue.Empty:
            row = None
        if row is None:
            worker.stop()
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RuntimeError(f"a worker could not start:\n{tail}")
        return worker

    def _serve(self, index: int, pending: Iterator[Task]) -> None:
        worker: Worker | None = None
        served = 0
        while (task := self._take(pending)) is not None:
            modes = task.modes
            while modes:
                worker = worker or self._start(index)
                modes = self._run_task(worker, task, modes)
                if modes is not None:  # it died; what is left of the task goes to a fresh process
                    worker = None
                    continue
                break
            with self.lock:
                self.finished(task)
            served += 1
            if worker and served % TASKS_EACH == 0:
                worker.stop()
                worker = None
        if worker:
            worker.stop()

    def _run_task(self, worker: Worker, task: Task, modes: list[str]) -> list[str] | None:
        """Runs a task; None when it ended, else the modes left after the one that killed the worker."""
        worker.send({"op": task.op, "dtype": task.dtype, "modes": modes, "timeout": self.timeout, **self.options})
        current = modes[0]
        while True:
            try:
                # The worker's own alarm comes first; this one is for code that never returns to Python.
                row = worker.next(self.timeout * 1.5 + GRACE_SECONDS)
            except queue.Empty:
                worker.stop()
                row, result, message = None, "hang", "no answer, killed"
            else:
                if row is None:
                    result, message = "crash", worker.exit_text()
            if row is None:
                self._emit(task, current, result, message)
                return modes[modes.index(current) + 1 :]
            if row.get("done"):
                return None
            if "begin" in row:
                current = row["begin"]
            else:
                with self.lock:
                    self.report(row)

    def _emit(self, task: Task, mode: str, result: str, message: str) -> None:
        row = {
            "op": task.op,
            "dtype": task.dtype,
            "mode": mode,
            "result": result,
            "message": message,
            "samples": 0,
            "fallbacks": [],
        }
        with self.lock:
            self.report({**row, "seconds": 0.0})


class Progress:
    """A bar on a terminal, a line every tenth elsewhere."""

    def __init__(self, total: int):
        self.total, self.done, self.began, self.counts = total, 0, time.monotonic(), {}
        self.bar = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def count(self, result: str) -> None:
        """Counts one case."""
        self.counts[result] = self.counts.get(result, 0) + 1

    def step(self) -> None:
        """Counts one task and redraws."""
        self.done += 1
        spent = time.monotonic() - self.began
        left = spent / self.done * (self.total - self.done)
        text = " ".join(
            f"{name} {self.counts[name]}" for name in ("pass", "fail", "crash", "hang") if name in self.counts
        )
        if self.bar:
            filled = 30 * self.done // self.total
            end = "\n" if self.done == self.total else ""
            line = f"\r[{'#' * filled}{'.' * (30 - filled)}] {self.done}/{self.total} {text}, {left:.0f} s left "
            print(line, end=end, file=sys.stderr, flush=True)
        elif self.done == self.total or self.done * 10 // self.total != (self.done - 1) * 10 // self.total:
            print(f"{self.done}/{self.total} {text}, {spent:.0f} s, {left:.0f} s left", file=sys.stderr, flush=True)
