"""Models of transformers on the device equal the CPU: forward, every gradient, greedy generation, torch.compile."""

import os
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
from torch import nn
from zoo import MODELS

import target
from conformance.compare import assert_same

TOLERANCE = (1e-3, 1e-4)
BACKEND = "aot_eager" if target.IS_CPU else "torchport"


@pytest.fixture(params=MODELS)
def name(request) -> str:
    return request.param


def made(name: str, device: torch.device) -> tuple[nn.Module, dict]:
    """The model without dropout and its inputs, the same on every device."""
    torch.manual_seed(0)
    model = MODELS[name].build().eval()
    torch.manual_seed(1)
    inputs = MODELS[name].inputs()
    place = lambda v: v.to(device) if isinstance(v, torch.Tensor) else v
    return model.to(device), {key: place(value) for key, value in inputs.items()}


def results(output: object) -> dict[str, torch.Tensor]:
    """The tensors of a model's output by name."""
    return {key: value for key, value in output.items() if isinstance(value, torch.Tensor)}


def on(device: torch.device, name: str, compiled: bool = False) -> tuple[dict, dict]:
    """Results and gradients of one forward and backward."""
    model, inputs = made(name, device)
    call = torch.compile(model, backend=BACKEND) if compiled else model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = call(**inputs)
        output.loss.backward()
    return results(output), {key: p.grad for key, p in model.named_parameters() if p.grad is not None}


def test_forward_and_backward(dev, name):
    want, got = on(torch.device("cpu"), name), on(dev, name)
    assert want[1].keys() == got[1].keys()
    assert len(want[1]) > 10
    assert_same(want, got, torch.float32, tol=TOLERANCE)


@pytest.mark.parametrize("name", [key for key, model in MODELS.items() if model.generates])
def test_greedy_generation(dev, name):
    def program(device: torch.device) -> torch.Tensor:
        model, inputs = made(name, device)
        key = "input_features" if "input_features" in inputs else "input_ids"
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.generate(inputs[key], max_new_tokens=8, min_new_tokens=8, do_sample=False)

    want, got = program(torch.device("cpu")), program(dev)
    assert want.shape[1] >= 8
    assert torch.equal(want, got.cpu())


def test_compiled_equals_eager(dev, name):
    torch._dynamo.reset()
    assert_same(on(dev, name), on(dev, name, compiled=True), torch.float32, tol=TOLERANCE)


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_training_steps(dev, name):
    def program(device: torch.device) -> list[torch.Tensor]:
        model, inputs = made(name, device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.detach())
        assert losses[-1] < losses[0]
        return losses

    assert_same(program(torch.device("cpu")), program(dev), torch.float32, tol=TOLERANCE)


@pytest.mark.parametrize("name", ["gpt2", "vit"])
def test_autocast(dev, name):
    def program(device: torch.device) -> torch.Tensor:
        model, inputs = made(name, device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            return model(**inputs).loss.float()

    assert_same(program(torch.device("cpu")), program(dev), torch.float32, tol=(3e-2, 3e-2))
