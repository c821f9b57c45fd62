"""What is read from start-ups of several releases, against literals."""
# ruff: noqa: E501 (log lines as they are printed)

from __future__ import annotations

import io
import json

import log_startups as startups
import pytest

from kvplan.logs import DOCUMENT_KEYS, LogReading, open_log, read_log


def read(text: str) -> LogReading:
    return read_log(text.split("\n"))


def test_document_has_exactly_the_keys_of_the_issue():
    assert list(read(startups.V0220_DRAFTER).document()) == [
        "version", "model", "drafter", "options", "attention_block_size", "mamba_padding_pct", "padding_layers",
        "weights_gib", "available_kv_cache_gib", "kv_cache_size_tokens", "max_concurrency", "max_model_len",
        "num_gpu_blocks", "layout",
    ]  # fmt: skip


def test_several_ranks_the_smallest_memory_and_tokens_decide():
    reading = read(startups.V092_TWO_RANKS)
    assert reading.version == "0.9.2"
    assert (reading.available_kv_cache_gib, reading.kv_cache_size_tokens, reading.max_concurrency) == (
        10.04,
        146208,
        17.85,
    )
    assert reading.weights_gib == 7.6337  # rank 0
    assert reading.num_gpu_blocks == 9138
    assert reading.memory.available_gib == (("VllmWorker rank=0 pid=30", 10.04), ("VllmWorker rank=1 pid=31", 10.11))
    assert len(reading.notes) == 2
    assert reading.missing == ("drafter", "attention_block_size", "mamba_padding_pct", "layout")


def test_hybrid_start_up_and_options_that_the_engine_corrected():
    reading = read(startups.V0130_HYBRID)
    assert reading.document() == {
        "version": "0.13.0",
        "model": "/models",
        "drafter": None,
        "options": {
            "host": "0.0.0.0",
            "max_model_len": 32768,
            "enable_prefix_caching": False,
            "kv_cache_dtype": "fp8",
            "compilation_config": {"mode": "VLLM_COMPILE", "cudagraph_capture_sizes": [1, 2]},
            "max_num_seqs": 8,
            "max_num_batched_tokens": 8192,
            "mamba_ssm_cache_dtype": "float16",
            "trust_remote_code": False,
            "dtype": "bfloat16",
            "load_format": "auto",
            "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1,
            "data_parallel_size": 1,
            "quantization": "modelopt",
            "enforce_eager": False,
            "enable_chunked_prefill": True,
        },
        "attention_block_size": 992,
        "mamba_padding_pct": 0.35,
        "padding_layers": [3],
        "weights_gib": 4.9054,
        "available_kv_cache_gib": 11.15,
        "kv_cache_size_tokens": 208320,
        "max_concurrency": 26.79,
        "max_model_len": 32768,
        "num_gpu_blocks": None,
        "layout": None,
    }
    assert reading.arguments is not None
    assert "api_key" not in reading.arguments
    assert reading.engine_config is not None
    assert reading.engine_config["served_model_name"] == "C:\\models\\it's"
    assert reading.engine_config["compilation_config"] == {
        "mode": "VLLM_COMPILE",
        "cudagraph_mode": "FULL_AND_PIECEWISE",
    }
    assert reading.memory.cuda_graph_gib == 1.0


def test_drafter_and_the_traps_around_it():
    reading = read(startups.V0220_DRAFTER)
    assert reading.drafter == "org/draft"
    assert reading.max_model_len == 200000  # not the drafter's own 262144
    assert reading.padding_layers == (2, 6)  # warned of twice
    assert reading.padding == ((2, 6.67), (6, 60.0))
    assert reading.num_gpu_blocks is None  # 16 was provisional
    assert (reading.architecture, reading.drafter_architecture) == (
        "Qwen3_5MoeForConditionalGeneration",
        "DFlashDraftModel",
    )
    assert reading.options is not None
    assert reading.options["speculative_config"] == {
        "method": "dflash",
        "model": "org/draft",
        "num_speculative_tokens": 6,
    }
    assert (reading.options["mamba_cache_mode"], reading.options["async_scheduling"]) == ("align", True)
    assert reading.memory.cuda_graph_estimate_gib == 0.65
    assert reading.memory.gpu_memory_utilization == 0.85


