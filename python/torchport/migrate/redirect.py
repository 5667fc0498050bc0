"""`torchport run`: carries a script that was written for CUDA over to the device, and notes each redirection.

Only this process is touched, and only while the script runs: a TorchFunctionMode turns device arguments, the modules
under torch.cuda answer the script (and nobody else) with those of torch.<device>, and a few functions of torch that
the mode cannot see are wrapped. A library asks torch.cuda.is_available() and hears the truth, so it does not take a
CUDA path. What is not redirected raises what it always raised. Other processes that the script starts are not
followed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import runpy
import signal
import sys
import sysconfig
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from torchport.migrate.findings import RUN_SCHEMA
from torchport.migrate.python_scan import rule_of_name

CUDA = re.compile(r"^cuda(:(\d+))?$")
TYPE = re.compile(r"^torch\.cuda\.(\w+)Tensor$")
HARMLESS = ("torch.cuda.nvtx.", "torch.cuda.set_per_process_memory_fraction", "torch.cuda.profiler.")
MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})


class Ledger:
    """The redirections of one run: where, what, to what, how often."""

    def __init__(self, root: Path, device: str) -> None:
        self.root = str(root.resolve())
        self.device = device
        self.entries: dict[tuple[str, int, str, str], int] = {}
        self.lock = threading.Lock()

    def is_users(self, filename: str) -> bool:
        """Whether a file belongs to the script's folder, and not to a library installed below it."""
        if filename.startswith("<"):
            return False
        path = str(Path(filename).resolve()) if not filename.startswith("/") else filename
        return path.startswith(self.root + "/") and not path.startswith(LIBRARIES) and "/site-packages/" not in path

    def note(self, what: str, to: str) -> None:
        """Writes a redirection down at the nearest line of the user's code, or of whoever called."""
        frame = sys._getframe(1)
        caller = None
        while frame is not None:
            name = frame.f_code.co_filename
            if self.is_users(name):
                caller = frame
                break
            if caller is None and not name.startswith((str(Path(__file__).parent), "<")):
                caller = frame
            frame = frame.f_back
        file, line = (caller.f_code.co_filename, caller.f_lineno) if caller else ("?", 0)
        with self.lock:
            key = (file, line, what, to)
            self.entries[key] = self.entries.get(key, 0) + 1

    def rows(self) -> list[dict[str, Any]]:
        """The entries in the order of the source, with the rule of the catalogue that each belongs to."""
        rows = []
        for (file, line, what, to), count in sorted(self.entries.items()):
            shown = file.removeprefix(self.root + "/")
            rows.append({"file": shown, "line": line, "what": what, "to": to, "rule": rule_for(what), "count": count})
        return rows

    # ---- one value at a time -----------------------------------------------------------------------------------------

    def device_of(self, value: Any) -> Any:
        """A device argument that says CUDA, as the device's; anything else as it is."""
        if isinstance(value, str):
            match = CUDA.match(value)
            if match:
                new = self.device + (f":{match.group(2)}" if match.group(2) else "")
                self.note(f'"{value}"', f'"{new}"')
                return new
        elif isinstance(value, torch.device) and value.type == "cuda":
            new = torch.device(self.device) if value.index is None else torch.device(self.device, value.index)
            self.note(f'torch.device("{value}")', f'torch.device("{new}")')
            return new
        return value


def rule_for(what: str) -> str | None:
    """The catalogue's rule of a redirection."""
    fixed = {".cuda()": "CU001", ".is_cuda": "CU008", "nccl": "CU079", "map_location": "CU009"}
    for words, rule in fixed.items():
        if words in what:
            return rule
    if what.startswith(('"cuda', 'torch.device("cuda')):
        return "CU002"
    for words, rule in (
        ("autocast", "CU033"),
        ("mode=", "CU024"),
        ("dynamic=", "CU025"),
        ("inductor", "CU026"),
        ("Tensor", "CU008"),
    ):
        if words in what:
            return rule
    found = rule_of_name(what.partition("(")[0])
    return found.id if found else None


