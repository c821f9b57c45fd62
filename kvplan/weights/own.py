"""What a drafter may keep to itself or share with the target: the embedding and the output head.

A drafter shares both unless its checkpoint brings weights of its own that differ from the target's
(vllm/v1/worker/gpu/spec_decode/eagle/utils.py, `maybe_share_target_embed` and `load_eagle_model`; the V1 runner:
vllm/v1/spec_decode/llm_base_proposer.py). Under pipeline parallelism the drafter sits on the last stage: a class that
does not say whether it has an embedding then keeps its own.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.weights.builder import Builder


class Own(NamedTuple):
    """Whether the drafter keeps an embedding and an output head of its own."""

    embedding: bool = False
    head: bool = False

    def add(self, b: Builder, head_rows: int, prefix: str = "model", *, maps_larger: bool = True) -> None:
        """The tensors that the drafter keeps, and the map from its tokens to the target's.

        ``maps_larger``: the class keeps a map also where the drafter's vocabulary is the larger one.
        """
        size = b.config.integer("hidden_size")
        if self.embedding:
            b.embedding(f"{prefix}.embed_tokens", b.config.integer("vocab_size"), size)
        if self.head:
            b.head("lm_head", head_rows, size)
        target = b.model.target
        if target is None:
            return
        vocabulary = target.config.integer("vocab_size")
        if head_rows < vocabulary or (maps_larger and head_rows > vocabulary):
            b.add("draft_id_to_target_id", head_rows, "int64")


def draft_vocabulary(b: Builder) -> int:
    """Tokens that the drafter may propose: draft_vocab_size, else its whole vocabulary."""
    return b.config.optional_integer("draft_vocab_size") or b.config.integer("vocab_size")
