"""The JSON documents: names, types and values that a reader of version 1 relies on."""

from __future__ import annotations

import json

import pytest
from report_build import attention, cached, engine_config, group, limits_of, plan, result
from report_cases import gemma, qwen, qwen_dflash, refused

from kvplan.comparison import compare
from kvplan.errors import KvplanError
from kvplan.report import compare_document
from kvplan.report.document import to_document, to_json
from kvplan.report.read_document import read_document
from kvplan.spec import MultipleOf

LAYER_KEYS = [
    "name",
    "owner",
    "kind",
    "block_size",
    "page_size_bytes",
    "unpadded_page_size_bytes",
    "num_kv_heads",
    "head_size",
    "head_size_v",
    "dtype",
    "sliding_window",
    "attention_chunk_size",
    "tokens_per_state",
    "state_shapes",
    "state_dtypes",
    "num_speculative_blocks",
    "backend",
    "kernel_block_sizes",
]
PLAN_KEYS = [
    "layout",
    "error",
    "num_groups",
    "group_size",
    "groups",
    "bytes_per_block",
    "num_blocks",
    "blocks_per_request",
    "kv_cache_size_tokens",
    "max_concurrency",
    "max_model_len",
    "longest_model_len",
    "padding",
    "request_cost",
    "request_cost_parts",
    "notes",
]
GROUP_KEYS = [
    "layers",
    "kind",
    "owner",
    "block_size",
    "page_size_bytes",
    "pages_per_block",
    "padding_pages",
    "blocks_per_request",
    "kernel_block_size",
]
OPTION_KEYS = [
    "dtype",
    "quantization",
    "kv_cache_dtype",
    "kv_cache_dtype_skip_layers",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "prefill_context_parallel_size",
    "enable_expert_parallel",
    "block_size",
    "mamba_block_size",
    "mamba_cache_mode",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_num_encoder_input_tokens",
    "max_concurrent_batches",
    "max_in_flight_tokens",
    "async_scheduling",
    "enable_prefix_caching",
    "disable_hybrid_kv_cache_manager",
    "attention_backend",
    "min_kv_cache_group_layers",
    "num_gpu_blocks_override",
    "kv_cache_memory_bytes",
    "gpu_memory_utilization",
    "gpu",
]


def test_every_key_of_version_1_in_its_place() -> None:
    document = to_document(qwen_dflash())
    assert list(document) == [
        "schema_version",
        "kvplan_version",
        "engine",
        "model",
        "drafter",
        "options",
        "layers",
        "layout",
        "selected",
        "plans",
        "assumed",
        "notes",
    ]
    assert list(document["model"]) == ["id", "source", "architecture", "model_type"]
    assert list(document["drafter"]) == ["id", "source", "architecture", "method", "num_speculative_tokens"]
    assert list(document["options"]) == OPTION_KEYS
    assert all(list(layer) == LAYER_KEYS for layer in document["layers"])
    assert list(document["layout"]) == ["name", "candidates", "reasons"]
    assert list(document["layout"]["reasons"][0]) == ["condition", "holds", "why"]
    assert list(document["plans"]) == ["main", "uniform", "packed"]
    for made in document["plans"].values():
        assert list(made) == PLAN_KEYS
        assert all(list(own) == GROUP_KEYS for own in made["groups"])
        assert list(made["padding"]) == [
            "growing_bytes_per_token",
            "growing_fraction",
            "bounded_bytes_per_request",
            "page_rounding_bytes_per_request",
        ]
        assert list(made["request_cost"]) == ["fixed_bytes", "bytes_per_token", "at_max_model_len"]


def test_a_small_document_value_by_value() -> None:
    config = engine_config(max_model_len=4096)
    spec = attention("sliding_window", 16, 8, 192, head_size_v=128, sliding_window=128)
    layers = cached("model.layers.{}.attn", [0], spec, "FLASH_ATTN", kernel=(MultipleOf(16), 128))
    made = plan([group(layers, limits_of(config))], limits_of(config), {layers[0].name: "target"}, 2**30)
    document = to_document(result(config, layers, {"main": made}, model="m", architecture="A", budget=2**30))
    assert document["drafter"] is None
    assert document["options"]["gpu"] == "B300"
    assert document["layers"] == [
        {
            "name": "model.layers.0.attn",
            "owner": "target",
            "kind": "sliding_window",
            "block_size": 16,
            "page_size_bytes": 81920,
            "unpadded_page_size_bytes": 81920,
            "num_kv_heads": 8,
            "head_size": 192,
            "head_size_v": 128,
            "dtype": "bfloat16",
            "sliding_window": 128,
            "attention_chunk_size": None,
            "tokens_per_state": 1,
            "state_shapes": None,
            "state_dtypes": None,
            "num_speculative_blocks": None,
            "backend": "FLASH_ATTN",
            "kernel_block_sizes": [{"multiple_of": 16}, 128],
        }
    ]
    assert document["plans"]["main"] == {
        "layout": "LBNHC",
        "error": None,
        "num_groups": 1,
        "group_size": None,
        "groups": [
            {
                "layers": ["model.layers.0.attn"],
                "kind": "sliding_window",
                "owner": "target",
                "block_size": 16,
                "page_size_bytes": 81920,
                "pages_per_block": 1,
                "padding_pages": 0,
                "blocks_per_request": 257,
                "kernel_block_size": None,
            }
        ],
        "bytes_per_block": 81920,
        "num_blocks": 13107,
        "blocks_per_request": 257,
        "kv_cache_size_tokens": 208896,
        "max_concurrency": 51.0,
        "max_model_len": 4096,
        "longest_model_len": None,
        "padding": {
            "growing_bytes_per_token": 0,
            "growing_fraction": 0.0,
            "bounded_bytes_per_request": 0,
            "page_rounding_bytes_per_request": 0,
        },
        "request_cost": {
            "fixed_bytes": 21053440,
            "bytes_per_token": 0,
            "at_max_model_len": {"target_window": 21053440},
        },
        "request_cost_parts": {},
        "notes": [],
    }


