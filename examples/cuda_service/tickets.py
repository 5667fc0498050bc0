"""The tickets as tensors: words hashed into a fixed vocabulary, so that no vocabulary file is needed."""

import zlib
from pathlib import Path

import torch

LABELS = ("billing", "delivery", "technical")
VOCABULARY = 4096
PADDING = 0


def encode(texts: list[str], length: int) -> torch.Tensor:
    """Word ids, [texts, length]."""
    rows = []
    for text in texts:
        words = text.lower().replace(",", " ").replace(".", " ").split()[:length]
        ids = [zlib.crc32(word.encode()) % (VOCABULARY - 1) + 1 for word in words]
        rows.append(ids + [PADDING] * (length - len(ids)))
    return torch.tensor(rows, dtype=torch.int64)


def read(path: Path, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Word ids [tickets, length] and labels [tickets] of a file with a label and a text a line."""
    labels, texts = zip(*(line.split("\t") for line in path.read_text().splitlines()), strict=True)
    return encode(list(texts), length), torch.tensor([LABELS.index(label) for label in labels])
