"""The independent count agrees with the models of transformers and with the arguments of emitted programs; meshes."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch

from check.mesh import coordinates

pytestmark = pytest.mark.port
pytest.importorskip("torchport")

from torchport.check.abstract import Workload, WorkloadError, build, trace
from torchport.check.count import FAMILIES, Shape, count
from torchport.check.emit import emit
from torchport.check.sharding import AXES, Mesh, Plan

DENSE = {
    "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip
EXTRA = {
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 8},
    "qwen3": {"head_dim": 16},
    "qwen2": {"tie_word_embeddings": True},
}
L8B = DENSE | {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_of_each_family(family):
    config = DENSE | {"model_type": family} | EXTRA.get(family, {})
    parameters = list(build(config)[0].parameters())
    shape = Shape.of(config)
    assert shape.parameters == sum(p.numel() for p in parameters)
    assert shape.tensors == len(parameters)


def test_families_that_are_not_counted():
    with pytest.raises(WorkloadError, match=r"\[count\] must be one of llama, .*, got t5"):
        Shape.of({"model_type": "t5"})


def test_llama_3_8b():
    assert Shape.of(L8B).parameters == 8_030_261_248  # Meta's figure


@pytest.mark.parametrize("parallel", ["", "fsdp=4", "tp=2,fsdp=2", "dp=2,tp=2"])
@pytest.mark.parametrize("mode", ["train", "prefill", "decode"])
def test_arguments_of_a_program(mode, parallel):
    workload = Workload(DENSE | {"model_type": "llama"}, mode, 8, 16)
    mesh = Mesh.parse(parallel)
    program = emit(trace(workload), "tpu", mesh)
    held = sum(a.shard_bytes for a in program.arguments if a.slot.name != "position" and a.slot.role != "buffer")
    assert count(workload, dict(mesh.sizes)).arguments == held


def test_work_of_a_training_step():
    one = count(Workload(L8B, "train", 1, 1024), {})
    tokens, matrices = 1024, Shape.of(L8B).parameters - L8B["vocab_size"] * L8B["hidden_size"]
    assert one.model_flops == pytest.approx(6 * matrices * tokens, rel=0.1)  # the rule of thumb, without attention
    assert one.flops / one.model_flops == pytest.approx(4 / 3, rel=0.03)  # one more forward pass of the layers
    assert count(Workload(L8B, "train", 4, 1024), {"fsdp": 4}).flops == one.flops


@pytest.mark.parametrize(
    ("parallel", "spec", "text"),
    [
        ("", ((), ()), "{replicated}"),
        ("tp=4", (("tp",), ()), "{devices=[4,1]<=[4]}"),
        ("tp=2,fsdp=2", (("fsdp",), ("tp",)), "{devices=[2,2]<=[4]}"),
        ("tp=2,fsdp=3", (("tp",), ("fsdp",)), "{devices=[2,3]<=[3,2]T(1,0)}"),
        ("tp=2,fsdp=3", (("tp",), ()), "{devices=[2,1,3]<=[3,2]T(1,0) last_tile_dim_replicate}"),
        ("dp=2,fsdp=2,tp=2", (("dp", "fsdp"), ()), "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"),
        ("dp=2,fsdp=2,tp=2", (("dp",), ("tp",)), "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}"),
    ],
)
def test_notation(parallel, spec, text):
    assert Mesh.parse(parallel).text(spec) == text


@pytest.mark.parametrize("parallel", ["tp", "tp=0", "tp=2,tp=2", "pp=2", "tp=two"])
def test_meshes_that_make_no_sense(parallel):
    with pytest.raises(WorkloadError, match=r"\[--parallel\] must be a list such as tp=8,fsdp=4"):
        Mesh.parse(parallel)


def test_devices_are_numbered_with_tp_innermost():
    at = coordinates(Mesh.parse("tp=2,dp=2").sizes)
    assert [tuple(c[axis] for axis in AXES) for c in at] == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]


def test_rules_of_parameters():
    config = DENSE | {"model_type": "llama"}
    plan = Plan(Mesh.parse("tp=2,fsdp=2"), build(config)[0])
    layer = "model.layers.0."
    assert plan.parameters[layer + "self_attn.q_proj.weight"] == (("tp",), ("fsdp",))
    assert plan.parameters[layer + "self_attn.o_proj.weight"] == (("fsdp",), ("tp",))
    assert plan.parameters[layer + "mlp.down_proj.weight"] == (("fsdp",), ("tp",))
    assert plan.parameters[layer + "input_layernorm.weight"] == ((),)
    assert plan.parameters["model.embed_tokens.weight"] == plan.parameters["lm_head.weight"] == (("tp",), ("fsdp",))


def test_rules_by_name_where_a_model_has_no_plan():
    config = {"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
    plan = Plan(Mesh.parse("tp=2"), build(config)[0])
    assert not plan.tp_plan
    assert plan.parameters["transformer.h.0.mlp.c_fc.weight"] == ((), ("tp",))  # Conv1D: inputs first
    assert plan.parameters["transformer.h.0.mlp.c_fc.bias"] == (("tp",),)
    assert plan.parameters["transformer.h.0.mlp.c_proj.weight"] == (("tp",), ())
    assert plan.parameters["transformer.h.0.mlp.c_proj.bias"] == ((),)
    assert plan.parameters["transformer.h.0.ln_1.weight"] == ((),)


def test_a_batch_that_does_not_divide():
    step = trace(Workload(DENSE | {"model_type": "llama"}, "decode", 3, 8))
    with pytest.raises(WorkloadError, match=r"\[--batch\] must be a multiple of dp \* fsdp = 2"):
        emit(step, "tpu", Mesh.parse("dp=2"))


def test_a_platform_that_is_not_known():
    step = trace(Workload(DENSE | {"model_type": "llama"}, "decode", 2, 8))
    with pytest.raises(RuntimeError, match=r"\[graph\] must be for one of .*, got abacus"):
        emit(step, "abacus", Mesh.parse(""))


def test_torch_types_of_slots():
    step = trace(Workload(DENSE | {"model_type": "llama"}, "train", 2, 8))
    kinds = {(slot.role, slot.dtype) for _, slot in step.inputs}
    assert kinds == {
        ("parameter", torch.float32), ("optimizer", torch.float32), ("buffer", torch.float32), ("input", torch.int64)
    }  # fmt: skip
