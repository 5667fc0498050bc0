"""The evaluator: criteria sealed before the test, three stages measured apart, cost and risk, a revisable decision.

`load_folder(dir)` reads an evaluation folder without changing it. Nothing here imports torch.
"""

from torchport.migrate.evaluate.errors import EvalError, TamperError
from torchport.migrate.evaluate.folder import Evaluation, Ledger, Recorded, load_folder

__all__ = ["EvalError", "Evaluation", "Ledger", "Recorded", "TamperError", "load_folder"]
