"""A character-level GPT on the Python language reference that CPython ships (`pydoc_data.topics`, 465,000 characters).

Ordinary PyTorch: the device is a name, and nothing here knows which backend answers to it.
"""

from __future__ import annotations

from collections.abc import Callable
from pydoc_data.topics import topics

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset

LAYERS, WIDTH, HEADS, CONTEXT = 4, 256, 8, 128
BATCH = 8
VALIDATION_WINDOWS = 32


class Text(Dataset):
    """Windows of CONTEXT characters and the same windows one character later."""

    def __init__(self, ids: torch.Tensor) -> None:
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids) - CONTEXT

    def __getitem__(self, start: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = self.ids[start : start + CONTEXT + 1]
        return window[:-1], window[1:]


def load_data() -> tuple[Text, Text, list[str]]:
    """The first nine tenths of the text for training, the last tenth for validation, and the vocabulary."""
    text = "\n".join(topics[name] for name in sorted(topics))
    vocabulary = sorted(set(text))
    index = {character: i for i, character in enumerate(vocabulary)}
    ids = torch.tensor([index[character] for character in text], dtype=torch.int64)
    cut = len(ids) * 9 // 10
    return Text(ids[:cut]), Text(ids[cut:]), vocabulary


class Block(nn.Module):
    """Causal self-attention and a GELU feed-forward layer, each after a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.project = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps (N, T, WIDTH) to the same shape."""
        n, t, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGPT(nn.Module):
    """Embedding with learned positions, LAYERS blocks, a final norm and an untied head."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary_size, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, vocabulary_size, bias=False)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
                if getattr(module, "bias", None) is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Maps character ids (N, T) to scores of the next character (N, T, vocabulary)."""
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build(seed: int) -> CharGPT:
    """A model with the initial weights that the seed gives."""
    torch.manual_seed(seed)
    return CharGPT(len(load_data()[2]))


def next_character_loss(model: nn.Module, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy, in nats per character."""
    return F.cross_entropy(model(ids).flatten(0, 1), targets.flatten())


@torch.no_grad()
def evaluate(model: nn.Module, data: Text, device: str) -> float:
    """Mean loss on VALIDATION_WINDOWS windows spread evenly over a text."""
    model.eval()
    stride = len(data) // VALIDATION_WINDOWS
    windows = Subset(data, range(0, stride * VALIDATION_WINDOWS, stride))
    losses = [
        next_character_loss(model, ids.to(device), targets.to(device)) for ids, targets in DataLoader(windows, BATCH)
    ]
    model.train()
    return torch.stack(losses).mean().item()


def train(
    model: nn.Module, device: str, steps: int, seed: int = 0, on_step: Callable[[int, float], None] | None = None
) -> dict[str, float | list[float]]:
    """Trains for `steps` batches; returns the loss of every step and the validation loss."""
    model.to(device)
    train_set, validation_set, _ = load_data()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    order = torch.Generator().manual_seed(seed)
    sampler = RandomSampler(train_set, num_samples=steps * BATCH, generator=order)
    losses: list[float] = []
    for ids, targets in DataLoader(train_set, BATCH, sampler=sampler):
        ids, targets = ids.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = next_character_loss(model, ids, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if on_step is not None:
            on_step(len(losses), losses[-1])
    return {"losses": losses, "held_out_loss": evaluate(model, validation_set, device)}
