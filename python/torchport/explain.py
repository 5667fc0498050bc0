"""python -m torchport.explain 'torch.cumsum(x, 1)': one call on its way to the device, a block a folder of core/.

`x` and `y` are f32[3, 4], `i` is s64[3], all on the device; any expression over torch and these will do.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SHORT = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "s64",
    torch.int32: "s32",
    torch.uint8: "u8",
    torch.bool: "bool",
}


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{_SHORT.get(value.dtype, str(value.dtype))}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    return repr(value)


class _Calls(TorchDispatchMode):
    """Notes every aten call that reaches a device."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, str]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [_text(a) for a in args] + [f"{k}={_text(v)}" for k, v in (kwargs or {}).items()]
        self.calls.append((func, f"{func}({', '.join(given)}) -> {_text(result)}"))
        return result


def explain(expression: str) -> str:
    """The blocks for one expression, as text. To be called before the first use of the device in the process."""
    with tempfile.TemporaryDirectory(prefix="torchport-") as folder:
        os.environ["TORCHPORT_DUMP"] = folder
        import torchport
        from torchport.rewrite import full_name

        name = torchport.activate()
        names = {"torch": torch, "x": torch.randn(3, 4).to(name), "y": torch.randn(3, 4).to(name)}
        names["i"] = torch.arange(3).to(name)
        before = set(Path(folder).iterdir())
        torchport.reset_report()
        with _Calls() as seen:
            result = eval(expression, names)  # the user's own expression, on the user's own command line
        torch.get_device_module(name).synchronize()
        dumped = sorted(set(Path(folder).iterdir()) - before)
        programs = [path.read_text() for path in dumped if path.suffix == ".mlir"]
        report = torchport.report()
        table = {row["name"]: row for row in torchport.ops()}
        lowered = [full_name(func).removeprefix("aten::") for func, _ in seen.calls]
        rows = [table.get(op) for op in lowered]
        blocks = {
            "aten": [line for _, line in seen.calls],
            "trace": [f"mode {torchport.eager_mode()}, {report['launches']} launches"],
            "graph": [f"node {op}" for op in lowered],
            "ops": [
                f"{r['name']}  {r['file']}:{r['line']}" if r else f"{op}: no block" for op, r in zip(lowered, rows)
            ],
            "hlo": "\n".join(programs).splitlines(),
            "exec": [f"{report['programs_compiled']} compiled in {report['compile_ms']:.1f} ms"],
            "pjrt": [f"{report['platform']} -> {_text(result)}"],
        }
    return "\n".join(f"{folder}\n" + "\n".join(f"  {line}" for line in lines) for folder, lines in blocks.items())


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    print(explain(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
