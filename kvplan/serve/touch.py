"""What each flag and environment variable does to the KV cache: planned, neutral, refused or ignored.

- planned: decides groups, pages, blocks, or the memory that is left for them; the planner takes it.
- neutral: an engine option that is worth showing and changes none of these, as the reason says.
- refused: may change them in a way that kvplan does not model, unless it has one of the harmless values.
- ignored: the server around the engine, loading, logging, kernels and communication; listed, not shown.

Every flag of vLLM's parser is in exactly one of the four; a test holds that. To move a flag, move its line.
"""

from typing import NamedTuple

PLANNED = {
    "dtype": "page bytes of an unquantised cache",
    "quantization": "weights, and the KV scheme that comes with a checkpoint",
    "tensor_parallel_size": "heads of a rank",
    "pipeline_parallel_size": "layers of a rank, batches in flight",
    "prefill_context_parallel_size": "sharding of the cache",
    "decode_context_parallel_size": "sharding of the cache",
    "data_parallel_size": "defaults of the batch sizes (engine/arg_utils.py)",
    "enable_expert_parallel": "weights of a rank, defaults of the batch sizes",
    "all2all_backend": "the low-latency ones change defaults of the batch sizes under data parallelism",
    "enable_dbo": "chooses the model runner, hence batches in flight",
    "ubatch_size": "as enable_dbo",
    "enable_batch_sharded_sampling": "chooses the model runner",
    "distributed_executor_backend": "async scheduling, hence batches in flight",
    "performance_mode": "throughput doubles the default batch sizes",
    "block_size": "tokens of a block",
    "kv_cache_dtype": "page bytes",
    "kv_cache_dtype_skip_layers": "page bytes of the skipped layers",
    "mamba_cache_dtype": "state bytes",
    "mamba_ssm_cache_dtype": "state bytes",
    "mamba_block_size": "tokens of a state block",
    "mamba_cache_mode": "deprecated without effect: the mode follows prefix caching",
    "enable_prefix_caching": "state blocks of a request",
    "prefix_match_unit": "tokens at which a hit can land; must divide the block sizes",
    "enable_chunked_prefill": "defaults of the batch sizes",
    "max_model_len": "blocks of a request",
    "max_num_seqs": "state blocks, the estimate of activations",
    "max_num_active_seqs": "requests that run at once",
    "max_num_batched_tokens": "tokens in flight",
    "max_num_scheduled_tokens": "tokens in flight with a drafter",
    "long_prefill_token_threshold": "checked against the model length",
    "async_scheduling": "batches in flight",
    "attention_backend": "kernel blocks, layouts",
    "attention_config": "backend by kind, kernel versions, indexer cache",
    "gdn_prefill_backend": "kernel blocks of the state layers",
    "kda_prefill_backend": "whether a request holds a prefill checkpoint of its states",
    "speculative_config": "drafter layers, state columns",
    "spec_method": "as speculative_config",
    "spec_model": "as speculative_config",
    "spec_tokens": "as speculative_config",
    "hf_overrides": "any field of the model's config",
    "kv_transfer_config": "layout preference, hybrid manager",
    "kv_offloading_size": "adds a connector (config/vllm.py)",
    "kv_offloading_backend": "which connector kv_offloading_size adds",
    "disable_hybrid_kv_cache_manager": "turns window layers into full ones",
    "disable_sliding_window": "turns window layers into full ones and cuts the model length",
    "num_gpu_blocks_override": "number of blocks",
    "kv_sharing_fast_prefill": "rules out drafters that read hidden states",
    "mm_encoder_tp_mode": "whether the vision tower must divide by the ranks",
    "kv_cache_memory_bytes": "the budget",
    "gpu_memory_utilization": "the budget",
    "enforce_eager": "memory of CUDA graphs",
    "compilation_config": "memory of CUDA graphs, by its modes and sizes",
    "cudagraph_capture_sizes": "memory of CUDA graphs",
    "max_cudagraph_capture_size": "memory of CUDA graphs",
    "optimization_level": "memory of CUDA graphs: 0 captures none, 1 no full ones",
    "language_model_only": "drops the encoders: weights, batch defaults",
    "limit_mm_per_prompt": "encoder inputs, batch defaults",
    "enable_mm_embeds": "encoder inputs, batch defaults",
    "enable_lora": "checked against the batch with a drafter; adapter memory",
}

