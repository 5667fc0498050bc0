"""Records measurements until it is killed; prints the position of each one only once `record` has returned.

    recorder.py FOLDER FIRST COUNT [DIE_AT]     DIE_AT: kill this process, -9, just before its n-th durable step

A durable step is a write to the log, a sync or a rename: between any two of them a kill leaves another state behind.
"""

import os
import signal
import sys
import types
from pathlib import Path

root = Path(__file__).resolve().parents[3] / "python" / "torchport"
package = types.ModuleType("torchport")  # torchport/__init__ imports torch, which takes seconds and is not needed
package.__path__ = [str(root)]
sys.modules["torchport"] = package
sys.path.insert(0, str(Path(__file__).parent))

import toy_evaluation

from torchport.migrate.evaluate import writer

folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
left = int(sys.argv[4]) if len(sys.argv) > 4 else 0


def deadly(function):
    def wrapped(*args, **kwargs):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    return wrapped


if left:
    os.fsync, os.replace, os.write = deadly(os.fsync), deadly(os.replace), deadly(os.write)
with writer.opened(folder) as evaluation:
    for position in range(first, first + count):
        writer.record(evaluation, toy_evaluation.made("port", position, 100.0), {".npz": b"logits"})
        print(position, flush=True)
