"""Trains the classifier on the GPU and writes its weights. Prints one line of JSON with what came out."""

import argparse
import json
import time
from pathlib import Path

import settings as configuration
import telemetry
import tickets
import torch
from model import TicketClassifier
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

DATA = configuration.ROOT / "data" / "tickets.tsv"
HELD_OUT = 48


def accuracy(model, ids, labels):
    """Share of tickets that get their label."""
    model.eval()
    with torch.no_grad():
        answers = model(ids.cuda()).argmax(dim=1)
    return (answers == labels.cuda()).float().mean().item()


def train(settings, out: Path) -> dict:
    torch.manual_seed(settings.seed)
    torch.cuda.manual_seed_all(settings.seed)
    torch.backends.cudnn.benchmark = True

    ids, labels = tickets.read(DATA, settings.length)
    dataset = TensorDataset(ids[:-HELD_OUT], labels[:-HELD_OUT])
    loader = DataLoader(dataset, settings.batch_size, shuffle=True, pin_memory=True, drop_last=True)

    model = TicketClassifier(settings.width).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, fused=True)
    scaler = GradScaler()
    losses = []
    begin = time.perf_counter()
    for _ in range(settings.epochs):
        model.train()
        for batch, target in loader:
            batch = batch.cuda(non_blocking=True)
            target = target.cuda(non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with autocast():
                loss = torch.nn.functional.cross_entropy(model(batch), target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach())
        torch.cuda.empty_cache()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - begin

    torch.save({name: value.cpu() for name, value in model.state_dict().items()}, out)
    return {
        "accuracy": accuracy(model, ids[-HELD_OUT:], labels[-HELD_OUT:]),
        "loss": torch.stack(losses[-5:]).mean().item(),
        "steps": len(losses),
        "seconds": seconds,
        "device": next(model.parameters()).device.type,
        "peak_bytes": telemetry.peak_bytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, default=configuration.ROOT / "config.yaml")
    parser.add_argument("--out", type=Path, default=Path("model.pt"))
    arguments = parser.parse_args()
    print(json.dumps(train(configuration.load(arguments.config), arguments.out)))


if __name__ == "__main__":
    main()
