"""Trains a tiny transformers model of the named family with AdamW: a script that knows nothing of the check."""

import os
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers as hf

SIZES = {"vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = SIZES | {"intermediate_size": 128, "max_position_embeddings": 64}


def build(family: str) -> torch.nn.Module:
    """A model with random weights."""
    if family == "gpt2":
        return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=256, n_embd=64, n_layer=2, n_head=4, n_positions=64))
    if family == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**WIDE, num_key_value_heads=2))
    if family == "bert":
        return hf.BertForMaskedLM(hf.BertConfig(**WIDE))
    if family == "t5":
        sizes = {"vocab_size": 256, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}
        return hf.T5ForConditionalGeneration(hf.T5Config(**sizes, decoder_start_token_id=0))
    if family == "vit":
        sizes = {key: WIDE[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads")}
        return hf.ViTForImageClassification(
            hf.ViTConfig(**sizes, intermediate_size=128, image_size=32, patch_size=8, num_labels=10)
        )
    raise SystemExit(f"[family] must be gpt2, llama, bert, t5 or vit, got {family!r}")


def batch(family: str) -> dict[str, torch.Tensor]:
    """Random input of fixed shapes."""
    if family == "vit":
        return {"pixel_values": torch.randn(8, 3, 32, 32), "labels": torch.randint(10, (8,))}
    ids = torch.randint(256, (8, 64))
    return {"input_ids": ids, "labels": ids.clone()}


def main() -> None:
    family = sys.argv[1]
    torch.manual_seed(0)
    model = build(family).to("tpu").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(6):
        loss = model(**{name: value.to("tpu") for name, value in batch(family).items()}).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