def test_one_line_report_layout_stages_and_the_split_of_memory():
    reading = read(startups.V0330_STAGES)
    assert (reading.kv_cache_size_tokens, reading.max_concurrency, reading.max_model_len) == (226754, 1.73, 131072)
    assert reading.layout == "BLNHC"
    assert reading.num_gpu_blocks == 14172
    assert reading.model_runner == "V2"
    assert (reading.available_kv_cache_gib, reading.weights_gib) == (6.92, 30.52)
    memory = reading.memory
    assert (memory.free_gib, memory.total_gib, memory.gpu_memory_utilization) == (78.5, 79.18, 0.9)
    assert (memory.requested_gib, memory.consumed_gib, memory.activation_gib) == (71.26, 31.2, 4.76)
    assert (memory.cuda_graph_gib, memory.non_torch_gib) == (0.51, None)
    assert reading.options is not None
    assert reading.options["hf_overrides"] == {"rope": {"factor": 3.0, "kind": "yarn"}}
    assert "hf_token" not in reading.options


def test_refused_start_up_says_what_was_needed():
    reading = read(startups.V0260_REFUSED)
    assert reading.refusal is not None
    assert reading.refusal._asdict() == {
        "max_model_len": 100000,
        "needed_gib": 4.26,
        "available_gib": 4.25,
        "estimated_max_model_len": 99712,
    }
    assert reading.failure == "one request of max_model_len does not fit into the KV memory"
    assert (reading.available_kv_cache_gib, reading.available_from) == (4.25, "reserved")
    assert reading.memory.kv_cache_bytes == 4563402752
    assert reading.kv_cache_size_tokens is None


def test_memory_is_taken_from_the_error_where_nothing_else_has_it():
    error = startups.V0260_REFUSED.split("\n")[-2]
    reading = read(error)
    assert (reading.available_kv_cache_gib, reading.available_from, reading.max_model_len) == (4.25, "refusal", 100000)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("(RayWorkerWrapper pid=645, ip=10.0.0.2) INFO 09-01 [gpu_worker.py:276] Available KV cache memory: 44.59 GiB [repeated 3x across cluster]", {"available_kv_cache_gib": 44.59}),
        ("INFO 09-01 10:00:00 [gpu_worker.py:240] Initial free memory 31.16 GiB, reserved 4.25GiB memory for KV Cache as specified", {"available_kv_cache_gib": 4.25}),
        ("INFO 09-01 10:00:00 [gpu_worker.py:240] Available KV cache memory: -0.45 GiB", {"available_kv_cache_gib": -0.45}),
        ("(EngineCore pid=1) INFO 09-01 10:00:00 [kv_cache_utils.py:1] GPU + host KV cache size: 1,000 tokens, Maximum concurrency for 10 tokens per request: 100.00x", {"kv_cache_size_tokens": 1000, "max_concurrency": 100.0, "max_model_len": 10}),
        ("INFO [kv_cache_utils.py:1] XPU KV cache size: 512 tokens, Maximum concurrency for 64 tokens per request: 8.00x", {"kv_cache_size_tokens": 512}),
        ("INFO 09-01 10:00:00 [utils.py:106] Using HND KV cache layout for FLASHINFER backend.", {"layout": "HND"}),
        ("INFO 09-01 10:00:00 [cuda.py:297] Using FlashInfer backend with HND KV cache layout on V1 engine by default for Blackwell (SM 10.0) GPUs.", {"layout": "HND"}),
        ("INFO 09-01 10:00:00 [utils.py:83] `VLLM_KV_CACHE_LAYOUT` environment variable detected. Setting KV cache layout to NHD.", {"layout": "NHD"}),
        ("INFO 09-01 10:00:00 [kv_cache_utils.py:900] Overriding num_gpu_blocks=5120 with num_gpu_blocks_override=64", {"num_gpu_blocks": 64}),
        ("INFO 09-01 10:00:00 [kv_cache_utils.py:900] Overriding num_gpu_blocks=0 with num_gpu_blocks_override=64", {"num_gpu_blocks": None}),
        ("INFO 09-01 10:00:00 [interface.py:900] Setting kv cache block size to 256 for DEEPSEEK_SPARSE_SWA backend.", {"attention_block_size": None}),
        ("INFO 09-01 10:00:00 [x.py:1] Auto-fit max_model_len: reduced from 262144 to 34736 to fit in available GPU memory (3.18 GiB available for KV cache)", {"max_model_len": 34736}),
        ("INFO 09-01 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.18.0) with config: model='m', speculative_config=SpeculativeConfig(method='mtp', model='m', num_spec_tokens=2)", {"drafter": "mtp", "version": "0.18.0"}),
        ("INFO 09-01 10:00:00 [core.py:1] Initializing a V1 LLM engine (v0.18.0) with config: model='m', speculative_config=SpeculativeConfig(method='ngram', model=None, num_spec_tokens=2)", {"drafter": "ngram"}),
        ("M API server version 0.13.0+faa43dbf.nv26.01", {"version": "0.13.0+faa43dbf.nv26.01"}),
        (" [2026-04-20 10:56:24.647187][UC][I] GPU KV cache size: 679,808 tokens [25586,25586][kv_cache_utils.py:1319,_report]", {"kv_cache_size_tokens": 679808}),
    ],
)  # fmt: skip
def test_one_message(line: str, expected: dict[str, object]):
    document = read(line).document()
    assert {key: document[key] for key in expected} == expected


