"""A small convolutional network on scikit-learn's handwritten digits: 1,797 real 8x8 images, 10 classes.

Ordinary PyTorch: the device is a name, and nothing here knows which backend answers to it. The network is smooth (GELU,
average pooling) on purpose: a ReLU or a max pool that flips on one rounding error sends two correct runs up to 0.09 of
loss apart within 66 steps, which would hide real errors; the smooth network keeps them within 1e-6.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

TEST_IMAGES = 360
BATCH = 64


class DigitsCNN(nn.Module):
    """Two convolution blocks with batch norm, one pooling step each, and a two-layer head (53,002 parameters)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(64)
        self.hidden = nn.Linear(64 * 2 * 2, 128)
        self.out = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Maps images (N, 1, 8, 8) to class scores (N, 10)."""
        x = F.avg_pool2d(F.gelu(self.norm1(self.conv1(x))), 2)
        x = F.avg_pool2d(F.gelu(self.norm2(self.conv2(x))), 2)
        return self.out(F.gelu(self.hidden(x.flatten(1))))


def load_data(dtype: torch.dtype = torch.float32) -> tuple[TensorDataset, TensorDataset]:
    """The images split into training and test sets, by a fixed shuffle."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=dtype).unsqueeze(1) / 16
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1797))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def build(seed: int) -> DigitsCNN:
    """A network with the initial weights that the seed gives."""
    torch.manual_seed(seed)
    return DigitsCNN()


@torch.no_grad()
def evaluate(model: nn.Module, data: TensorDataset, device: str) -> tuple[float, float]:
    """Mean loss and accuracy on a data set."""
    model.eval()
    loss, correct = 0.0, 0
    for images, labels in DataLoader(data, BATCH):
        images, labels = images.to(device), labels.to(device)
        scores = model(images)
        loss += F.cross_entropy(scores, labels, reduction="sum").item()
        correct += (scores.argmax(1) == labels).sum().item()
    model.train()
    return loss / len(data), correct / len(data)


def train(
    model: nn.Module, device: str, steps: int, seed: int = 0, on_step: Callable[[int, float], None] | None = None
) -> dict[str, float | list[float]]:
    """Trains for `steps` batches; returns the loss of every step, the test loss and the test accuracy."""
    model.to(device)
    train_set, test_set = load_data(next(model.parameters()).dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    order = torch.Generator().manual_seed(seed)
    loader = DataLoader(train_set, BATCH, shuffle=True, drop_last=True, generator=order)
    losses: list[float] = []
    while len(losses) < steps:
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if on_step is not None:
                on_step(len(losses), losses[-1])
            if len(losses) == steps:
                break
    test_loss, accuracy = evaluate(model, test_set, device)
    return {"losses": losses, "held_out_loss": test_loss, "accuracy": accuracy}
