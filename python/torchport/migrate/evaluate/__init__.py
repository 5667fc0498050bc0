"""The evaluator: criteria sealed before the test, three stages measured apart, cost and risk, a revisable decision.

`load_folder(dir)` reads an evaluation folder without changing it. Nothing here imports torch.
"""

# Names are loaded on first use, so that the command line starts where the extra `torchport[eval]` is not installed.

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torchport.migrate.evaluate.errors import EvalError, TamperError
    from torchport.migrate.evaluate.folder import Evaluation, Ledger, Recorded, load_folder

__all__ = ["EvalError", "Evaluation", "Ledger", "Recorded", "TamperError", "load_folder"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "errors" if name.endswith("Error") else "folder"
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