def test_numbers_of_other_lines_are_not_taken():
    reading = read(
        "(EngineCore pid=1) INFO 09-01 10:00:00 [kv.py:1] GPU KV cache size: 1,0\n"
        "(APIServer pid=1) INFO 09-01 [loggers.py:1] Engine 000: Avg generation throughput: 340.2 tokens/s, "
        "GPU KV cache usage: 12.4%, Prefix cache hit rate: 43.1%\n"
        "INFO 09-01 10:00:00 [model.py:1] Using max model len 4096\n"
        "12 warnings were hidden\n"
    )
    assert (reading.kv_cache_size_tokens, reading.max_model_len) == (None, 4096)


def test_data_parallel_engines_are_kept_apart():
    lines = []
    for index, (memory, tokens) in enumerate([(9.5, "90,000"), (8.5, "80,000")]):
        lines += [
            f"(EngineCore_DP{index} pid={index}) INFO 09-01 [core.py:1] Initializing a V1 LLM engine (v0.12.0) with config: model='m'",
            f"(Worker_DP{index}_TP0 pid=1{index}) INFO 09-01 [gpu_worker.py:1] Available KV cache memory: {memory} GiB",
            f"(EngineCore_DP{index} pid={index}) INFO 09-01 [kv.py:1] GPU KV cache size: {tokens} tokens",
            f"(EngineCore_DP{index} pid={index}) INFO 09-01 [kv.py:1] Maximum concurrency for 1,000 tokens per request: {90 - 10 * index}.00x",
            f"(APIServer pid=3) INFO 09-01 [loggers.py:1] Engine 00{index}: vllm cache_config_info with initialization after num_gpu_blocks is: {5625 - index}",
        ]
    reading = read("\n".join(lines))
    assert (reading.available_kv_cache_gib, reading.kv_cache_size_tokens, reading.max_concurrency) == (9.5, 90000, 90.0)
    assert (reading.num_gpu_blocks, reading.startups) == (5625, 1)
    assert reading.notes == ("2 engines report tokens; engine 0 is read.",)


