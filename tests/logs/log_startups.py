"""Start-ups as vLLM releases print them, short and made up, and ways in which a log reaches a reader."""
# ruff: noqa: E501 (log lines as they are printed)

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

# 0.9.2: workers tagged by rank, each rank reports for itself before the smallest is taken.
V092_TWO_RANKS = """\
INFO 10-01 06:29:33 [__init__.py:244] Automatically detected platform cuda.
INFO 10-01 06:29:40 [api_server.py:1395] vLLM API server version 0.9.2
INFO 10-01 06:29:40 [cli_args.py:325] non-default args: {'port': 9000, 'model': '/srv/qwen', 'max_model_len': 8192, 'tensor_parallel_size': 2}
INFO 10-01 06:29:50 [config.py:1472] Using max model len 8192
INFO 10-01 06:29:55 [core.py:69] Initializing a V1 LLM engine (v0.9.2) with config: model='/srv/qwen', speculative_config=None, tokenizer='/srv/qwen', skip_tokenizer_init=False, dtype=torch.bfloat16, max_seq_len=8192, load_format=LoadFormat.AUTO, tensor_parallel_size=2, pipeline_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto,  device_config=cuda, served_model_name=/srv/qwen, enable_prefix_caching=True, chunked_prefill_enabled=True, compilation_config={"level":3,"cudagraph_capture_sizes":[8,4,2,1],"use_cudagraph":true,"local_cache_dir":null}
(VllmWorker rank=1 pid=31) INFO 10-01 06:31:00 [gpu_model_runner.py:1801] Model loading took 7.6334 GiB and 4.100000 seconds
(VllmWorker rank=0 pid=30) INFO 10-01 06:31:00 [gpu_model_runner.py:1801] Model loading took 7.6337 GiB and 4.000000 seconds
(VllmWorker rank=1 pid=31) INFO 10-01 06:31:20 [gpu_worker.py:232] Available KV cache memory: 10.11 GiB
(VllmWorker rank=0 pid=30) INFO 10-01 06:31:20 [gpu_worker.py:232] Available KV cache memory: 10.04 GiB
INFO 10-01 06:31:21 [kv_cache_utils.py:716] GPU KV cache size: 146,208 tokens
INFO 10-01 06:31:21 [kv_cache_utils.py:720] Maximum concurrency for 8,192 tokens per request: 17.85x
INFO 10-01 06:31:21 [kv_cache_utils.py:716] GPU KV cache size: 147,216 tokens
INFO 10-01 06:31:21 [kv_cache_utils.py:720] Maximum concurrency for 8,192 tokens per request: 17.97x
INFO 10-01 06:31:30 [loggers.py:137] Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: 9138
"""

