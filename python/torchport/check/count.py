"""What a step must hold and compute, counted from the configuration alone: no model, no trace, no compiler.

This is the independent check of the memory that compilers report, and the work behind estimates. It knows decoders of
the Llama kind (grouped queries, gated feed-forward, RMS norms) and mixtures of such feed-forwards, in the notation of
the literature: h hidden size, L layers, a attention heads, g key-value heads, d head size, i feed-forward size, V
vocabulary, B sequences, S tokens of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from torchport.check.abstract import Workload, WorkloadError

# Biases and norms by family, beside what all have in common.
_QKV_BIAS = {"qwen2"}
_QK_NORM = {"qwen3", "qwen3_moe"}
FAMILIES = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
COUNTED = ("parameters", "optimizer", "cache", "inputs")  # what is exact: the arguments of the program


@dataclass(frozen=True)
class Shape:
    """The sizes that a count needs."""

    h: int
    L: int
    a: int
    g: int
    d: int
    i: int
    V: int
    tied: bool
    experts: int
    used: int
    qkv_bias: bool
    qk_norm: bool

    @classmethod
    def of(cls, config: dict[str, Any]) -> Shape:
        """WorkloadError for a family whose parts are not known here."""
        family = config.get("model_type")
        if family not in FAMILIES:
            raise WorkloadError(f"[count] must be one of {', '.join(FAMILIES)}, got {family}")
        experts = config.get("num_local_experts") or config.get("num_experts") or 0
        h, a = config["hidden_size"], config["num_attention_heads"]
        return cls(
            h=h,
            L=config["num_hidden_layers"],
            a=a,
            g=config.get("num_key_value_heads") or a,
            d=config.get("head_dim") or h // a,
            i=config.get("moe_intermediate_size") or config["intermediate_size"],
            V=config["vocab_size"],
            tied=bool(config.get("tie_word_embeddings", False)),
            experts=experts,
            used=config.get("num_experts_per_tok", 0) if experts else 0,
            qkv_bias=family in _QKV_BIAS,
            qk_norm=family in _QK_NORM,
        )

    @property
    def attention(self) -> int:
        """Elements of the matrices of one layer's attention."""
        return self.h * self.d * (2 * self.a + 2 * self.g)

    @property
    def feed_forward(self) -> int:
        """Elements of the matrices of one layer's feed-forward, all experts and the router."""
        one = 3 * self.h * self.i
        return one if not self.experts else self.experts * (one + self.h)

    @property
    def used_feed_forward(self) -> int:
        """Elements that one token is multiplied with."""
        one = 3 * self.h * self.i
        return one if not self.experts else self.used * one + self.experts * self.h

    @property
    def vectors(self) -> int:
        """Elements that no mesh splits, of one layer: norms and biases."""
        bias = self.d * (self.a + 2 * self.g) if self.qkv_bias else 0
        return 2 * self.h + bias + (2 * self.d if self.qk_norm else 0)

    @property
    def matrices(self) -> int:
        """Elements of everything that a mesh splits."""
        return self.L * (self.attention + self.feed_forward) + self.V * self.h * (1 if self.tied else 2)

    @property
    def parameters(self) -> int:
        """Elements of the whole model."""
        return self.matrices + self.L * self.vectors + self.h

    @property
    def tensors(self) -> int:
        """How many parameters there are."""
        per_layer = 6 + (3 if self.qkv_bias else 0) + (2 if self.qk_norm else 0)
        per_layer += 3  # gate, up and down; of experts the router, gate with up, and down
        return self.L * per_layer + (2 if self.tied else 3)


@dataclass(frozen=True)
class Count:
    """Bytes on one device and floating point operations of one device, for one step."""

    parameters: float
    optimizer: float
    cache: float
    inputs: float
    gradients: float
    kept: float  # inputs of the rematerialised layers
    logits: float
    flops: float
    model_flops: float  # without what rematerialisation repeats

    @property
    def arguments(self) -> float:
        """What must be there before the step begins."""
        return self.parameters + self.optimizer + self.cache + self.inputs


def count(workload: Workload, mesh: dict[str, int]) -> Count:
    """Count a workload on a mesh of dp, fsdp and tp devices. A prefill makes its cache: it is a result, no argument."""
    s = Shape.of(workload.config)
    dp, fsdp, tp = (mesh.get(axis, 1) for axis in ("dp", "fsdp", "tp"))
    stored, used = workload.stored_dtype.itemsize, workload.compute_dtype.itemsize
    train, decode = workload.mode == "train", workload.mode == "decode"
    batch = workload.batch / (dp * fsdp)
    tokens = batch * (1 if decode else workload.seq)
    held = s.matrices / (fsdp * tp) + s.L * s.vectors + s.h
    cache = 2 * s.L * batch * s.g * s.d * workload.seq * used / min(tp, s.g * s.d)
    ids = torch.int64.itemsize
    # scores and weighted sums over all pairs, masked or not; each is 2 operations an element of the head
    pairs = tokens * workload.seq
    attention = 4 * s.L * s.a * s.d * pairs
    layers = 2 * tokens * s.L * (s.attention + s.used_feed_forward) + attention
    head = 2 * (batch if workload.mode == "prefill" else tokens) * s.V * s.h
    model_flops = (layers + head) * (3 if train else 1) / tp
    repeated = layers / tp if train and workload.remat else 0
    return Count(
        parameters=held * stored,
        optimizer=2 * held * stored + 4 * s.tensors if train else 0.0,
        cache=cache if decode else 0.0,
        inputs=tokens * ids * (2 if train else 1),
        gradients=held * used if train else 0.0,
        kept=s.L * tokens * s.h * used if train and workload.remat else 0.0,
        logits=(tokens if train else batch) * s.V / tp * (4 if train else used),
        flops=model_flops + repeated,
        model_flops=model_flops,
    )