def test_a_state_layer_has_shapes_and_no_heads() -> None:
    layer = to_document(qwen_dflash())["layers"][0]
    assert layer["state_shapes"] == [[10, 8192], [32, 128, 128]]
    assert layer["state_dtypes"] == ["bfloat16", "bfloat16"]
    assert layer["num_speculative_blocks"] == 7
    assert (layer["num_kv_heads"], layer["head_size"], layer["dtype"], layer["tokens_per_state"]) == (None,) * 4


def test_a_plan_that_does_not_fit_keeps_its_groups_and_names_the_length_that_would() -> None:
    made = to_document(refused())["plans"]["main"]
    assert made["error"].startswith("vLLM does not start: ")
    assert (made["num_blocks"], made["kv_cache_size_tokens"], made["longest_model_len"]) == (None, None, 14544)
    assert (made["num_groups"], made["bytes_per_block"]) == (1, 2359296)


def test_pages_per_block_counts_the_empty_pages() -> None:
    plans = to_document(qwen_dflash())["plans"]
    counts = {
        name: sorted({(g["pages_per_block"], g["padding_pages"]) for g in p["groups"]}) for name, p in plans.items()
    }
    assert counts == {"main": [(1, 0)], "uniform": [(3, 0), (3, 1), (3, 2)], "packed": [(6, 1), (11, 0), (12, 2)]}


def test_the_comparison_document() -> None:
    document = compare_document.comparison_document(compare(qwen(), [qwen_dflash()]))
    assert list(document) == ["schema_version", "kvplan_version", "engine", "model", "baseline", "variants"]
    variant = document["variants"][0]
    assert list(variant) == [
        "label",
        "drafter",
        "layout",
        "selected",
        "changed_options",
        "rows",
        "change",
        "causes",
        "causes_by_grouping",
        "structure",
    ]
    assert [(row["grouping"], row["used"], row["kv_cache_size_tokens"]) for row in variant["rows"]] == [
        ("main", True, 7170229),
        ("uniform", False, 5012677),
        ("packed", False, 7259740),
    ]
    assert [(cause["category"], cause["difference_bytes"]) for cause in variant["causes"]] == [
        ("drafter_kv", 1073741824),
        ("drafter_window", 773324800),
        ("page_rounding", 331776000),
        ("speculative_state", 254607360),
        ("state", 3440640),
        ("tail_rounding", 1048576),
    ]
    assert variant["rows"][0]["bytes_per_request"] == 2621440 * 2995
    assert document["baseline"]["rows"][0]["bytes_per_request"] == 13107200 * 413
    for grouping, causes in variant["causes_by_grouping"].items():
        own, base = ({row["grouping"]: row for row in e["rows"]}[grouping] for e in (variant, document["baseline"]))
        assert sum(c["difference_bytes"] for c in causes) == own["bytes_per_request"] - base["bytes_per_request"]
    assert json.loads(to_json(document)) == document


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda d: [], "a.json: not a kvplan document"),
        (lambda d: d | {"schema_version": 2}, "a.json: schema_version is 2, and this kvplan reads 1"),
        (lambda d: d | {"selected": "x"}, "a.json: selected must be one of the plans main, uniform, packed, got 'x'"),
        (lambda d: d | {"plans": None}, "a.json: plans is missing"),
        (lambda d: d | {"layers": [1]}, "a.json: layers[0] must be a JSON object"),
    ],
)
def test_what_is_not_a_document_is_named(spoil, sentence: str) -> None:
    with pytest.raises(KvplanError) as refusal:
        read_document(spoil(json.loads(to_json(to_document(gemma())))), "a.json")
    assert str(refusal.value) == f"{sentence}; save it again with `kvplan plan ... --format json -o FILE`."
