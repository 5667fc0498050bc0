"""The abstract program of a step equals the step run eagerly on the CPU, on one device and sharded over four."""

import functools
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
import transformers as hf

import target
from check.mesh import gathered, scattered

pytestmark = pytest.mark.skipif(target.IS_CPU, reason="programs run on the device alone")

if not target.IS_CPU:
    import torchport
    from torchport.check import abstract
    from torchport.check.abstract import Workload, WorkloadError, trace
    from torchport.check.emit import emit
    from torchport.check.sharding import Mesh, Plan

COMMON = {"vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
LLAMA = COMMON | {
    "model_type": "llama",
    "intermediate_size": 48,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
QWEN = LLAMA | {"model_type": "qwen2", "num_hidden_layers": 1}
GPT2 = {"model_type": "gpt2", "vocab_size": 96, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 64}
GPT2 |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
CONFIGS = {"llama": LLAMA, "qwen2": QWEN, "gpt2": GPT2}
BATCH, SEQ = 4, 8
MESHES = ["", "tp=2,fsdp=2", "dp=2,tp=2"]
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def reference(config: dict) -> torch.nn.Module:
    torch.manual_seed(0)
    made = hf.AutoConfig.for_model(**config)
    return hf.AutoModelForCausalLM.from_config(made, attn_implementation="sdpa").float()


def tokens(*shape: int) -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randint(0, 96, shape)


@functools.cache
def traced(family: str, mode: str, seq: int):
    """A step in float32, traced once for all meshes."""
    return trace(Workload(CONFIGS[family], mode, BATCH, seq, dtype="float32"))


def run(step, parallel: str, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The emitted program on as many devices as the mesh has: results and what the arguments hold afterwards, by name."""
    mesh = Mesh.parse(parallel)
    program = emit(step, "cpu", mesh)
    plan = Plan(mesh, step.model)
    assert program.words == 0
    inputs: list[list[torch.Tensor]] = [[] for _ in range(mesh.devices)]
    for argument in program.arguments:
        value = values[argument.slot.name].to(argument.slot.dtype).reshape(argument.slot.shape)
        for d, piece in enumerate(scattered(value, mesh.sizes, plan.of(argument.slot))):
            assert tuple(piece.shape) == argument.shard
            inputs[d].append(piece.to(f"tpu:{d}"))
    types = [(r.slot.dtype, list(r.shard)) for r in program.results]
    if program.checks:
        types.append((torch.int32, []))
    outputs = torchport._core().run_partitioned(program.text, inputs, types)
    found = {}
    for k, result in enumerate(program.results):
        pieces = [outputs[d][k].cpu() for d in range(mesh.devices)]
        found[result.slot.name] = gathered(pieces, mesh.sizes, plan.of(result.slot))
    return found


def state(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: t.detach().clone() for name, t in [*model.named_parameters(), *model.named_buffers()]}


@pytest.mark.parametrize(
    ("family", "parallel"), [*(("llama", m) for m in MESHES), ("qwen2", MESHES[1]), ("gpt2", MESHES[1])]
)
def test_training_step(family, parallel):
    config = CONFIGS[family]
    model, ids = reference(config).train(), tokens(BATCH, SEQ)
    values = state(model) | {"input_ids": ids, "labels": ids}
    for name, p in model.named_parameters():
        values |= {f"exp_avg.{name}": torch.zeros_like(p), f"exp_avg_sq.{name}": torch.zeros_like(p)}
        values[f"step.{name}"] = torch.zeros(())
    found = run(traced(family, "train", SEQ), parallel, values)

    optimizer = torch.optim.AdamW(model.parameters(), lr=abstract.LEARNING_RATE, weight_decay=0.01)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    torch.testing.assert_close(found["loss"], loss.detach(), **TOLERANCE)
    for name, p in model.named_parameters():
        kept = optimizer.state[p]
        torch.testing.assert_close(found[f"exp_avg.{name}"], kept["exp_avg"], **TOLERANCE)
        torch.testing.assert_close(found[f"exp_avg_sq.{name}"], kept["exp_avg_sq"], **TOLERANCE)
        # the first step of Adam is lr * sign(gradient): where a gradient is rounding, its sign is too
        moved = kept["exp_avg"].abs() > 1e-6
        torch.testing.assert_close(found[name][moved], p.detach()[moved], **TOLERANCE)


@pytest.mark.parametrize(("family", "parallel"), [*(("llama", m) for m in MESHES), ("qwen2", MESHES[1])])
def test_prefill_then_decode(family, parallel):
    config = CONFIGS[family]
    model, ids = reference(config).eval(), tokens(BATCH, SEQ + 1)
    values = state(model)
    with torch.no_grad():
        want = model(input_ids=ids).logits
    found = run(traced(family, "prefill", SEQ), parallel, values | {"input_ids": ids[:, :SEQ]})
    torch.testing.assert_close(found["logits"], want[:, SEQ - 1 : SEQ], **TOLERANCE)

    # room for one more token, which decode adds
    caches = {k: torch.nn.functional.pad(v, (0, 0, 0, 1)) for k, v in found.items() if k.startswith(("keys", "values"))}
    assert len(caches) == 2 * config["num_hidden_layers"]
    more = {"position": torch.tensor(SEQ), "input_ids": ids[:, SEQ:]}
    found = run(traced(family, "decode", SEQ + 1), parallel, values | caches | more)
    torch.testing.assert_close(found["logits"], want[:, SEQ:], **TOLERANCE)
    assert found["keys.0"][:, :, SEQ].abs().sum() > 0
    torch.testing.assert_close(found["keys.0"][:, :, :SEQ], caches["keys.0"][:, :, :SEQ])


def test_each_layer_keeps_its_input_alone():
    step = trace(Workload(LLAMA, "train", BATCH, SEQ))
    barriers = [n for n in step.graph.graph.nodes if n.target is torch.ops.torchport.barrier.default]
    assert len(barriers) == LLAMA["num_hidden_layers"]
    whole = trace(Workload(LLAMA, "train", BATCH, SEQ, remat=False))
    products = lambda s: sum(n.target is torch.ops.aten.mm.default for n in s.graph.graph.nodes)
    assert products(step) > products(whole)
    hidden = [s for s in abstract.kept_activations(step) if s.shape == (BATCH, SEQ, LLAMA["hidden_size"])]
    assert len(hidden) == len(barriers)
    text = emit(step, "tpu", Mesh.parse("")).text
    assert text.count("stablehlo.optimization_barrier") == len(barriers)


def test_only_reals_are_multiplied_as_matrices():
    text = emit(trace(Workload(LLAMA, "decode", BATCH, SEQ)), "tpu", Mesh.parse("tp=2")).text
    lines = [line for line in text.splitlines() if "dot_general" in line]
    assert len(lines) > 10
    assert not any("xi64>" in line.partition(" : (")[2] for line in lines)


def test_parameters_and_caches_are_donated():
    program = emit(trace(Workload(LLAMA, "train", BATCH, SEQ)), "tpu", Mesh.parse("fsdp=2"))
    donated = {a.slot.name for a in program.arguments if a.donated}
    assert donated == {a.slot.name for a in program.arguments if a.slot.role in ("parameter", "optimizer")}
    assert program.text.count("tf.aliasing_output") == len(donated)
    program = emit(trace(Workload(LLAMA, "decode", BATCH, SEQ)), "tpu", Mesh.parse(""))
    assert {a.slot.role for a in program.arguments if a.donated} == {"cache"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "vit"}, r"\[--model\] must be a causal language model"),
        ({"model_type": "nothing"}, r"\[--model\] must be a causal language model"),
    ],
)
def test_models_that_cannot_be_traced(change, message):
    with pytest.raises(WorkloadError, match=message):
        trace(Workload(LLAMA | change, "decode", BATCH, SEQ))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 0}, r"\[batch\] must be at least 1, got 0"),
        ({"mode": "serve"}, r"\[mode\] must be one of train, prefill, decode"),
        ({"dtype": "int4"}, r"\[dtype\] must be one of float32, bfloat16, float16"),
    ],
)
def test_workloads_that_make_no_sense(given, message):
    with pytest.raises(WorkloadError, match=message):
        Workload(**({"config": LLAMA, "mode": "train", "batch": 1, "seq": 1} | given))


def test_configs_that_cannot_be_read(tmp_path):
    with pytest.raises(WorkloadError, match="readable JSON"):
        abstract.read_config(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(WorkloadError, match="model_type"):
        abstract.read_config(tmp_path / "list.json")


@pytest.mark.parametrize(
    ("family", "mode", "extra"),
    [
        ("mistral", "decode", {}),
        ("qwen3", "decode", {"head_dim": 8}),
        ("gpt_neox", "train", {}),
        ("gemma2", "decode", {"head_dim": 8}),
        ("phi3", "train", {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    ],
)
def test_further_families_in_bfloat16(family, mode, extra):
    config = LLAMA | {"model_type": family, "num_hidden_layers": 1} | extra
    program = emit(trace(Workload(config, mode, BATCH, SEQ)), "tpu", Mesh.parse("tp=2,fsdp=2"))
    assert program.partitions == 4
    assert program.text.count("bf16") > 50


def test_a_mixture_of_experts():
    config = LLAMA | {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    assert emit(trace(Workload(config, "decode", BATCH, SEQ)), "tpu", Mesh.parse("")).partitions == 1


def test_an_op_without_a_lowering_is_named(monkeypatch):
    def refuse(core, graph, node, inside):
        raise NotImplementedError("no block")

    monkeypatch.setattr("torchport.check.emit.lower_call", refuse)
    with pytest.raises(WorkloadError, match=r"\[aten::\w+(\.\w+)?\] must have a lowering, got none: no block"):
        emit(trace(Workload(LLAMA, "decode", BATCH, SEQ)), "tpu", Mesh.parse(""))


def test_a_model_that_reads_values_while_it_runs():
    config = {"model_type": "opt", "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64} | COMMON
    with pytest.raises(
        WorkloadError, match=r"must not read a tensor's value while it runs, got aten._local_scalar_dense"
    ):
        trace(Workload(config, "decode", BATCH, SEQ))