# 0.13.0: a hybrid model behind compose; prefix caching asked for and switched off; nested config objects.
V0130_HYBRID = """\
(APIServer pid=1) INFO 03-05 04:46:23 [api_server.py:1351] vLLM API server version 0.13.0
(APIServer pid=1) INFO 03-05 04:46:23 [utils.py:253] non-default args: {'model_tag': '/models', 'host': '0.0.0.0', 'api_key': ['sk-secret'], 'model': '/models', 'max_model_len': 32768, 'enable_prefix_caching': True, 'kv_cache_dtype': 'fp8', 'compilation_config': CompilationConfig(mode=<CompilationMode.VLLM_COMPILE: 3>, cudagraph_capture_sizes=[1, 2]), 'max_num_seqs': 8}
(APIServer pid=1) INFO 03-05 04:46:30 [model.py:1661] Using max model len 32768
(APIServer pid=1) INFO 03-05 04:46:30 [scheduler.py:230] Chunked prefill is enabled with max_num_batched_tokens=8192.
(APIServer pid=1) INFO 03-05 04:46:30 [config.py:302] Hybrid or mamba-based model detected without support for prefix caching: disabling.
(APIServer pid=1) INFO 03-05 04:46:31 [config.py:506] Updating mamba_ssm_cache_dtype to 'float16' for NemotronH model
(APIServer pid=1) INFO 03-05 04:46:31 [config.py:439] Setting attention block size to 992 tokens to ensure that attention page size is >= mamba page size.
(APIServer pid=1) INFO 03-05 04:46:31 [config.py:463] Padding mamba page size by 0.35% to ensure that mamba page size and attention page size are exactly equal.
(EngineCore_DP0 pid=58) INFO 03-05 04:46:37 [core.py:93] Initializing a V1 LLM engine (v0.13.0) with config: model='/models', speculative_config=None, tokenizer='/models', trust_remote_code=False, dtype=torch.bfloat16, max_seq_len=32768, load_format=auto, tensor_parallel_size=1, pipeline_parallel_size=1, data_parallel_size=1, quantization=modelopt, enforce_eager=False, kv_cache_dtype=fp8, device_config=cuda, structured_outputs_config=StructuredOutputsConfig(backend='auto', reasoning_parser=''), seed=0, served_model_name=C:\\models\\it's, enable_prefix_caching=False, enable_chunked_prefill=True, pooler_config=None, compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}
(EngineCore_DP0 pid=58) INFO 03-05 04:46:44 [gpu_model_runner.py:3562] Starting to load model /models...
Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:32<00:00, 16.11s/it]
(EngineCore_DP0 pid=58) INFO 03-05 04:47:50 [gpu_model_runner.py:3659] Model loading took 4.9054 GiB memory and 40.100000 seconds
(EngineCore_DP0 pid=58) INFO 03-05 04:50:09 [gpu_worker.py:375] Available KV cache memory: 11.15 GiB
(EngineCore_DP0 pid=58) WARNING 03-05 04:50:09 [kv_cache_utils.py:1033] Add 3 padding layers, may waste at most 14.29% KV cache memory
(EngineCore_DP0 pid=58) INFO 03-05 04:50:09 [kv_cache_utils.py:1291] GPU KV cache size: 208,320 tokens
(EngineCore_DP0 pid=58) INFO 03-05 04:50:09 [kv_cache_utils.py:1296] Maximum concurrency for 32,768 tokens per request: 26.79x
(EngineCore_DP0 pid=58) INFO 03-05 04:50:30 [gpu_model_runner.py:4587] Graph capturing finished in 5 secs, took 1.00 GiB
"""

# 0.22.0: a drafter with its own length, padding warned of twice (graph profiling, then for good), the provisional blocks.
V0220_DRAFTER = """\
(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:344] 
(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:344]        █     █     █▄   ▄█
(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:344]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.22.0
(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:344]   █▄█▀ █     █     █     █  model   org/target
(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:344]    ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀
(APIServer pid=1) INFO 06-02 11:09:38 [utils.py:278] non-default args: {'model_tag': 'org/target', 'model': 'org/target', 'max_model_len': 200000, 'attention_backend': 'flash_attn', 'enable_prefix_caching': True, 'speculative_config': {'method': 'dflash', 'model': 'org/draft', 'num_speculative_tokens': 6}}
(APIServer pid=1) INFO 06-02 11:09:49 [model.py:617] Resolved architecture: Qwen3_5MoeForConditionalGeneration
(APIServer pid=1) INFO 06-02 11:09:49 [model.py:1752] Using max model len 200000
(APIServer pid=1) INFO 06-02 11:09:55 [model.py:617] Resolved architecture: DFlashDraftModel
(APIServer pid=1) INFO 06-02 11:09:55 [model.py:1752] Using max model len 262144
(APIServer pid=1) INFO 06-02 11:09:55 [speculative.py:882] Overriding draft model max model len from 262144 to 200000
(APIServer pid=1) WARNING 06-02 11:09:55 [config.py:355] Mamba cache mode is set to 'align' for Qwen3_5MoeForConditionalGeneration by default when prefix caching is enabled
(APIServer pid=1) INFO 06-02 11:09:55 [vllm.py:977] Asynchronous scheduling is enabled.
(EngineCore pid=77) INFO 06-02 11:10:12 [core.py:112] Initializing a V1 LLM engine (v0.22.0) with config: model='org/target', speculative_config=SpeculativeConfig(method='dflash', model='org/draft', num_spec_tokens=6), tokenizer='org/target', dtype=torch.bfloat16, max_seq_len=200000, tensor_parallel_size=1, kv_cache_dtype=auto, enable_prefix_caching=True, kernel_config=KernelConfig(moe_backend='auto')
(EngineCore pid=77) INFO 06-02 11:12:56 [gpu_model_runner.py:5132] Model loading took 21.91 GiB memory and 149.300000 seconds
(EngineCore pid=77) INFO 06-02 11:12:56 [interface.py:649] Setting attention block size to 1104 tokens to ensure that attention page size is >= mamba page size.
(EngineCore pid=77) INFO 06-02 11:12:56 [interface.py:673] Padding mamba page size by 0.73% to ensure that mamba page size and attention page size are exactly equal.
(EngineCore pid=77) INFO 06-02 11:15:11 [kv_cache_utils.py:829] Overriding num_gpu_blocks=0 with num_gpu_blocks_override=16
(EngineCore pid=77) WARNING 06-02 11:15:12 [kv_cache_utils.py:1157] Add 2 padding layers, may waste at most 6.67% KV cache memory
(EngineCore pid=77) WARNING 06-02 11:15:12 [kv_cache_utils.py:1157] Add 6 padding layers, may waste at most 60.00% KV cache memory
(EngineCore pid=77) INFO 06-02 11:15:32 [gpu_model_runner.py:6365] Estimated CUDA graph memory: 0.65 GiB total
(EngineCore pid=77) INFO 06-02 11:15:33 [gpu_worker.py:466] Available KV cache memory: 71.59 GiB
(EngineCore pid=77) INFO 06-02 11:15:33 [gpu_worker.py:481] CUDA graph memory profiling is enabled (default since v0.21.0). The current --gpu-memory-utilization=0.8500 is equivalent to --gpu-memory-utilization=0.8445 without it.
(EngineCore pid=77) WARNING 06-02 11:15:33 [kv_cache_utils.py:1157] Add 2 padding layers, may waste at most 6.67% KV cache memory
(EngineCore pid=77) WARNING 06-02 11:15:33 [kv_cache_utils.py:1157] Add 6 padding layers, may waste at most 60.00% KV cache memory
(EngineCore pid=77) INFO 06-02 11:15:33 [kv_cache_utils.py:1733] GPU KV cache size: 1,470,588 tokens
(EngineCore pid=77) INFO 06-02 11:15:33 [kv_cache_utils.py:1734] Maximum concurrency for 200,000 tokens per request: 7.35x
"""

