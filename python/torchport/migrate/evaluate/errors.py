"""The one error of the evaluator, in the form `[where] must ..., got .... Try: ...`, and how it names a missing package."""

from __future__ import annotations

import importlib
from types import ModuleType


class EvalError(Exception):
    """Bad input or a refused step. The message says where, what is allowed, what was found and the next step."""

    def __init__(self, where: str, must: str, got: object, hint: str = "") -> None:
        self.where, self.must, self.got, self.hint = where, must, str(got), hint
        super().__init__(f"[{where}] must {must}, got {got}" + (f". Try: {hint}" if hint else ""))


class TamperError(EvalError):
    """Something that was fixed is no longer what it was. `findings` names each place."""

    def __init__(self, findings: list[str]) -> None:
        self.findings = findings
        super().__init__(
            "eval verify",
            "find every sealed file and chain entry as it was recorded",
            f"{len(findings)} difference{'s' if len(findings) != 1 else ''}: " + "; ".join(findings),
            "restore the file from a backup; a plan or a price that has to change goes through torchport eval amend",
        )


def need(module: str, package: str) -> ModuleType:
    """Imports a package of the extra `eval`, or says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise EvalError(
            "torchport eval", f"find the package {package}", "none", "pip install 'torchport[eval]'"
        ) from error
