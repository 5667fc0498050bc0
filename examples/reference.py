"""The CPU's runs of the main job, kept between calls: for one torch, machine, source and seed they are always the same.

Only what is held against is kept; the device trains anew in every call. Without a folder nothing is kept.
"""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import json
import platform
from dataclasses import asdict
from pathlib import Path

import torch

from outcome import Run, replace

HERE = Path(__file__).parent
SOURCES = ("digits_cnn.py", "char_gpt.py", "parity.py", "train.py", "reference.py")


def key(job: str, steps: int, seed: int) -> str:
    """Everything that the CPU's numbers depend on, as one hash."""
    sources = [hashlib.sha256((HERE / name).read_bytes()).hexdigest() for name in SOURCES]
    # CPython's version stands for the text that the GPT reads, scikit-learn's for the digits.
    versions = [torch.__version__, platform.python_version(), importlib.metadata.version("scikit-learn")]
    machine = [platform.machine(), torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()]
    parts = [job, steps, seed, *sources, *versions, *machine]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def load(folder: Path, name: str) -> tuple[str, list[Run]] | None:
    """The date of the runs that are kept under that key, and the runs: the plain one, then its twins."""
    path = folder / f"{name}.json"
    if not path.is_file():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    return data["date"], [Run(**run) for run in data["runs"]]


def save(folder: Path, name: str, runs: list[Run]) -> None:
    """Keeps the runs; the file appears whole or not at all."""
    data = {"date": datetime.date.today().isoformat(), "runs": [asdict(run) for run in runs]}
    replace(folder / f"{name}.json", lambda path: path.write_text(json.dumps(data), encoding="utf-8"))