@pytest.mark.parametrize(
    ("lines", "failure"),
    [
        (("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",), "the GPU ran out of memory"),
        (
            ("torch.OutOfMemoryError: CUDA out of memory.", "EngineCore failed to start."),
            "the GPU ran out of memory",
        ),
        (
            ("ValueError: Free memory on device cuda:0 (10.5/23.6 GiB) on startup is less than desired GPU memory "
             "utilization (0.9, 21.24 GiB).",),
            "less memory is free on the GPU than --gpu-memory-utilization asks for",
        ),
        (("ValueError: No available memory for the cache blocks.",), "no memory is left for the KV cache"),
        (("EngineCore failed to start.",), "the engine failed to start"),
        (("all is well",), None),
    ],
)  # fmt: skip
def test_why_a_start_up_failed(lines: tuple[str, ...], failure: str | None):
    head = startups.V0260_REFUSED.split("\n")[:3]
    reading = read("\n".join([*head, *(f"(EngineCore pid=41) ERROR 09-14 [core.py:1] {line}" for line in lines)]))
    assert reading.failure == failure


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Async scheduling not supported with ngram-based speculative decoding and will be disabled.", False),
        ("Async scheduling is not compatible with disable_padded_drafter_batch=True and will be disabled.", False),
        ("Async scheduling will be disabled because it is not supported with the `ray` distributed executor", False),
        (
            "Async scheduling is disabled because the V1 model runner does not support it with pipeline parallelism.",
            False,
        ),
        ("Asynchronous scheduling is enabled.", True),
        ("Defaulting to mp-based distributed executor backend for async scheduling.", None),
    ],
)
def test_whether_batches_overlap_is_told_by_messages(line: str, told: bool | None):
    reading = read(startups.V0260_REFUSED + f"(EngineCore pid=41) WARNING 09-14 [vllm.py:1] {line}\n")
    assert reading.options is not None
    assert reading.options.get("async_scheduling") is told


def test_a_server_that_runs_out_of_memory_later_had_started():
    reading = read(startups.V0330_STAGES + "(EngineCore pid=20) ERROR 11-21 [core.py:1] CUDA out of memory.\n")
    assert reading.failure is None


def test_of_several_start_ups_the_one_that_came_furthest_is_read():
    reading = read(startups.V0260_REFUSED + startups.V0220_DRAFTER + startups.V0260_REFUSED)
    assert (reading.version, reading.startups, reading.failure) == ("0.22.0", 3, None)
    assert reading.options is not None
    assert "kv_cache_memory_bytes" not in reading.options


def test_of_equal_start_ups_the_last_is_read():
    again = startups.V0220_DRAFTER.replace("71.59", "71.50")
    assert read(startups.V0220_DRAFTER + again).available_kv_cache_gib == 71.5


def test_services_of_one_compose_log_are_not_mixed():
    first = ["prefill-1  | " + line for line in startups.V0220_DRAFTER.split("\n")]
    second = ["decode-1  | " + line for line in startups.V0130_HYBRID.split("\n")]
    interleaved = [line for pair in zip(first, second, strict=False) for line in pair] + first[len(second) :]
    reading = read_log(interleaved)
    assert (reading.version, reading.model, reading.startups) == ("0.22.0", "org/target", 2)


def test_empty_and_foreign_input_gives_an_empty_reading():
    assert read_log([]) == LogReading()
    assert read("nothing of interest\n") == LogReading()
    assert len(read_log([]).missing) == len(DOCUMENT_KEYS) - 1  # padding_layers is a list


def test_bytes_text_pipes_and_utf16_read_alike():
    expected = read(startups.V0220_DRAFTER)
    for encoding in ("utf-8", "utf-16"):
        assert read_log(open_log(io.BytesIO(startups.V0220_DRAFTER.encode(encoding)))) == expected
    assert read_log(startups.V0220_DRAFTER.encode().split(b"\n")) == expected


def test_json_formatter_lines_name_their_process():
    line = {
        "asctime": "t",
        "levelname": "INFO",
        "processName": "EngineCore_DP1",
        "message": "GPU KV cache size: 5,000 tokens",
    }
    other = {**line, "processName": "EngineCore_DP0", "message": "GPU KV cache size: 6,000 tokens"}
    assert read_log([json.dumps(line), json.dumps(other)]).kv_cache_size_tokens == 6000


def test_hub_id_of_a_cache_path():
    from kvplan.logs.options import hub_id

    assert hub_id("/cache/hub/models--deepseek-ai--DeepSeek-V4-Flash/snapshots/5530") == "deepseek-ai/DeepSeek-V4-Flash"
    assert hub_id("org/name") == "org/name"
