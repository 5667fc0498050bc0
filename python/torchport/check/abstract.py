"""Abstract execution: one step of a transformers model as a functional graph, from shapes alone.

No weight exists at any time, so the size of a model costs nothing: it is built on the meta device and traced with
fake tensors of the device, by the same means as torch.compile. Tracing is done twice: once through the model,
autograd and the optimiser as they are written, then through the result to take the writes out; writes into inputs
(parameters, caches) become donations.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

import torchport
from torchport.check import remat
from torchport.compile import decompositions

Mode = Literal["train", "prefill", "decode"]
MODES: tuple[str, ...] = ("train", "prefill", "decode")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
ATTENTION = "torchport_unpadded"
LEARNING_RATE = 1e-4  # a constant of the program: its value changes neither time nor memory


class WorkloadError(ValueError):
    """A model or workload that cannot be traced; the message says what is allowed."""


@dataclass(frozen=True)
class Workload:
    """What is to be run: one optimiser step, one prefill of `seq` tokens, or one token after `seq` of them.

    batch: sequences over all chips; seq: tokens a sequence. Parameters are held in param_dtype (default: float32 for
    training, else dtype) and computed with in dtype. Training is AdamW with each layer rematerialised.
    """

    config: dict[str, Any]
    mode: Mode
    batch: int
    seq: int
    dtype: str = "bfloat16"
    param_dtype: str | None = None
    remat: bool = True

    def __post_init__(self) -> None:
        for name in ("batch", "seq"):
            if getattr(self, name) < 1:
                raise WorkloadError(f"[{name}] must be at least 1, got {getattr(self, name)}")
        if self.mode not in MODES:
            raise WorkloadError(f"[mode] must be one of {', '.join(MODES)}, got {self.mode!r}")
        for name in (self.dtype, self.param_dtype):
            if name is not None and name not in DTYPES:
                raise WorkloadError(f"[dtype] must be one of {', '.join(DTYPES)}, got {name!r}")

    @property
    def compute_dtype(self) -> torch.dtype:
        return DTYPES[self.dtype]

    @property
    def stored_dtype(self) -> torch.dtype:
        return DTYPES[self.param_dtype or ("float32" if self.mode == "train" else self.dtype)]


@dataclass(frozen=True)
class Slot:
    """An argument or result of the step. role: parameter, buffer, optimizer, cache, input, output or constant."""

    name: str
    role: str
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * self.dtype.itemsize


@dataclass(frozen=True)
class Step:
    """A traced step. inputs: as its placeholders; outputs: (node, slot); writes: placeholder -> node that it receives."""

    graph: GraphModule
    inputs: list[tuple[Node, Slot]]
    outputs: list[tuple[Node, Slot]]
    writes: list[tuple[Node, Node]]
    model: nn.Module  # on the meta device: names, shapes, plans
    config: Any


def kept_activations(step: Step) -> list[Slot]:
    """What rematerialised layers keep of the forward pass, each value once."""
    barriers = [n for n in step.graph.graph.nodes if n.target is torch.ops.torchport.barrier.default]
    kept = dict.fromkeys(value for node in barriers for value in node.args[0][: node.args[1]])
    return [Slot(n.name, "kept", tuple(n.meta["val"].shape), n.meta["val"].dtype) for n in kept]


def read_config(path: Path) -> dict[str, Any]:
    """A transformers config.json."""
    try:
        config = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise WorkloadError(f"[--model] must be a readable JSON file, got {path}: {error}") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise WorkloadError(f"[--model] must be a transformers config with a model_type, got {path} without one")
    return config


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise WorkloadError("[--model] needs transformers, got none. Try: pip install 'torchport[model]'") from error
    return transformers


def build(config: dict[str, Any]) -> tuple[nn.Module, Any]:
    """The causal language model of a config, without data, and the config object."""
    hf = _transformers()
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    def unpadded(*args: Any, **kwargs: Any) -> Any:
        """The mask of full sequences, which is none where attention can be told that it is causal."""
        return sdpa_mask(*args, **{**kwargs, "attention_mask": None})

    hf.AttentionInterface.register(ATTENTION, sdpa_attention_forward)
    AttentionMaskInterface.register(ATTENTION, unpadded)
    known = {key: value for key, value in config.items() if key not in ("model_type", "transformers_version")}
    try:
        made = hf.AutoConfig.for_model(config["model_type"], **known)
        with torch.device("meta"):
            text = made.get_text_config()
            attention = "eager" if getattr(text, "attn_logit_softcapping", None) else ATTENTION  # sdpa has no softcap
            model = hf.AutoModelForCausalLM.from_config(made, attn_implementation=attention, dtype=torch.float32)
    except (ValueError, KeyError, TypeError) as error:
        raise WorkloadError(f"[--model] must be a causal language model of transformers, got {error}") from error
    return model, made


def trace(workload: Workload) -> Step:
    """The step of a workload as a functional graph."""
    model, config = build(workload.config)
    model.train(workload.mode == "train")
    device = torch._C._get_privateuse1_backend_name()
    make = {"train": _train, "prefill": _prefill, "decode": _decode}[workload.mode]
    slots, function = make(model, config, workload)
    fake = FakeTensorMode()
    with fake:
        tensors = [torch.empty(s.shape, dtype=s.dtype, device=device) for s in slots]
    names: list[tuple[str, str]] = []
    hooks = [layer.register_forward_pre_hook(_mark_input, with_kwargs=True) for layer in layers(model)]
    try:
        with fake, torch.set_grad_enabled(workload.mode == "train"):
            written = make_fx(lambda *given: _named(function(*given), names))(*tensors)
        with fake, torch.no_grad():
            table = decompositions(torchport._core())
            graph = make_fx(torch.func.functionalize(written), decomposition_table=table)(*tensors)
    except DataDependentOutputException as error:
        raise WorkloadError(
            f"[--model] must not read a tensor's value while it runs, got {error.func}: a step of this model is not one "
            "program. Try: another mode"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    graph.graph.eliminate_dead_code()
    return _step(graph, slots, names, model, config)


def _named(results: dict[tuple[str, str], Tensor], names: list[tuple[str, str]]) -> list[Tensor]:
    names[:] = results
    return list(results.values())


def layers(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks: what transformers rematerialises."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def _mark_input(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    if args and isinstance(args[0], Tensor) and args[0].is_floating_point():
        args = (remat.mark(args[0], remat.ACTIVATIONS), *args[1:])
    return args, kwargs


def _step(graph: GraphModule, slots: list[Slot], names: list[tuple[str, str]], model: nn.Module, config: Any) -> Step:
    """Read inputs, outputs and writes off a functional graph; what nothing reads is left out."""
    nodes = list(graph.graph.nodes)
    placeholders = [n for n in nodes if n.op == "placeholder"]
    writes = []
    for node in nodes:
        if node.target is torch.ops.aten.copy_.default:
            target, value = node.args[:2]
            if target not in placeholders:
                raise WorkloadError(f"[--model] must write into its own inputs alone, got a write into {target}")
            writes.append((target, value))
    inputs = [(n, s) for n, s in zip(placeholders, slots, strict=True) if n.users]
    outputs = []
    for node, (role, name) in zip(nodes[-1].args[0], names, strict=True):
        value = node.meta["val"]
        outputs.append((node, Slot(name, role, tuple(value.shape), value.dtype)))
    return Step(graph, inputs, outputs, writes, model, config)


def _state(model: nn.Module, workload: Workload) -> list[Slot]:
    def slot(name: str, value: Tensor, role: str) -> Slot:
        dtype = workload.stored_dtype if role == "parameter" and value.is_floating_point() else value.dtype
        return Slot(name, role, tuple(value.shape), dtype)

    slots = [slot(name, value, "parameter") for name, value in model.named_parameters()]
    return slots + [slot(name, value, "buffer") for name, value in model.named_buffers()]


def _call(model: nn.Module, state: dict[str, Tensor], workload: Workload, kwargs: dict[str, Any]) -> Any:
    dtype = workload.compute_dtype
    parameters = {name for name, _ in model.named_parameters()}
    cast = {k: v.to(dtype) if k in parameters and v.is_floating_point() else v for k, v in state.items()}
    return torch.func.functional_call(model, cast, kwargs=kwargs, tie_weights=True)


def _tokens(name: str, *shape: int) -> Slot:
    return Slot(name, "input", shape, torch.int64)


def _train(model: nn.Module, config: Any, workload: Workload) -> tuple[list[Slot], Callable[..., Any]]:
    from torch.optim.adamw import adamw

    if workload.remat:
        getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)()
        for layer in layers(model):
            layer._gradient_checkpointing_func = remat.checkpoint
    state = _state(model, workload)
    parameters = [s for s in state if s.role == "parameter"]
    moments = [
        Slot(f"{kind}.{s.name}", "optimizer", s.shape, s.dtype)
        for kind in ("exp_avg", "exp_avg_sq")
        for s in parameters
    ]
    steps = [Slot(f"step.{s.name}", "optimizer", (), torch.float32) for s in parameters]
    size = (workload.batch, workload.seq)
    slots = [*state, *moments, *steps, _tokens("input_ids", *size), _tokens("labels", *size)]
    count = len(parameters)

    def function(*given: Tensor) -> dict[tuple[str, str], Tensor]:
        held, rest = list(given[: len(state)]), list(given[len(state) : -2])
        ids, labels = given[-2:]
        leaves = [t.detach().requires_grad_() for t in held[:count]]
        tensors = dict(zip((s.name for s in state), [*leaves, *held[count:]], strict=True))
        kwargs = {"input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids), "use_cache": False}
        loss = _call(model, tensors, workload, kwargs).loss
        grads = torch.autograd.grad(loss, leaves, allow_unused=True)
        used = [i for i, grad in enumerate(grads) if grad is not None]
        pick = lambda values: [values[i] for i in used]
        with torch.no_grad():
            adamw(
                pick(held[:count]), pick(grads), pick(rest[:count]), pick(rest[count : 2 * count]), [],
                pick(rest[2 * count :]),
                foreach=False, capturable=True, fused=False, amsgrad=False, beta1=0.9, beta2=0.999, lr=LEARNING_RATE,
                weight_decay=0.01, eps=1e-8, maximize=False,
            )  # fmt: skip
        return {("output", "loss"): loss.detach()}

    return slots, function


def _prefill(model: nn.Module, config: Any, workload: Workload) -> tuple[list[Slot], Callable[..., Any]]:
    hf = _transformers()
    state = _state(model, workload)
    slots = [*state, _tokens("input_ids", workload.batch, workload.seq)]

    def function(*given: Tensor) -> dict[tuple[str, str], Tensor]:
        tensors = dict(zip((s.name for s in state), given, strict=False))
        cache = hf.StaticCache(config=config, max_cache_len=workload.seq)
        kwargs = {"input_ids": given[-1], _cache_name(model): cache, "use_cache": True, "logits_to_keep": 1}
        logits = _call(model, tensors, workload, kwargs).logits
        results = {("output", "logits"): logits}
        for i, layer in enumerate(cache.layers):
            results["cache", f"keys.{i}"], results["cache", f"values.{i}"] = layer.keys, layer.values
        return results

    return slots, function


def _decode(model: nn.Module, config: Any, workload: Workload) -> tuple[list[Slot], Callable[..., Any]]:
    hf = _transformers()
    state = _state(model, workload)
    caches = _caches(workload)
    slots = [*state, *caches, Slot("position", "input", (), torch.int64), _tokens("input_ids", workload.batch, 1)]

    def function(*given: Tensor) -> dict[tuple[str, str], Tensor]:
        tensors = dict(zip((s.name for s in state), given, strict=False))
        held = given[len(state) : len(state) + len(caches)]
        cache = hf.StaticCache(config=config, max_cache_len=workload.seq)
        for i, layer in enumerate(cache.layers):
            keys, values = held[2 * i : 2 * i + 2]
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
            layer.cumulative_length = given[-2].clone()
        kwargs = {"input_ids": given[-1], _cache_name(model): cache, "use_cache": True}
        return {("output", "logits"): _call(model, tensors, workload, kwargs).logits}

    return slots, function


def _cache_name(model: nn.Module) -> str:
    """transformers calls it cache from 5.24 on."""
    parameters = inspect.signature(type(model).forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"


def _caches(workload: Workload) -> list[Slot]:
    """The caches that prefill makes, found by tracing it."""
    found = trace(replace(workload, mode="prefill"))
    return [slot for _, slot in found.outputs if slot.role == "cache"]