NEUTRAL = {
    "prefix_caching_hash_algo": "names of blocks, not their size",
    "prefix_cache_retention_interval": "which cached blocks are kept while memory lasts",
    "enable_mamba_shared_prefix_checkpoint": "which cached blocks are kept while memory lasts",
    "replayssm_buffer_len": "read only with use_replayssm",
    "mamba_backend": "kernel of the state update",
    "mamba_ssu_algorithm": "kernel of the state update",
    "enable_mamba_cache_stochastic_rounding": "how states are rounded when written",
    "mamba_cache_philox_rounds": "how states are rounded when written",
    "dcp_comm_backend": "communication",
    "dcp_q_replicate": "queries, not the cache",
    "data_parallel_size_local": "which ranks are on this machine",
    "enable_eplb": "copies of experts: weights only",
    "eplb_config": "copies of experts: weights only",
    "enable_elastic_ep": "placement of experts: weights only",
    "dbo_decode_token_threshold": "when batches overlap",
    "dbo_prefill_token_threshold": "when batches overlap",
    "scheduler_reserve_full_isl": "when a request is let in",
    "watermark": "when a request is let in",
    "disable_chunked_mm_input": "how an image is scheduled",
    "long_prefill_token_threshold_adaptive": "how prompts are cut",
    "kv_events_config": "reports of cache events",
    "ec_manager_config": "cache of encoder outputs, which is not the KV cache",
    "enable_sleep_mode": "an allocator that can be emptied",
    "enable_cumem_allocator": "an allocator that can be emptied",
    "cpu_offload_gb": "weights only",
    "cpu_offload_params": "weights only",
    "offload_backend": "weights only",
    "offload_group_size": "weights only",
    "offload_num_in_group": "weights only",
    "offload_prefetch_step": "weights only",
    "offload_params": "weights only",
    "quantization_config": "weights only",
    "max_loras": "adapter memory only",
    "max_lora_rank": "adapter memory only",
    "max_cpu_loras": "adapter memory only",
    "lora_dtype": "adapter memory only",
    "fully_sharded_loras": "adapter memory only",
    "lora_target_modules": "adapter memory only",
    "default_mm_loras": "adapter memory only",
    "enable_tower_connector_lora": "adapter memory only",
    "mm_processor_kwargs": "size of encoder inputs; memory while they run",
    "mm_encoder_attn_backend": "encoder layers have no cache",
    "mm_ipc_gpu_memory_gb": "memory of encoder inputs",
    "skip_mm_profiling": "memory of encoder inputs in the estimate",
    "video_pruning_rate": "size of encoder inputs",
}

# flag -> (harmless values, why any other is refused)
REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "runner": (("auto", "generate"), "pooling models cache differently"),
    "convert": (("auto", "none"), "pooling models cache differently"),
    "pooler_config": ((None,), "pooling models cache differently"),
    "config_format": (("auto", "hf"), "another config file decides the layers"),
    "hf_config_path": ((None,), "another config file decides the layers"),
    "revision": ((None, "main"), "another config file may decide the layers; give a local directory instead"),
    "model_impl": (("auto", "vllm"), "another model class decides the layers"),
    "model_class_overrides": (({}, None), "another model class decides the layers"),
    "scheduler_cls": ((None,), "another scheduler hands out the blocks"),
    "worker_cls": (("auto",), "another worker measures and binds the cache"),
    "additional_config": (({}, None), "models and plug-ins read it freely"),
    "use_replayssm": ((False, None), "a replay history joins every state"),
    "swa_bounded_replay": ((True, None), "window caches of DeepSeek-V4.1 change their kind"),
    "dcp_kv_cache_interleave_size": ((1, None), "block sizes must follow the interleaving"),
    "cp_kv_cache_interleave_size": ((1, None), "block sizes must follow the interleaving"),
    "mm_encoder_only": ((False, None), "the engine has no language model"),
    "ec_transfer_config": ((None,), "an encoder instance has no cache"),
    "engram_config": ((None, {}), "a further memory table"),
    "diffusion_config": ((None,), "diffusion models schedule differently"),
    "watermark_config": ((None,), "forces another model runner"),
    "kda_decode_backend": ((None, "auto"), "kernel blocks of the state layers"),
}

