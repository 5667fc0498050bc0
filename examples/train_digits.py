"""Trains the convolutional network on the digits: an ordinary script, as `torchport check` takes it."""

from __future__ import annotations

import argparse

import digits_cnn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="tpu", help="device to train on (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=110, help="batches of 64 images (default: %(default)s)")
    options = parser.parse_args()
    say = lambda step, loss: print(f"step {step}: loss {loss:.4f}", flush=True)
    got = digits_cnn.train(digits_cnn.build(0), options.device, options.steps, on_step=say)
    print(f"test loss {got['held_out_loss']:.4f}, accuracy {got['accuracy']:.1%}")


if __name__ == "__main__":
    main()
