"""The frame of a decoder: embedding, layers, final norm and output head, each on its pipeline stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvplan.families.common import num_layers
from kvplan.weights.builder import Builder

FIRST, TIED, SHARED, WIDELY_SHARED, ALWAYS, LAST, NEVER = "first", "tied", "shared", "widely", "always", "last", "never"
DRAFTED = "drafted"
"""Stages that hold a part: the first; the first and, where the head is tied, the last; so too for a drafter that shares
the embedding; all; the last; none. ``drafted``: the first, and the last for such a drafter alone."""
_SHARING = frozenset(("eagle", "eagle3", "dflash", "dspark"))


class Frame(NamedTuple):
    """Names of the parts that are no layer, and which pipeline stages hold them (the model classes differ)."""

    prefix: str = "model"
    embed: str = "embed_tokens"
    norm: str = "norm"
    head: str = "lm_head"
    layers: str = "layers"
    embed_on: str = TIED
    norm_on: str = LAST
    head_on: str = LAST
    norm_bias: bool = False
    head_bias: bool = False
    outer: str = ""
    """Prefix of the whole language model, with its dot (``language_model.``)."""
    embed_quantized: bool = True
    head_quantized: bool = True


def tied(b: Builder) -> bool:
    """Whether the output head is the embedding. A wrapper's own word counts for its text model (`with_hf_config`)."""
    root, text = b.model.root, b.config
    return (root if root is not text and "tie_word_embeddings" in root else text).truthy("tie_word_embeddings")


def is_on(b: Builder, where: str) -> bool:
    """Whether the stage being built holds a part."""
    if where in (TIED, SHARED):
        return b.first or (b.last and (tied(b) or (where == SHARED and _drafter_shares(b))))
    if where == DRAFTED:
        return b.first or (b.last and _drafter_shares(b))
    if where == WIDELY_SHARED:
        return b.first or (b.last and _drafter_shares(b, modules=b.model.engine.use_v2_model_runner))
    return where == ALWAYS or (where == FIRST and b.first) or (where == LAST and b.last)


def _drafter_shares(b: Builder, *, modules: bool = False) -> bool:
    """`spec_decode_needs_target_embed`: a drafter on the last stage reads the target's embedding there.

    ``modules``: prediction modules do so too.
    """
    speculative = b.model.engine.speculative
    return speculative is not None and (speculative.method in _SHARING or (modules and speculative.method == "mtp"))


def decoder(
    b: Builder,
    layer: Callable[[Builder, str, int], None],
    frame: Frame,
    *,
    count: int | None = None,
    vocabulary: int | None = None,
    tie: bool | None = None,
) -> None:
    """A decoder's tensors on the builder's stage; ``layer`` adds those of one layer under its name.

    ``tie`` says whether the head is the embedding, where the model class does not read tie_word_embeddings.
    """
    inner = f"{frame.outer}{frame.prefix}"
    size = b.config.integer("hidden_size")
    vocabulary = b.config.integer("vocab_size") if vocabulary is None else vocabulary
    if is_on(b, frame.embed_on):
        b.embedding(f"{inner}.{frame.embed}", vocabulary, size, quantized=frame.embed_quantized)
    for i in b.layers(num_layers(b.config) if count is None else count):
        layer(b, f"{inner}.{frame.layers}.{i}", i)
    if is_on(b, frame.norm_on):
        b.norm(f"{inner}.{frame.norm}", size, bias=frame.norm_bias)
    shared = tied(b) if tie is None else tie
    if is_on(b, frame.head_on):
        head, plain = f"{frame.outer}{frame.head}", not frame.head_quantized
        b.head(head, vocabulary, size, bias=frame.head_bias, quantized=not plain, tied=shared)
