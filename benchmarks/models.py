"""Claim: a GPT and a ResNet-18-shaped CNN give torch CPU's loss on the device; the table says at what ratio of time.

GPT: 4 layers, width 256, 8 heads, 8,192 tokens, batch 4, T=128. CNN: 3x64x64 images, batch 8. Forward under no_grad,
and a whole AdamW step. The loss before the first step must agree within 1e-4, or the exit status is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F

import measure
from resnet import ResNet18

sys.path.insert(0, str(measure.ROOT / "examples"))

import char_gpt  # the GPT of the main job, with a larger vocabulary

VOCABULARY, TOLERANCE = 8192, 1e-4


def gpt() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The model, a batch of ids and their targets."""
    torch.manual_seed(0)
    ids = torch.randint(0, VOCABULARY, (4, char_gpt.CONTEXT + 1))
    return char_gpt.CharGPT(VOCABULARY), ids[:, :-1].contiguous(), ids[:, 1:].contiguous()


def resnet() -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """The model, a batch of images and their classes."""
    torch.manual_seed(0)
    return ResNet18(), torch.randn(8, 3, 64, 64), torch.randint(0, 1000, (8,))


MODELS = {"GPT": gpt, "ResNet-18": resnet}


def workloads(build: Callable, device: str) -> tuple[float, Callable[[], None], Callable[[], None]]:
    """The loss at the start, a forward pass and a training step."""
    model, inputs, targets = build()
    model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def loss() -> torch.Tensor:
        scores = model(inputs)
        return F.cross_entropy(scores.flatten(0, -2), targets.flatten())

    @torch.no_grad()
    def forward() -> None:
        model(inputs)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    with torch.no_grad():
        return loss().item(), forward, step


def main(argv: list[str] | None = None) -> int:
    """Measures, shows, writes; returns the exit status."""
    claim = __doc__.splitlines()[0]
    parser = measure.options("models", claim, rounds=11)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    options = parser.parse_args(argv)
    before = measure.start(options.device)
    rows, losses, wrong = [], {}, []
    for name in options.models:
        loss, *on_device = workloads(MODELS[name], options.device)
        cpu_loss, *on_cpu = workloads(MODELS[name], "cpu")
        losses[name] = {"device": loss, "cpu": cpu_loss}
        if not abs(loss - cpu_loss) <= TOLERANCE:
            wrong.append(f"{name}: the loss must be within {TOLERANCE} of torch CPU's {cpu_loss:.6f}, got {loss:.6f}")
        for what, mine, theirs in zip(("forward", "AdamW step"), on_device, on_cpu, strict=True):
            rows.append(measure.interleaved(f"{name} {what}", mine, theirs, options.device, options.rounds))
    measure.show("Models", options.device, rows, "ms", 1e-3)
    content = {"rows": rows, "losses": losses, "spent": measure.spent(options.device, before)}
    measure.save(options.out, "models", claim, options.device, content)
    for message in wrong:
        measure.console.print(message, markup=False)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