# 0.33.0: one-line report, a layout, several API servers, the split of memory at INFO, two pipeline stages.
V0330_STAGES = """\
(APIServer pid=9) INFO 11-20 08:00:00 [startup.py:38] vLLM server version 0.33.0, serving model org/big
(APIServer pid=9) INFO 11-20 08:00:00 [startup.py:96] non-default args: {'model': 'org/big', 'pipeline_parallel_size': 2, 'api_server_count': 2, 'hf_token': '***', 'hf_overrides': {'rope': {'factor': 3.0, 'kind': 'yarn'}}}
(APIServer pid=9) INFO 11-20 08:00:10 [model.py:2170] Using max model len 131072
(EngineCore pid=20) INFO 11-20 08:00:20 [core.py:140] Initializing a V1 LLM engine (v0.33.0) with config: model='org/big', speculative_config=None, dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=1, pipeline_parallel_size=2, kv_cache_dtype=fp8_e4m3, enable_prefix_caching=True
(Worker_PP1 pid=32) INFO 11-20 08:01:20 [model_runner.py:429] Model loading took 31.5 GiB memory and 9.600000 seconds
(Worker_PP0 pid=31) INFO 11-20 08:01:20 [model_runner.py:429] Model loading took 30.52 GiB memory and 9.000000 seconds
(EngineCore pid=20) INFO 11-20 08:01:25 [utils.py:381] Using BLNHC KV cache layout.
(Worker_PP0 pid=31) INFO 11-20 08:01:40 [gpu_worker.py:773] Available KV cache memory: 7.5 GiB
(Worker_PP1 pid=32) INFO 11-20 08:01:40 [gpu_worker.py:773] Available KV cache memory: 6.92 GiB
(EngineCore pid=20) INFO 11-20 08:01:41 [kv_cache_utils.py:1149] GPU KV cache size: 226,754 tokens, Maximum concurrency for 131,072 tokens per request: 1.73x
(Worker_PP0 pid=31) INFO 11-20 08:01:50 [gpu_worker.py:1066] Free memory on device (78.5/79.18 GiB) on startup. Desired GPU memory utilization is (0.9, 71.26 GiB). Actual usage is 31.2 GiB for consumed memory (weights + non-torch), 4.76 GiB for peak activation, and 0.51 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1` (0.0 GiB) to fit into requested memory. Current kv cache memory in use is 7.5 GiB.
(APIServer pid=9) INFO 11-20 08:01:55 [loggers.py:427] 2 Engines: vllm cache_config_info with initialization after num_gpu_blocks is: 14172
"""

