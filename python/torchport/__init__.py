"""TorchPort: PyTorch on any PJRT device.

`import torch` alone makes the device available (entry point `torch.backends`); nothing here replaces a function of
torch. Start-up is the five steps at the end of this file, in the order in which they run. torch is imported when it is
first needed: commands that read files only start without it.
"""

from __future__ import annotations

import importlib.util
import os
import sys

__version__ = "0.1.0"

_active: str | None = None  # the torch device name, once the five steps have run
_refusal: str | None = None  # why they did not run
_loaded = False  # whether this module has run to its end


def _autoload() -> None:
    """Entry point that `import torch` calls."""
    if _loaded:  # not yet when this module is what imports torch; its last line calls again
        _activate(asked="TORCHPORT_DEVICE" in os.environ)


def activate() -> str:
    """Make the device available even where autoload holds back (a CUDA build, a rival package); returns its name."""
    return _activate(asked=True)


def is_active() -> bool:
    """Whether this process has the device."""
    _import_torch()
    return _active is not None


from torchport.modes import eager_mode, random_mode, report, reset_report

__all__ = [
    "activate",
    "eager_mode",
    "env_table",
    "error_table",
    "is_active",
    "ops",
    "platforms",
    "random_mode",
    "report",
    "reset_report",
]


def ops() -> list[dict]:
    """The ops that have a lowering: name, file, line."""
    return _core().ops()


def platforms() -> list[dict]:
    """The platforms TorchPort knows, and where it looked for a plugin of each."""
    return _core().platforms()


def error_table() -> list[dict]:
    """Every error code with its cause and cure."""
    return _core().error_table()


def env_table() -> list[dict]:
    """Every environment variable with its default and meaning."""
    return _core().env_table()


def _core():
    """The C++ extension, or an error that says why it is not in use here."""
    _import_torch()
    if _active is None:
        raise RuntimeError(f"[torchport] must be active, got: {_refusal or 'not started'}. Try: torchport.activate()")
    from torchport import _C

    return _C


def _import_torch() -> None:
    """Makes `torch` known in this module. Its first import calls back through _autoload, where autoload is on."""
    global torch
    import torch


def _activate(asked: bool) -> str | None:
    global _active, _refusal
    _import_torch()
    if _active is None:
        name = _choose_name()
        refusal = _check_neighbours(name, asked)
        if refusal is None:
            _load_core(name)
            _register_device(name)
            _arm_process(name)
            _active = name
        elif asked:
            raise RuntimeError(refusal)
        elif _refusal is None and os.environ.get("TORCHPORT_LOG") != "error":
            print(refusal, file=sys.stderr)
        _refusal = refusal
    return _active


# ---- the five steps ------------------------------------------------------------------------------------------------


def _choose_name() -> str:
    """Step 1: the one device name of this process."""
    name = os.environ.get("TORCHPORT_DEVICE") or "tpu"
    # torch.load tests locations by prefix, so a name that begins with cpu or cuda would be taken for those.
    if not (name.isidentifier() and name == name.lower()) or name.startswith(("cpu", "cuda")):
        raise ValueError(
            "[TORCHPORT_DEVICE] must be a lower-case identifier that does not begin with cpu or cuda, "
            f"got {name!r} (TP0340). Try: TORCHPORT_DEVICE=tpu"
        )
    return name


def _check_neighbours(name: str, asked: bool) -> str | None:
    """Step 2: hold back beside a CUDA build or a rival backend, unless asked; the reason, or None to go on."""
    taken = torch._C._get_privateuse1_backend_name()
    if taken != "privateuseone":
        return f"[torchport] must be the only PrivateUse1 backend, got a process where '{taken}' has that place"
    if hasattr(torch, name) or _is_device(name):
        return (
            f"[torchport] must register torch.{name}, got a torch that knows this name. Try: another TORCHPORT_DEVICE"
        )
    if asked:
        return None
    how = f"to use it anyway set TORCHPORT_DEVICE={name} or call torchport.activate()"
    if torch.version.cuda or torch.version.hip:
        return f"[torchport] not active: this torch is a CUDA or ROCm build, whose autograd a second backend affects; {how}"
    for rival in ("torch_tpu", "torch_neuronx"):
        if importlib.util.find_spec(rival) is not None:
            return f"[torchport] not active: {rival} is installed and takes the same place in torch; {how}"
    return None


def _is_device(name: str) -> bool:
    try:
        torch.device(name)
    except RuntimeError:
        return False
    return True


def _load_core(name: str) -> None:
    """Step 3: load the extension and tell it where plugins may lie. No device is opened: that is for the first use."""
    try:
        from torchport import _C
    except ImportError as err:
        raise ImportError(
            f"[torchport] must be built for this torch ({torch.__version__}), got: {err}. "
            "Try: reinstall torchport, or TORCH_DEVICE_BACKEND_AUTOLOAD=0 to go without it"
        ) from err
    from torchport import discover

    _C.configure(name, discover.search_path(), discover.plugins())


def _register_device(name: str) -> None:
    """Step 4: give torch the name, the module torch.<name> and the methods tensor.<name>(), module.<name>()."""
    torch.utils.rename_privateuse1_backend(name)
    from torchport import device

    torch._register_device_module(name, device)
    for part in device.SUBMODULES:  # so that `import torch.tpu.amp` works as it does for torch.cuda
        sys.modules[f"torch.{name}.{part}"] = getattr(device, part)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )


def _arm_process(name: str) -> None:
    """Step 5: what lasts as long as the process: the fork guard, the report at exit, the name Hugging Face reads."""
    import atexit

    from torchport import _C, modes

    os.register_at_fork(after_in_child=_C.after_fork)
    if path := os.environ.get("TORCHPORT_REPORT"):
        atexit.register(modes.write_report_at_exit, path, os.getpid())
    os.environ.setdefault("ACCELERATE_TORCH_DEVICE", name)


def _torch_will_call() -> bool:
    """Whether a later `import torch` finds the entry point and follows it."""
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1":
        return False
    import importlib.metadata

    return bool(importlib.metadata.entry_points(group="torch.backends", name="torchport"))


_loaded = True
# While torch itself is loading torch decides, by calling _autoload (or not: TORCH_DEVICE_BACKEND_AUTOLOAD=0).
if "torch" in sys.modules:
    if not getattr(sys.modules["torch"].__spec__, "_initializing", False):
        _autoload()
elif not _torch_will_call():
    _autoload()