# Why a flag is ignored -> the flags.
IGNORED = {
    "read before anything else": "help config model",
    "HTTP server": (
        "headless api_server_count grpc lora_modules chat_template chat_template_content_format "
        "trust_request_chat_template trust_request_mm_kwargs default_chat_template_kwargs reasoning_effort_map "
        "response_role return_tokens_as_token_ids enable_auto_tool_choice exclude_tools_when_tool_choice_none "
        "tool_call_parser tool_parser_plugin tool_strict_level tool_server max_log_len enable_prompt_tokens_details "
        "enable_per_request_metrics enable_server_load_tracking enable_force_include_usage sse_keep_alive_interval "
        "enable_tokenizer_info_endpoint enable_log_outputs enable_log_deltas cohere_is_reasoning_model cohere_format "
        "anthropic_disabled_thinking_effort log_error_stack tokens_only enable_scale_out fingerprint_mode "
        "fingerprint_value host port grpc_port data_parallel_supervisor_port dp_supervisor_probe_interval_s "
        "dp_supervisor_probe_timeout_s dp_supervisor_probe_failure_threshold uds uvicorn_log_level "
        "disable_uvicorn_access_log disable_access_log_for_endpoints allow_credentials allowed_origins "
        "allowed_methods allowed_headers api_key ssl_keyfile ssl_certfile ssl_ca_certs enable_ssl_refresh "
        "ssl_cert_reqs ssl_ciphers root_path middleware enable_request_id_headers disable_fastapi_docs "
        "h11_max_incomplete_event_size h11_max_header_count enable_offline_docs enable_flash_late_interaction "
        "enable_log_requests served_model_name shutdown_timeout max_num_queued_reqs max_num_queued_tokens "
        "renderer_num_workers io_processor_plugin reasoning_parser reasoning_parser_plugin generation_config "
        "override_generation_config"
    ),
    "tokenizer and media": (
        "tokenizer tokenizer_mode tokenizer_revision skip_tokenizer_init allowed_local_media_path "
        "allowed_media_domains media_io_kwargs interleave_mm_strings mm_processor_cache_gb mm_processor_cache_type "
        "mm_hasher_algorithm mm_shm_cache_max_object_size_mb mm_tensor_ipc mm_processor_device "
        "mm_device_do_normalize mm_encoder_attn_dtype mm_encoder_fp8_scale_path mm_encoder_fp8_scale_save_path "
        "mm_encoder_fp8_scale_save_margin video_pruning_method enable_prompt_embeds"
    ),
    "loading of weights": (
        "load_format download_dir safetensors_load_strategy safetensors_prefetch_num_threads "
        "safetensors_prefetch_block_size model_loader_extra_config ignore_patterns use_tqdm_on_load "
        "pt_load_map_location trust_remote_code code_revision hf_token allow_deprecated_quantization "
        "max_parallel_loading_workers weight_transfer_config sleep_mode_backend sleep_mode_offload_cudagraph "
        "sleep_preserve_parameter_names enable_ep_weight_filter"
    ),
    "sampling and outputs": (
        "seed max_logprobs logprobs_mode use_fp64_gumbel logits_processors enable_return_routed_experts "
        "return_sampling_mask aux_output_config structured_outputs_config reasoning_config enable_trace_replay "
        "stream_interval"
    ),
    "order of requests": "scheduling_policy prefill_schedule_interval",
    "processes, machines and communication": (
        "master_addr master_port nnodes node_rank distributed_timeout_seconds cpu_distributed_timeout_seconds "
        "numa_bind numa_bind_nodes numa_bind_cpus device_ids data_parallel_rank data_parallel_start_rank "
        "data_parallel_address data_parallel_rpc_port data_parallel_backend data_parallel_hybrid_lb "
        "data_parallel_external_lb data_parallel_multi_port_external_lb elastic_ep_max_dp_size dp_sync_interval "
        "disable_nccl_for_dp_synchronization expert_placement_strategy ray_workers_use_nsight "
        "disable_custom_all_reduce enable_shm_tensor_arena enable_nccl_comm_suspend enable_fault_tolerance "
        "fault_tolerance_config worker_extension_cls watchdog_config"
    ),
    "kernels": (
        "moe_backend linear_backend sparse_indexer_topk_backend kernel_config ir_op_priority "
        "enable_flashinfer_autotune monokernel enable_hc_sp disable_cascade_attn specialize_active_lora "
        "enable_mixed_moe_lora_format enable_moe_shared_loras max_lora_cls_labels"
    ),
    "logs and measurements": (
        "logging_config log_level log_config_file show_hidden_metrics_for_version otlp_traces_endpoint "
        "collect_detailed_traces per_request_spec_decode_metrics kv_cache_metrics kv_cache_metrics_sample "
        "custom_histogram_buckets cudagraph_metrics enable_layerwise_nvtx_tracing enable_mfu_metrics "
        "enable_logging_iteration_details jit_monitor_mode jit_monitor_verbose disable_log_stats "
        "aggregate_engine_logging fail_on_environ_validation profiler_config"
    ),
}