# 0.26.0: the KV memory given in bytes, one request does not fit; the API server dies with it.
V0260_REFUSED = """\
(APIServer pid=1) INFO 09-14 22:30:00 [api_utils.py:273] non-default args: {'model': 'org/m', 'max_model_len': 100000, 'kv_cache_memory_bytes': 4563402752}
(EngineCore pid=41) INFO 09-14 22:35:00 [core.py:114] Initializing a V1 LLM engine (v0.26.0) with config: model='org/m', speculative_config=None, max_seq_len=100000
(EngineCore pid=41) INFO 09-14 22:37:44 [gpu_worker.py:492] Initial free memory 31.16 GiB, reserved 4.25 GiB memory for KV Cache as specified by kv_cache_memory_bytes config and skipped memory profiling.
(EngineCore pid=41) ERROR 09-14 22:37:44 [core.py:1344] EngineCore failed to start.
(EngineCore pid=41) ValueError: To serve at least one request with the model's max seq len (100000), (4.26 GiB KV cache is needed, which is larger than the available KV cache memory (4.25 GiB). Based on the available memory, the estimated maximum model length is 99712. Try increasing `gpu_memory_utilization`.
"""

ALL = {
    "0.9.2 two ranks": V092_TWO_RANKS,
    "0.13.0 hybrid": V0130_HYBRID,
    "0.22.0 drafter": V0220_DRAFTER,
    "0.33.0 stages": V0330_STAGES,
    "0.26.0 refused": V0260_REFUSED,
}


def several(
    version: str, engines: int, tensor: int, pipeline: int, random: Random
) -> tuple[list[str], dict[str, object]]:
    """A start-up of several engines and ranks, their lines mixed, and what of it must be read."""
    key = tuple(map(int, version.split(".")))
    once = key >= (0, 11, 1)  # only the first rank of an engine prints
    api = "(APIServer pid=1) " if key >= (0, 10, 1) else ""
    asked = {
        "model": "org/m",
        "max_model_len": 8192,
        "tensor_parallel_size": tensor,
        "pipeline_parallel_size": pipeline,
    }
    head = [
        f"{api}INFO 11-20 08:00:00 [api_server.py:1] vLLM API server version {version}",
        f"{api}INFO 11-20 08:00:00 [utils.py:1] non-default args: {asked!r}",
    ]
    said: dict[str, object] = {}
    running = []
    for index in range(engines):
        core = f"({_engine_name(key, index, engines)} pid={10 + index}) " if key >= (0, 10) else ""
        start = f"{core}INFO 11-20 08:00:00 [core.py:1] Initializing a V1 LLM engine (v{version}) with config: model='org/m', max_seq_len=8192"
        ranks, memory, weights = [], [], []
        for rank in range(1 if once else tensor * pipeline):
            worker = _worker_name(key, index, engines, rank, tensor, pipeline)
            tag = core if tensor * pipeline == 1 else f"({worker} pid={100 + 10 * index + rank}) "
            memory.append(random.randrange(500, 5000) / 100)
            weights.append(random.randrange(500, 5000) / 100)
            ranks.append([
                f"{tag}INFO 11-20 08:00:00 [gpu_model_runner.py:1] Model loading took {weights[-1]} GiB memory and 3.1 seconds",
                f"{tag}INFO 11-20 08:00:00 [gpu_worker.py:1] Available KV cache memory: {memory[-1]:.2f} GiB",
            ])  # fmt: skip
        tokens = [random.randrange(1000, 10**6) for _ in memory]
        report = [
            f"{core}INFO 11-20 08:00:00 [k.py:1] GPU KV cache size: {each:,} tokens, Maximum concurrency for 8,192 tokens per request: {each / 8192:.2f}x"
            for each in tokens
        ]
        running.append([start, *_mixed(ranks, random), *report])
        if index == 0:
            said = {
                "version": version, "model": "org/m", "available_kv_cache_gib": min(memory), "weights_gib": weights[0],
                "kv_cache_size_tokens": min(tokens), "max_concurrency": float(f"{min(tokens) / 8192:.2f}"),
            }  # fmt: skip
    return head + _mixed(running, random), said