class Redirection(TorchFunctionMode):
    """Turns the device arguments of every call into torch."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "cuda" and func is torch.Tensor.cuda:
            return self._cuda(*args, **kwargs)
        if name == "__get__" and func == torch.Tensor.is_cuda.__get__:
            self.ledger.note(".is_cuda", f'.device.type == "{self.ledger.device}"')
            return args[0].device.type == self.ledger.device
        if name == "type" and len(args) > 1 and (match := TYPE.match(str(args[1]))):
            kind = getattr(torch, f"{match.group(1)}Tensor")
            self.ledger.note(f".type({args[1]})", f'.to("{self.ledger.device}", {kind.dtype})')
            return args[0].to(self.ledger.device, kind.dtype)
        args = tuple(self.ledger.device_of(value) if isinstance(value, str | torch.device) else value for value in args)
        for key, value in kwargs.items():
            if isinstance(value, str | torch.device):
                kwargs = {**kwargs, key: self.ledger.device_of(value)}
        return func(*args, **kwargs)

    def _cuda(self, tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, **more: Any) -> torch.Tensor:
        target: Any = self.ledger.device
        if isinstance(device, int):
            target = torch.device(self.ledger.device, device)
        elif device is not None:
            index = torch.device(device).index
            target = torch.device(self.ledger.device) if index is None else torch.device(self.ledger.device, index)
        self.ledger.note(".cuda()", f'.to("{target}")')
        return tensor.to(target, non_blocking=non_blocking, **more)


def _proxy(ledger: Ledger, module: types.ModuleType) -> type:
    """A class for a module under torch.cuda that answers the user's code with the device's module."""
    prefix = module.__name__
    ours = torch.get_device_module(ledger.device)
    for part in prefix.split(".")[2:]:
        ours = getattr(ours, part, None)

    def nothing(*args: Any, **kwargs: Any) -> contextlib.AbstractContextManager:
        return contextlib.nullcontext()

    class Redirected(type(module)):
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("__") or not ledger.is_users(sys._getframe(1).f_code.co_filename):
                return super().__getattribute__(name)
            full = f"{prefix}.{name}"
            value = super().__getattribute__(name) if name in self.__dict__ else None
            if isinstance(value, types.ModuleType):
                return value
            if full.startswith(HARMLESS):
                ledger.note(full, "nothing")
                return nothing
            if ours is not None and hasattr(ours, name):
                ledger.note(full, f"{ours.__name__.replace('torchport.device', f'torch.{ledger.device}')}.{name}")
                return getattr(ours, name)
            return super().__getattribute__(name)

    return Redirected


def _wrappers(ledger: Ledger) -> Iterator[tuple[Any, str, Any]]:
    """What a mode cannot see: owner, name, replacement."""
    device = ledger.device

    class autocast(torch.amp.autocast_mode.autocast):
        def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
            if device_type == "cuda":
                ledger.note('torch.autocast("cuda")', f'torch.autocast("{device}")')
                device_type = device
            super().__init__(device_type, *args, **kwargs)

    class GradScaler(torch.amp.grad_scaler.GradScaler):
        def __init__(self, target: str = "cuda", *args: Any, **kwargs: Any) -> None:
            target = kwargs.pop("device", target)
            if target == "cuda":
                ledger.note('torch.amp.GradScaler("cuda")', f'torch.amp.GradScaler("{device}")')
                target = device
            super().__init__(target, *args, **kwargs)

    class _IsGenerator(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, generator)

    generator = torch.Generator

    class Generator(metaclass=_IsGenerator):
        def __new__(cls, target: Any = "cpu", **kwargs: Any) -> torch.Generator:
            return generator(device=ledger.device_of(kwargs.get("device", target)))

    for owner in (torch, torch.amp):
        yield owner, "autocast", autocast
        yield owner, "GradScaler", GradScaler
    yield torch, "Generator", Generator
    yield torch, "load", _load(ledger, torch.load)
    yield torch, "compile", _compile(ledger, torch.compile)
    yield torch, "set_default_device", _first(ledger, torch.set_default_device)
    yield torch, "set_default_tensor_type", _default_type(ledger, torch.set_default_tensor_type)
    yield torch.nn, "DataParallel", _one_device(ledger, torch.nn.DataParallel)
    if torch.distributed.is_available():
        yield torch.distributed, "init_process_group", _process_group(ledger, torch.distributed.init_process_group)


def _first(ledger: Ledger, function: Callable) -> Callable:
    @functools.wraps(function)
    def wrapped(target: Any, *args: Any, **kwargs: Any) -> Any:
        return function(ledger.device_of(target), *args, **kwargs)

    return wrapped


def _load(ledger: Ledger, load: Callable) -> Callable:
    @functools.wraps(load)
    def wrapped(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if map_location is None:
            count = torch.get_device_module(ledger.device).device_count()
            map_location = {f"cuda:{i}": f"{ledger.device}:{min(i, count - 1)}" for i in range(64)}
            ledger.note("torch.load without map_location", f'map_location={{"cuda:0": "{ledger.device}:0", ...}}')
        else:
            map_location = ledger.device_of(map_location)
        return load(f, map_location, *args, **kwargs)

    return wrapped


def _compile(ledger: Ledger, compile: Callable) -> Callable:
    @functools.wraps(compile)
    def wrapped(model: Any = None, **kwargs: Any) -> Any:
        if kwargs.get("mode") in MODES:
            ledger.note(f'torch.compile(mode="{kwargs.pop("mode")}")', "the default mode")
        if kwargs.get("dynamic"):
            ledger.note("torch.compile(dynamic=True)", "dynamic left out")
            del kwargs["dynamic"]
        if kwargs.get("backend", "inductor") == "inductor":
            ledger.note("torch.compile(backend=inductor)", 'backend="torchport"')
            kwargs["backend"] = "torchport"
        return compile(model, **kwargs) if model is not None else compile(**kwargs)

    return wrapped


def _default_type(ledger: Ledger, set_type: Callable) -> Callable:
    @functools.wraps(set_type)
    def wrapped(kind: Any) -> None:
        name = (kind if isinstance(kind, str) else kind.__name__).split(".")[-1]
        ours = getattr(torch.get_device_module(ledger.device), name, None)
        if not (str(kind).startswith("torch.cuda.") or kind is ours):
            return set_type(kind)
        dtype = getattr(torch, name).dtype
        ledger.note(
            f"torch.set_default_tensor_type(torch.cuda.{name})",
            f'set_default_dtype({dtype}), set_default_device("{ledger.device}")',
        )
        torch.set_default_dtype(dtype)
        torch.set_default_device(ledger.device)
        return None

    return wrapped


def _one_device(ledger: Ledger, parallel: type) -> type:
    class DataParallel(parallel):
        def __init__(self, module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
            ledger.note("torch.nn.DataParallel", "one device")
            super().__init__(module, device_ids=[0])

    return DataParallel


def _process_group(ledger: Ledger, init: Callable) -> Callable:
    @functools.wraps(init)
    def wrapped(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        if backend is not None and "nccl" in backend:
            to = torch.distributed.Backend.default_device_backend_map.get(ledger.device, "gloo")
            ledger.note(f'init_process_group("{backend}")', f'init_process_group("{to}")')
            backend = to
        return init(backend, *args, **kwargs)

    return wrapped


@contextlib.contextmanager
def redirected(ledger: Ledger) -> Iterator[None]:
    """Redirects CUDA for the code below ledger.root, and puts everything back."""
    with contextlib.ExitStack() as undo:

        def put(owner: Any, name: str, value: Any) -> None:
            undo.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)

        for owner, name, value in list(_wrappers(ledger)):
            put(owner, name, value)
        modules = [m for name, m in sys.modules.items() if name == "torch.cuda" or name.startswith("torch.cuda.")]
        for module in modules:
            if isinstance(module, types.ModuleType):
                put(module, "__class__", _proxy(ledger, module))
        start = threading.Thread.start

        def start_redirected(thread: threading.Thread) -> None:
            run = thread.run

            def with_mode() -> None:
                with Redirection(ledger):  # a mode belongs to its thread
                    run()

            thread.run = with_mode
            start(thread)

        put(threading.Thread, "start", start_redirected)
        undo.enter_context(Redirection(ledger))
        yield


def run_script(script: str | Path, arguments: list[str], log: Path | None, module: bool = False) -> int:
    """Runs a script, or a module by its name, as __main__ with redirection; returns its exit status.

    Redirected is the code below the script's folder, or below the working folder for a module. The log is written and
    the summary goes to stderr however the program ends, short of SIGKILL.
    """
    import torchport

    folder = Path.cwd() if module else Path(script).resolve().parent
    ledger = Ledger(folder, torchport.activate())
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(folder))
    status = 0
    try:
        with redirected(ledger), _ends_on_sigterm():
            if module:
                runpy.run_module(str(script), run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(str(Path(script).resolve()), run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except Exception as error:  # noqa: BLE001  the script's own, shown as Python shows it
        status = 1
        _show(error, ledger)
    finally:
        sys.argv, sys.path[:] = argv, path
        rows = ledger.rows()
        if log is not None:
            from torchport.migrate.api import write_atomically

            record = {
                "schema": RUN_SCHEMA,
                "script": Path(script).name,
                "arguments": arguments,
                "device": ledger.device,
            }
            record |= {"exit_status": status, "redirections": rows}
            write_atomically(log, json.dumps(record, indent=2) + "\n")
        _summarise(rows, ledger.device)
    return status


@contextlib.contextmanager
def _ends_on_sigterm() -> Iterator[None]:
    """Turns SIGTERM into SystemExit, so that what was learnt so far is written; a script may set its own handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(error: Exception, ledger: Ledger) -> None:
    frames = error.__traceback__
    while frames is not None and not ledger.is_users(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)


def _summarise(rows: list[dict[str, Any]], device: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(stderr=True, soft_wrap=True, width=None if sys.stderr.isatty() else 160)
    if rows:
        table = Table(title=f"redirected to {device}: changes still owed")
        for column in ("place", "rule", "what", "to", "times"):
            table.add_column(column, overflow="fold")
        for row in rows:
            place = f"{row['file']}:{row['line']}"
            table.add_row(place, row["rule"] or "", row["what"], row["to"], str(row["count"]))
        console.print(table)
    places = len({(row["file"], row["line"]) for row in rows})
    console.print(
        f"{len(rows)} redirections in {places} places; `torchport port` makes the automatic changes", markup=False
    )
