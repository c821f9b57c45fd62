"""Random deployments for the planner: layers of every kind, with pages that fit together often enough to be planned."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from kvplan.planning import GROUPINGS, plan_layers
from kvplan.spec import AttentionSpec, CacheLayer, Limits, MultipleOf, Spec, StateSpec

LAYOUTS = ("LBHNC",) * 5 + ("LBNHC",) * 3 + ("BLHNC",) * 3 + ("BLNHC", "BHLNC", "LHBNC")
ATTENTION_KINDS = (
    ("full_attention",) * 7
    + ("sliding_window",) * 5
    + ("mla",) * 3
    + ("sliding_window_mla",) * 2
    + ("chunked_local", "circular_buffer", "cross_attention", "sink_full_attention", "rswa", "hidden_state")
)


class Case(NamedTuple):
    """One deployment. ``options`` are keyword arguments of `plan_layers`."""

    layers: list[CacheLayer]
    limits: Limits
    options: dict[str, Any]


class Cases:
    """A stream of random cases: the same seed gives the same cases."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def often(self, usual: Any, *rare: Any, chance: float = 0.12) -> Any:
        """``usual``, or now and then one of ``rare``."""
        return self.random.choice(rare) if self.random.random() < chance else usual

    def next(self) -> Case:
        """Layers with limits, options and a budget that is sometimes too small."""
        r = self.random
        limits = Limits(
            max_model_len=r.choice((1, 16, 100, 1000, 4096, 32768, 131072, 1 << 20)),
            max_in_flight_tokens=r.choice((16, 256, 4096, 16384)),
            mamba_cache_mode=r.choice(("none", "align", "all")),
            decode_context_parallel_size=self.often(1, 2, 4, chance=0.08),
            max_num_encoder_input_tokens=self.often(1500, 0),
        )
        layers = self.layers(self.often(1, 2, 3, chance=0.3))
        options: dict[str, Any] = {
            "layout": r.choice(LAYOUTS),
            "pipeline_parallel_size": layers[-1].stage + 1 if layers else 1,
            "disable_hybrid_kv_cache_manager": self.often(False, True, chance=0.15),
            "num_gpu_blocks_override": self.often(None, r.randint(1, 40), r.randint(40, 5000)),
            "min_kv_cache_group_layers": self.often(3, 1, 2, 4, 10, chance=0.5),
            "use_eagle_block_drop": r.random() < 0.5,
            "num_prefill_lookahead_tokens": self.often(0, 1, 3),
            "auto_fit_max_model_len": r.random() < 0.15,
        }
        options["available_memory"] = self.budget(layers, limits, options)
        return Case(layers, limits, options)

    def budget(self, layers: list[CacheLayer], limits: Limits, options: dict[str, Any]) -> list[int]:
        """Bytes per stage around what one request needs, where that is known."""
        plan = plan_layers(layers, limits, grouping=self.random.choice(GROUPINGS), **options)
        request = (plan.bytes_per_block or 1 << 16) * ((plan.blocks_per_request or 1000) + 1)
        memory = int(request * self.often(self.random.uniform(0.9, 30), self.random.uniform(0, 1.1), chance=0.3))
        return [int(memory * self.random.uniform(0.95, 1.05)) for _ in range(options["pipeline_parallel_size"])]

    def layers(self, stages: int) -> list[CacheLayer]:
        """A target of a repeating pattern with some odd layers, then a drafter; now and then no layer at all."""
        r = self.random
        if r.random() < 0.005:
            return []
        base = self.attention("full_attention", 1)
        if r.random() < 0.1:
            target = self.mixed_pages()
            return [
                CacheLayer(f"layers.{i}", "target", s, "", stage=i * stages // len(target))
                for i, s in enumerate(target)
            ]
        pool = [self.spec(base) for _ in range(r.choice((1, 1, 2, 2, 2, 3, 3, 4)))]
        while r.random() < 0.3:
            pool.append(self.variant(r.choice(pool)))
        pattern = [r.choice(pool) for _ in range(r.choice((1, 2, 3, 4, 6)))] + pool
        target = [pattern[i % len(pattern)] for i in range(self.often(r.randint(1, 24), r.randint(24, 64)))]
        target += [self.spec(base) for _ in range(self.often(0, 1, 2))]
        draft = [
            self.spec(base) if r.random() < 0.3 else r.choice(pool) for _ in range(self.often(0, 1, 3, 5, chance=0.4))
        ]
        if r.random() < 0.1:
            r.shuffle(target)
        if r.random() < 0.04:
            draft.append(self.hidden_states())
        out = [
            CacheLayer(f"layers.{i}", "target", spec, "", stage=i * stages // len(target))
            for i, spec in enumerate(target)
        ]
        out += [CacheLayer(f"draft.{i}", "drafter", spec, "", stage=out[-1].stage) for i, spec in enumerate(draft)]
        if stages == 3 and r.random() < 0.1:
            return [layer for layer in out if layer.stage != 1] or out
        return out

    def mixed_pages(self) -> list[Spec]:
        """Types whose page sizes repeat evenly, as DeepSeek-V4's do, or windows beside MLA, with a few odd layers."""
        r = self.random
        out: list[Spec] = []
        for _ in range(r.choice((1, 2, 2, 3, 4))):
            kind = r.choice(("full_attention", "mla", "sliding_window_mla", "sliding_window", "circular_buffer"))
            first = self.attention(kind, r.choice((1, 2, 8)))
            pages = {1, *(r.choice((1, 2, 3, 5)) for _ in range(2))}
            kinds = [first._replace(head_size=first.head_size * n) for n in sorted(pages)][: r.choice((1, 2, 2, 3))]
            out += kinds * r.randint(1, 9)
        out += [self.state(out[0].page_size_bytes or 64)] * self.often(0, r.randint(1, 12), chance=0.3)
        out += [self.attention("mla", 1)] * self.often(0, 1)
        if r.random() < 0.3:
            r.shuffle(out)
        return out

    def variant(self, spec: Spec) -> Spec:
        """``spec`` with one difference that its kind may merge, or just not merge."""
        r = self.random
        if isinstance(spec, StateSpec):
            return spec._replace(num_speculative_blocks=r.choice((0, 1)), block_size=r.choice((spec.block_size, 64)))
        if spec.kind in ("full_attention", "sink_full_attention", "rswa"):
            change = r.choice(
                (
                    {"sliding_window": r.choice((None, 128, 1024))},
                    {"attention_chunk_size": r.choice((None, 1024, 8192))},
                    {"non_causal": True},
                    {"kind": "full_attention", "rswa_window": None, "sink_len": None},
                    {"kind": "sink_full_attention", "rswa_window": None, "sink_len": 4},
                    {"kind": "rswa", "rswa_window": r.choice((512, 1024)), "sink_len": None},
                )
            )
        elif spec.kind == "mla":
            change = r.choice(
                (
                    {"non_causal_multi_token_decode": True},
                    {"is_index_group_leader": True},
                    {"kind": "hidden_state"},
                    {"sliding_window": 128},
                    {"alignment": 64},
                )
            )
        elif spec.kind == "sliding_window_mla":
            change = r.choice(
                ({"head_size": 2 * spec.head_size}, {"block_size": 2 * spec.block_size}, {"bounded_replay": True})
            )
        else:
            change = r.choice(({"dcp_sharded": not spec.dcp_sharded}, {"block_size": 2 * spec.block_size}))
        return spec._replace(**change)

    def hidden_states(self) -> AttentionSpec:
        """The hidden states of a few layers, whose tokens are wide."""
        spec = self.attention("hidden_state", 1)
        return spec._replace(num_kv_heads=self.random.choice((1, 3, 24)), head_size=self.random.choice((2048, 4096)))

    def spec(self, base: AttentionSpec) -> Spec:
        """A spec whose page mostly is a simple multiple of the page of ``base``."""
        r = self.random
        if r.random() < 0.2:
            return self.state(base.unpadded_page_size_bytes)
        kind = r.choice(ATTENTION_KINDS)
        spec = self.attention(kind, r.choice((1, 1, 1, 2, 2, 4)))
        if r.random() < 0.75:
            spec = spec._replace(block_size=base.block_size, head_size=base.head_size, dtype=base.dtype)
            if kind not in ("mla", "sliding_window_mla", "hidden_state"):
                spec = spec._replace(head_size_v=base.head_size_v, num_kv_heads=base.num_kv_heads * r.choice((1, 1, 2)))
        if r.random() < 0.08:
            page = spec.unpadded_page_size_bytes
            spec = spec._replace(page_size_padded=r.choice((page, page + 256, 2 * page, page + page // 2)))
        return spec

    def attention(self, kind: str, scale: int) -> AttentionSpec:
        """An attention-like spec of ``kind`` with every field that its class has."""
        r, often = self.random, self.often
        latent = kind in ("mla", "sliding_window_mla", "hidden_state")
        head_size = often(128, 64, 192, 80, 256) if not latent else often(576, 132, 512, 128, chance=0.4)
        fields: dict[str, Any] = {
            "kind": kind,
            "block_size": often(16, 32, 64, 128, 48, chance=0.3) * scale,
            "num_kv_heads": 1 if latent else r.choice((1, 2, 4, 8)),
            "head_size": head_size,
            "head_size_v": often(0, 64, chance=0.02) if latent else often(head_size, 128),
            "dtype": often("bfloat16", "uint8", "float32"),
            "kv_quant_mode": often("none", "fp8_per_tensor", chance=0.05),
            "num_head_slots": often(None, 1, 2, chance=0.05),
            "state_content_bytes": often(None, 656, 584, chance=0.05),
            "tokens_per_state": often(1, 4, 128, Fraction(1, 2), Fraction(3, 2), Fraction(1, 4), chance=0.08),
            "block_stride_alignment": often(None, 64, 576, 4096, MultipleOf(16), MultipleOf(64), MultipleOf(128)),
            "dcp_sharded": r.random() < 0.95,
            "max_tp_shards": often(None, 1, 4, chance=0.1),
        }
        if kind in ("sliding_window", "sliding_window_mla"):
            fields |= {"sliding_window": often(128, 1, 1024, 4096, chance=0.4)}
            fields["dcp_sharded"] = r.random() < 0.5
        if kind == "chunked_local":
            fields |= {"attention_chunk_size": often(1024, 8192)}
        if kind in ("full_attention", "sink_full_attention", "rswa", "mla"):
            fields |= {"sliding_window": often(None, 128, 1024, chance=0.06), "non_causal": r.random() < 0.06}
            fields |= {"attention_chunk_size": often(None, 1024, chance=0.03)}
        if latent:
            fields |= {"cache_dtype_str": often(None, "fp8_ds_mla"), "alignment": often(None, 576, 64, 512, chance=0.3)}
            fields |= {"model_version": often(None, "deepseek_v4")}
        if kind in ("mla", "hidden_state"):
            fields |= {"topk_buffer_width": often(None, 2048, chance=0.05), "cache_role": often("sparse", "indexer")}
            fields |= {"is_index_group_leader": r.random() < 0.1, "non_causal_multi_token_decode": r.random() < 0.1}
        if kind == "sliding_window_mla":
            fields |= {"bounded_replay": r.random() < 0.1}
        if kind == "sink_full_attention":
            fields |= {"sink_len": often(4, None, 8)}
        if kind == "rswa":
            fields |= {"rswa_window": often(512, 1024)}
        if kind == "circular_buffer":
            fields |= {"block_size": often(8, 4, 16)}
        return AttentionSpec(**fields)

    def state(self, page: int) -> StateSpec:
        """A state as large as ``page`` bytes, padded to it, a multiple of it, or of any other size."""
        r = self.random
        size = r.choice((page, page, page - page // 4, page // 2, 2 * page, r.randint(100, 60000)))
        half = max(size // 2, 2)
        padded = page if size < page and r.random() < 0.7 else self.often(None, 2 * size)
        return StateSpec(
            shapes=((half - half % 2,), (half // 4, 2)),
            dtypes=("uint8", "bfloat16"),
            block_size=r.choice((16, 64, 4096)),
            page_size_padded=padded if padded is None or padded >= 2 * half else None,
            mamba_type=self.often("mamba2", "gdn_attn"),
            mamba_cache_mode=r.choice(("none", "align")),
            num_speculative_blocks=self.often(0, 1, 7, chance=0.3),
            num_prefill_checkpoint_blocks=self.often(0, 1),
            prefill_checkpoint_alignment=self.often(None, 64),
            tp_replicated=r.random() < 0.1,
        )
