"""Settings from config.yaml; TICKETS_DEVICE names another device."""

import os
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent


@dataclass
class Settings:
    device: str
    seed: int
    length: int
    width: int
    batch_size: int
    epochs: int
    learning_rate: float
    pin_memory: bool
    compile: bool


def load(path: Path = ROOT / "config.yaml") -> Settings:
    """Reads a configuration; a missing or unknown field is a TypeError that names it."""
    settings = Settings(**yaml.safe_load(path.read_text()))
    settings.device = os.environ.get("TICKETS_DEVICE", settings.device)
    return settings