def _engine_name(key: tuple[int, ...], index: int, engines: int) -> str:
    if key < (0, 10, 2):
        return f"EngineCore_{index}"
    return f"EngineCore_DP{index}" if engines > 1 or key < (0, 16) else "EngineCore"


def _worker_name(key: tuple[int, ...], index: int, engines: int, rank: int, tensor: int, pipeline: int) -> str:
    stage, shard = divmod(rank, tensor)
    axes = [f"PP{stage}"] * (pipeline > 1) + [f"TP{shard}"] * (tensor > 1)
    if key < (0, 10, 1):
        return f"VllmWorker rank={rank}"
    if key < (0, 10, 2):
        return "VllmWorker " + "_".join(axes)
    return "_".join(["Worker", *[f"DP{index}"] * (engines > 1), *axes])


def _mixed(queues: list[list[str]], random: Random) -> list[str]:
    """The lines of all, each queue's in its order."""
    order = [index for index, queue in enumerate(queues) for _ in queue]
    random.shuffle(order)
    waiting = [iter(queue) for queue in queues]
    return [next(waiting[index]) for index in order]


def docker_json(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-01-01T00:00:00.1Z"})


def coloured(line: str) -> str:
    """As vLLM colours a terminal: the process tag in cyan, the level in green."""
    tag, mark, rest = line.partition(") INFO ")
    return f"\x1b[0;36m{tag})\x1b[0;0m \x1b[32mINFO\x1b[0m {rest}" if mark and tag.startswith("(") else line


def inside(key: str) -> Callable[[str], str]:
    """As one of the string values of a JSON object, with others beside it."""
    return lambda line: json.dumps({"time": "2026-01-01T00:00:00Z", key: line, "severity": "INFO"})


# What is put before each physical line, also of a log that a terminal has cut already.
MARKS = {
    "quoted": lambda line: "> " + line,
    "indented": lambda line: "    " + line,
    "tabbed": lambda line: "\t" + line,
    "bulleted": lambda line: "- " + line,
    "bracketed times": lambda line: "[2026-11-20 08:00:00,123] " + line,
    "a scheduler's task": lambda line: "0: " + line,
    "found by grep": lambda line: "vllm.log:4711:" + line,
    "pod and container": lambda line: "vllm-0 › vllm │ " + line,
    "an editor's numbers": lambda line: f"{len(line):6}\t" + line,
}

TRANSPORTS = {
    "plain": lambda line: line,
    "windows line ends": lambda line: line + "\r",
    "compose": lambda line: "vllm-1  | " + line,
    "compose with times": lambda line: "vllm-1  | 2026-01-01T00:00:00.123456789Z " + line,
    "docker logs -t": lambda line: "2026-01-01T00:00:00.123456789Z " + line,
    "a viewer's times": lambda line: "2026-04-19 17:30:52.611 | " + line,
    "kubectl --prefix": lambda line: "[pod/vllm-5f7c9d8b6d-abcde/vllm] " + line,
    "container runtime": lambda line: "2026-01-01T00:00:00.123456789Z stderr F " + line,
    "journald": lambda line: "Aug 19 13:06:25 host-1 vllm[72671]: " + line,
    "docker json-file": docker_json,
    "terminal colours": coloured,
    "a cloud's text payload": inside("textPayload"),
    "a cloud's nested payload": lambda line: json.dumps({"insertId": "x", "jsonPayload": {"message": line}}),
    "loki": inside("line"),
    "journald as JSON": inside("MESSAGE"),
    "mpirun": lambda line: "[1,0]<stdout>:" + line,
    "supervisor": lambda line: "2026-08-19 13:06:25,123 DEBG 'vllm' stdout output: " + line,
    "journald to the microsecond": lambda line: "2026-08-19T13:06:25.123456+0200 host-1 python3[72671]: " + line,
    "kubectl --prefix --timestamps": lambda line: "[pod/vllm-0/vllm] 2026-01-01T00:00:00.123456789Z " + line,
    "a job's tag": lambda line: "(vllm-job, pid=1234, ip=10.0.0.2) " + line,
    "a replica's tag": lambda line: "(ServeReplica:app:VLLM pid=1234, ip=10.0.0.2) " + line,
    "a table": lambda line: "| " + line + " |",
    "in quotes": lambda line: '"' + line + '",',
    **MARKS,
}
