"""`torchport check`: does a model run on a chip, does it fit, how fast could it be, what would it cost, with no chip.

The parts, in the order in which they run: `script` (run in emulation and capture a step), `step` (one program of a
step), `compiler` (compile it for each target in worker processes), `estimate` and `verdict` (judge), `report` (show).
"""

from torchport.check.compiler import CompileResult, Job, compile_for, compile_many
from torchport.check.targets import Target, chips, target

__all__ = ["CompileResult", "Job", "Target", "chips", "compile_for", "compile_many", "target"]