ENV_PLANNED = {
    "VLLM_KV_CACHE_LAYOUT": "the layout",
    "VLLM_SSM_CONV_STATE_LAYOUT": "order of a conv state's axes",
    "VLLM_USE_V2_MODEL_RUNNER": "batches in flight",
    "VLLM_PP_LAYER_PARTITION": "layers of a rank",
    "VLLM_BATCH_INVARIANT": "choice of the attention backend",
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": "turns chunked layers into full ones",
    "VLLM_USE_SIMPLE_KV_OFFLOAD": "which connector kv_offloading_size adds",
    "VLLM_USE_BREAKABLE_CUDAGRAPH": "memory of CUDA graphs, by their mode",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "lets max_model_len exceed the model's own",
}
ENV_NEUTRAL = {
    "VLLM_CPU_KVCACHE_SPACE": "the budget of CPU servers; a GPU server does not read it",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "memory of CUDA graphs in the estimate",
    "VLLM_ENABLE_STARTUP_PLAN": "keeps the estimate for the next start",
    "VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT": "order inside a page on ROCm",
    # Gone: vLLM 0.33.0 does not read these.
    "VLLM_ATTENTION_BACKEND": "gone: use --attention-backend",
    "VLLM_USE_V1": "gone: there is one engine",
    "VLLM_PREFIX_CACHE_RETENTION_INTERVAL": "gone: use --prefix-cache-retention-interval",
    "VLLM_FLASH_ATTN_VERSION": "gone: use --attention-config with the key flash_attn_version",
    "VLLM_USE_TRTLLM_ATTENTION": "gone: use --attention-config with the key use_trtllm_attention",
    "VLLM_V1_USE_PREFILL_DECODE_ATTENTION": "gone: use --attention-backend",
    "VLLM_FLASHINFER_FORCE_TENSOR_CORES": "gone",
}
# variable -> (harmless values, why any other is refused)
ENV_REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "VLLM_MLA_DISABLE": (("", "0"), "latent attention becomes ordinary attention"),
}


class Touch(NamedTuple):
    """What an option does to the cache."""

    kind: str  # planned, neutral, refused or ignored
    why: str


def touch_of(dest: str, value: object = None) -> Touch:
    """What a flag does with this value; a flag that no table names counts as refused."""
    if dest in PLANNED:
        return Touch("planned", PLANNED[dest])
    if dest in NEUTRAL:
        return Touch("neutral", NEUTRAL[dest])
    for why, names in IGNORED.items():
        if dest in names.split():
            return Touch("ignored", why)
    harmless, why = REFUSED.get(dest, ((), "kvplan does not know it"))
    return Touch("neutral" if value in harmless else "refused", why)


def touch_of_env(name: str, value: str) -> Touch:
    """What an environment variable does with this value."""
    if name in ENV_PLANNED:
        return Touch("planned", ENV_PLANNED[name])
    if name in ENV_NEUTRAL:
        return Touch("neutral", ENV_NEUTRAL[name])
    if name in ENV_REFUSED:
        harmless, why = ENV_REFUSED[name]
        return Touch("neutral" if value in harmless else "refused", why)
    return Touch("ignored", "does not touch the KV cache")
