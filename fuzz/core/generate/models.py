"""The sizes of tensors in published models, and the shapes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from fuzz.core.base.stream import Dice

Shape = tuple[int, ...]
"""Extents. The last one is the length of rows."""


@dataclass(frozen=True)
class Model:
    """The sizes of one model."""

    name: str
    width: int
    """The number of elements of a hidden state. Norms have rows of this length."""
    heads: int
    head: int
    """The number of elements of one head. Norms of queries and keys have rows of this length."""
    tokens: int
    """The number of tokens of a sequence, or of a sliding window. Softmax over scores has rows of this length."""
    words: int = 0
    """The size of the vocabulary; 0 if there is none, or if its rows are too long to be drawn."""
    ranks: tuple[int, ...] = ()
    """The numbers of elements of latent vectors that are normalised too."""


MODELS: tuple[Model, ...] = (
    Model("CLIP text", 512, 8, 64, 77, 49408),
    Model("CLIP vision", 768, 12, 64, 50),
    Model("GPT-2", 768, 12, 64, 1024, 50257),
    Model("Whisper", 256, 4, 64, 1500, 51865),
    Model("Gemma 2", 2304, 8, 256, 4096),
    Model("gpt-oss", 2880, 64, 64, 128),
    Model("Phi-3 mini", 3072, 32, 96, 4096, 32064),
    Model("Qwen3", 4096, 32, 128, 4096),
    Model("DeepSeek-V3", 7168, 128, 128, 4096, ranks=(512, 1536)),
)
"""The defaults of the configuration classes below src/transformers/models of huggingface/transformers, read in 2026:
hidden_size or d_model, num_attention_heads, head_dim, max_position_embeddings, max_source_positions or sliding_window,
vocab_size, kv_lora_rank, q_lora_rank. CLIP vision has one token for each of 7 by 7 patches, and one more. Sequences are
cut to 4096 tokens, and vocabularies of more than 65536 words are left out."""

_BATCHES = (1, 1, 1, 2, 3, 8)
_STEPS = (1, 1, 2, 7, 16, 17, 32, 77, 128)
"""The number of tokens processed at a time: one while text is generated, several for a prompt."""


def model_shape(dice: Dice) -> Shape:
    """Return the shape of a tensor of one of the models: hidden states, heads, scores, latent vectors or logits."""
    model, batch, step = dice.pick(MODELS), dice.pick(_BATCHES), dice.pick(_STEPS)
    hidden = [(batch * step, model.width), (batch, step, model.width)]
    heads = [(batch, step, model.heads, model.head), (batch, model.heads, step, model.head)]
    scores = [(batch, model.heads, step, model.tokens)]
    latent = [(batch, step, rank) for rank in model.ranks]
    logits = [(step, model.words)] if model.words else []
    return dice.pick([*hidden, *hidden, *heads, *scores, *latent, *logits])
