"""Trains the character GPT: an ordinary script, as `torchport check` takes it."""

from __future__ import annotations

import argparse

import char_gpt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="tpu", help="device to train on (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=40, help="batches of 8 windows (default: %(default)s)")
    options = parser.parse_args()
    say = lambda step, loss: print(f"step {step}: loss {loss:.4f}", flush=True)
    got = char_gpt.train(char_gpt.build(0), options.device, options.steps, on_step=say)
    print(f"validation loss {got['held_out_loss']:.4f}")


if __name__ == "__main__":
    main()
