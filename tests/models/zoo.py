"""Tiny models of transformers, made from random configurations: nothing is downloaded."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers as hf
from torch import nn

VOCABULARY = 99
TEXT = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DENSE = {**TEXT, "intermediate_size": 48, "max_position_embeddings": 64}


@dataclass(frozen=True)
class Model:
    """How to build a model, what it is called with, and whether it generates text."""

    build: Callable[[], nn.Module]
    inputs: Callable[[], dict[str, torch.Tensor]]
    generates: bool = False


def tokens(length: int = 7, batch: int = 2) -> torch.Tensor:
    """Token numbers, none of them special."""
    return torch.randint(5, VOCABULARY, (batch, length))


def text() -> dict[str, torch.Tensor]:
    """Tokens, with a mask that ends the first row early."""
    mask = torch.ones(2, 7, dtype=torch.int64)
    mask[0, 5:] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def causal() -> dict[str, torch.Tensor]:
    """Tokens that are also the labels."""
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone()}


def pixels(size: int = 16) -> torch.Tensor:
    """Two small images."""
    return torch.randn(2, 3, size, size)


def mixtral() -> nn.Module:
    """Mixture of experts, four of which two are used."""
    config = hf.MixtralConfig(
        **DENSE, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True
    )
    return hf.MixtralForCausalLM(config)


def t5() -> nn.Module:
    """Encoder and decoder."""
    return hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            decoder_start_token_id=0,
            eos_token_id=1,
            pad_token_id=0,
        )
    )


def whisper() -> nn.Module:
    """Speech features in, text out."""
    return hf.WhisperForConditionalGeneration(
        hf.WhisperConfig(
            vocab_size=VOCABULARY,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=48,
            decoder_ffn_dim=48,
            num_mel_bins=16,
            max_source_positions=20,
            max_target_positions=32,
            decoder_start_token_id=3,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            suppress_tokens=[],
            begin_suppress_tokens=[],
        )
    )


def clip() -> nn.Module:
    """Text and images in one space."""
    return hf.CLIPModel(
        hf.CLIPConfig(
            text_config={**DENSE, "bos_token_id": 1, "eos_token_id": 2},
            vision_config={
                "hidden_size": 32,
                "intermediate_size": 48,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "image_size": 16,
                "patch_size": 4,
            },
            projection_dim=16,
        )
    )


def vit() -> nn.Module:
    """Image classification."""
    return hf.ViTForImageClassification(
        hf.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            image_size=16,
            patch_size=4,
            num_labels=5,
        )
    )


MODELS = {
    "bert": Model(lambda: hf.BertForMaskedLM(hf.BertConfig(**DENSE)), lambda: {**text(), "labels": tokens()}),
    "gpt2": Model(
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(
                vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
            )
        ),
        causal,
        generates=True,
    ),
    "llama": Model(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DENSE, num_key_value_heads=2)), causal, generates=True),
    "mixtral": Model(mixtral, causal, generates=True),
    "t5": Model(t5, lambda: {**text(), "labels": tokens(5)}, generates=True),
    "vit": Model(vit, lambda: {"pixel_values": pixels(), "labels": torch.tensor([1, 4])}),
    "whisper": Model(whisper, lambda: {"input_features": torch.randn(2, 16, 40), "labels": tokens(5)}, generates=True),
    "clip": Model(clip, lambda: {**text(), "pixel_values": pixels(), "return_loss": True}),
}
