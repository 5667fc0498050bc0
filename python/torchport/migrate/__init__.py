"""From a CUDA code base to a documented decision: scan, port, run, eval. Only running code on the device needs torch.

`scan(path)` finds what ties code to CUDA, `port(path, apply)` rewrites what is automatic. Names are loaded on first
use, so that one part of the package can be used without what another part requires.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchport.migrate.api import port, scan, scan_tree, write_atomically
    from torchport.migrate.catalogue import Rule
    from torchport.migrate.findings import Change, Finding, PortResult, ScanResult, Unread, verified

__all__ = [
    "Change",
    "Finding",
    "PortResult",
    "Rule",
    "ScanResult",
    "Unread",
    "port",
    "scan",
    "scan_tree",
    "verified",
    "write_atomically",
]

_REQUIRED = ("libcst", "nbformat", "pydantic")
_HOMES = {
    "api": ("port", "scan", "scan_tree", "write_atomically"),
    "catalogue": ("Rule",),
    "findings": ("Change", "Finding", "PortResult", "ScanResult", "Unread", "verified"),
}


def __getattr__(name: str) -> Any:
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module in _REQUIRED:
        if importlib.util.find_spec(module) is None:
            raise ImportError(f"[{__name__}] must find {module}, got none. Try: pip install 'torchport[migrate]'")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
