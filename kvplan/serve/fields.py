"""The config classes that vLLM 0.33.0 builds from JSON flags: written by scripts/make_serve_tables.py.

class -> {key: alternatives}, separated by blanks: int float bool str any none, with bounds (int>0); =word
and #number literals; ~word a literal in any case and with - for _; ^NAME an enum member by name,
in any case; @Class; []item a list; {}value an object.
"""

# Flags that the parser reads as plain JSON and vLLM turns into these classes afterwards.
LATER = {
    "speculative_config": "SpeculativeConfig",
    "watermark_config": "WatermarkConfig",
    "diffusion_config": "DiffusionConfig",
}
FIELDS: dict[str, dict[str, str]] = {
    "AttentionConfig": {
        "backend": (
            "^FLASH_ATTN ^FLASH_ATTN_DIFFKV ^TRITON_ATTN ^TRITON_ATTN_DIFFKV ^TRITON_FLASH_ATTN "
            "^ROCM_ATTN ^ROCM_SEGMENTED_ATTN ^ROCM_AITER_MLA ^ROCM_AITER_TRITON_MLA ^ROCM_AITER_FA "
            "^ROCM_AITER_MLA_SPARSE ^XPU_MLA_SPARSE ^TORCH_SDPA ^FLASHINFER ^TRITON_FLASHINFER "
            "^FLASHINFER_MLA ^TOKENSPEED_MLA ^FLASHINFER_MLA_SPARSE ^FLASHINFER_MLA_SPARSE_SM120 "
            "^FLASHINFER_MLA_SPARSE_SM90 ^TRITON_MLA ^CUTLASS_MLA ^FLASHMLA ^FLASHMLA_SPARSE "
            "^FLASHMLA_SPARSE_DSV4 ^FLASHINFER_MLA_SPARSE_DSV4 ^ROCM_FLASHMLA_SPARSE_DSV4 "
            "^FLASHMLA_SPARSE_DSV41 ^FLASHINFER_MLA_SPARSE_DSV41 ^ROCM_FLASHMLA_SPARSE_DSV41 "
            "^FLASHMLA_MEGA_ATTN_DSV41 ^B12X ^FLASH_ATTN_MLA ^FLASH_ATTN_MLA_SPARSE "
            "^FLASH_ATTN_MLA_SPARSE_FA4 ^MINIMAX_M3_SPARSE ^CUTLASS_MSA ^TRITON_MSA ^STEP5_DSA "
            "^NO_ATTENTION ^FLEX_ATTENTION ^HPC_ATTN ^ROCM_AITER_UNIFIED_ATTN ^CPU_ATTN ^CPU_MLA ^AMX_MLA "
            "^TURBOQUANT ^ROCM_OCTAVE ^ULTRAQUANT ^CUSTOM ^AUTO none"
        ),
        "minimax_m3_msa_decode_backend": "=triton =cutlass",
        "backend_per_kind": "{}any",
        "flash_attn_version": "#2 #3 #4 none",
        "flash_attn_max_num_splits_for_cuda_graph": "int",
        "tokenspeed_mla_min_split_kv": "int>=1<=256",
        "tq_max_kv_splits_for_cuda_graph": "int",
        "use_trtllm_attention": "bool none",
        "disable_flashinfer_q_quantization": "bool",
        "mla_prefill_backend": (
            "^FLASH_ATTN ^FLASHINFER ^TRTLLM_RAGGED ^TOKENSPEED_MLA ^ROCM_AITER_FA ^CPU ^ZEN_CPU ^CUSTOM none"
        ),
        "use_prefill_query_quantization": "bool",
        "trtllm_ragged_backend": "=trtllm-gen =cute-dsl",
        "indexer_kv_dtype": "=auto =bf16 =fp8 =mxfp4 =nvfp4 str",
        "indexer_sparse_logits": "bool",
        "indexer_tp_shard_min_rows": "int>=1",
        "minimax_m3_indexer_cp": "bool",
        "hisparse_config": "@HiSparseConfig none",
        "use_non_causal": "bool",
        "sparse_mla_force_mqa": "bool",
        "sparse_mla_prefill_workspace_factor": "int>=2 none",
        "flex_attn_block_m": "int none",
        "flex_attn_block_n": "int none",
        "flex_attn_q_block_size": "int none",
        "flex_attn_kv_block_size": "int none",
    },
    "AuxOutputConfig": {
        "enable_return_routed_experts": "bool",
        "max_bytes": "int>0 none",
    },
    "CompilationConfig": {
        "mode": "^NONE ^STOCK_TORCH_COMPILE ^DYNAMO_TRACE_ONCE ^VLLM_COMPILE none #0 #1 #2 #3",
        "debug_dump_path": "any none",
        "cache_dir": "str",
        "compile_cache_save_format": "=binary =unpacked",
        "backend": "str",
        "custom_ops": "[]str",
        "ir_enable_torch_wrap": "bool none",
        "splitting_ops": "[]str none",
        "compile_mm_encoder": "bool",
        "cudagraph_mm_encoder": "bool",
        "encoder_cudagraph_token_budgets": "[]int",
        "encoder_cudagraph_max_vision_items_per_batch": "int",
        "encoder_cudagraph_max_frames_per_batch": "int none",
        "cudagraph_decoder_replay": "bool",
        "decoder_replay_cudagraph_capture_sizes": "[]int",
        "decoder_replay_trim_threshold": "int>=0",
        "compile_sizes": "[]any none",
        "compile_ranges_endpoints": "[]int none",
        "inductor_compile_config": "{}any",
        "inductor_passes": "{}str",
        "cudagraph_mode": "^NONE ^PIECEWISE ^FULL ^FULL_DECODE_ONLY ^FULL_AND_PIECEWISE none #0 #1 #2",
        "cudagraph_num_of_warmups": "int",
        "cudagraph_capture_sizes": "[]int",
        "cudagraph_copy_inputs": "bool",
        "cudagraph_specialize_lora": "bool",
        "use_inductor_graph_partition": "bool none",
        "pass_config": "@PassConfig",
        "max_cudagraph_capture_size": "int none",
        "dynamic_shapes_config": "@DynamicShapesConfig",
        "fast_moe_cold_start": "bool none",
    },
    "DiffusionConfig": {
        "canvas_length": "int>0",
        "max_denoising_steps": "int none",
    },
    "DynamicShapesConfig": {
        "type": "=backed =unbacked =backed_size_oblivious",
        "evaluate_guards": "bool",
        "assume_32_bit_indexing": "bool",
    },
    "ECTransferConfig": {
        "ec_connector": "str none",
        "engine_id": "str none",
        "ec_buffer_device": "str none",
        "ec_buffer_size": "float",
        "ec_role": "=ec_producer =ec_both =ec_consumer none",
        "ec_ip": "str",
        "ec_port": "int",
        "ec_connector_extra_config": "{}any",
        "ec_connector_module_path": "str none",
    },
    "EPLBConfig": {
        "window_size": "int>0",
        "step_interval": "int>0",
        "num_redundant_experts": "int>=0",
        "log_balancedness": "bool",
        "log_balancedness_interval": "int>0",
        "use_async": "bool",
        "policy": "=default",
        "communicator": "=torch_nccl =torch_gloo =torch_xccl =nixl =pynccl none",
        "enable_migration_batching": "bool",
    },
    "EncoderCacheManagerConfig": {
        "encoder_cache_manager_cls": "str none",
        "manager_config": "{}any",
    },
    "EngramConfig": {
        "cpu_offload": "bool",
        "embedding_across_dp": "bool",
        "dp_shared_memory": "bool none",
        "use_thp": "bool",
    },
    "FaultToleranceConfig": {
        "engine_recovery_timeout_sec": "int",
    },
    "HiSparseConfig": {
        "device_buffer_size": "int>0 none",
        "eager_host_mirror": "bool",
    },
    "IrOpPriorityConfig": {
        "rms_norm": "[]str str",
        "fused_add_rms_norm": "[]str str",
        "gelu_and_mul_sparse": "[]str str",
    },
    "KVEventsConfig": {
        "enable_kv_cache_events": "bool",
        "publisher": "=null =zmq",
        "endpoint": "str",
        "replay_endpoint": "str none",
        "buffer_steps": "int",
        "hwm": "int",
        "max_queue_size": "int",
        "topic": "str",
    },
    "KVTransferConfig": {
        "kv_connector": "str none",
        "engine_id": "str none",
        "kv_buffer_device": "str",
        "kv_role": "=kv_producer =kv_both =kv_consumer none",
        "kv_port": "int",
        "kv_connector_extra_config": "{}any",
        "kv_connector_module_path": "str none",
        "enable_permute_local_kv": "bool",
        "kv_load_failure_policy": "=recompute =fail",
    },
    "KernelConfig": {
        "ir_op_priority": "@IrOpPriorityConfig",
        "enable_flashinfer_autotune": "bool none",
        "enable_rocm_segmented_attn_autotune": "bool",
        "enable_cutedsl_warmup": "bool none",
        "enable_jit_warmup": "bool none",
        "monokernel": "bool",
        "moe_backend": (
            "~auto ~triton ~batched_triton ~deep_gemm ~deep_gemm_mega_moe ~cutlass ~flashinfer_trtllm "
            "~flashinfer_cutlass ~flashinfer_cutedsl ~flashinfer_moe_ep_cutedsl ~flashinfer_b12x ~b12x "
            "~flashinfer_moe_ep_mega_deep_gemm ~marlin ~humming ~triton_unfused ~aiter ~aiter_mega_moe "
            "~aiter_triton_mxfp4_bf16 ~aiter_triton_mxfp4_mxfp4 ~flydsl ~hpc ~emulation ~rdna3"
        ),
        "sparse_indexer_topk_backend": "~auto ~deep_select ~cooperative ~persistent ~per_row ~flashinfer ~torch ~aiter",
        "linear_backend": (
            "~auto ~cutlass ~flashinfer_cutlass ~flashinfer_cutedsl ~flashinfer_trtllm ~flashinfer_cudnn "
            "~flashinfer_b12x ~b12x ~marlin ~humming ~triton ~deep_gemm ~torch ~aiter ~machete ~fbgemm "
            "~conch ~exllama ~emulation ~xpu ~xpu_woq"
        ),
        "linear_backend_per_quant": "{}any none",
    },
    "LoadConfig": {
        "load_format": "str",
        "download_dir": "str none",
        "safetensors_load_strategy": "=lazy =eager =prefetch =torchao none",
        "safetensors_prefetch_num_threads": "int>=1",
        "safetensors_prefetch_block_size": "int>=1",
        "model_loader_extra_config": "{}any any none",
        "device": "str none",
        "ignore_patterns": "[]str str",
        "use_tqdm_on_load": "bool",
        "pt_load_map_location": "str {}str",
    },
    "LoggingConfig": {
        "log_level": "=CRITICAL =ERROR =WARNING =INFO =DEBUG =NOTSET",
        "formatter": "=text =json",
        "configure_logging": "bool",
        "pylogging_config_file": "str none",
    },
    "PassConfig": {
        "fuse_norm_quant": "bool none",
        "fuse_act_quant": "bool none",
        "fuse_attn_quant": "bool none",
        "eliminate_noops": "bool",
        "fuse_allreduce_rms": "bool none",
        "enable_qk_norm_rope_fusion": "bool none",
        "fuse_rope_kvcache_cat_mla": "bool none",
        "fuse_act_padding": "bool none",
        "fuse_mla_dual_rms_norm": "bool none",
        "fuse_rope_kvcache": "bool none",
        "fuse_qk_norm_rope_kvcache": "bool none",
        "rope_kvcache_fusion_max_token_num": "int",
        "fi_allreduce_fusion_max_size_mb": "float none",
    },
    "PoolerConfig": {
        "task": "=embed =classify =token_embed =token_classify =plugin =embed&token_classify none",
        "pooling_type": "=CLS =LAST =MEAN =ALL =STEP none",
        "seq_pooling_type": "=CLS =LAST =MEAN none",
        "tok_pooling_type": "=ALL =STEP none",
        "use_activation": "bool none",
        "enable_flash_late_interaction": "bool",
        "dimensions": "int none",
        "enable_chunked_processing": "bool",
        "max_embed_len": "int none",
        "logit_mean": "float none",
        "logit_sigma": "float none",
        "step_tag_id": "int none",
        "returned_token_ids": "[]int none",
    },
    "ProfilerConfig": {
        "profiler": "=torch =cuda =proton none",
        "torch_profiler_dir": "str",
        "torch_profiler_activities": "[]any none",
        "proton_profiler_dir": "str",
        "proton_context": "=shadow =python",
        "proton_data": "=tree =trace",
        "proton_backend": "=cupti none",
        "proton_mode": "str none",
        "proton_hook": "=triton none",
        "proton_output_format": "=hatchet =hatchet_msgpack =chrome_trace none",
        "proton_graph_attribution": "bool",
        "torch_profiler_with_stack": "bool",
        "torch_profiler_with_flops": "bool",
        "torch_profiler_use_gzip": "bool",
        "torch_profiler_dump_cuda_time_total": "bool",
        "torch_profiler_record_shapes": "bool",
        "torch_profiler_with_memory": "bool",
        "capture_torch_profiler": "bool",
        "detailed_trace_annotation": "bool",
        "ignore_frontend": "bool",
        "delay_iterations": "int>=0",
        "max_iterations": "int>=0",
        "warmup_iterations": "int>=0",
        "active_iterations": "int>=1",
        "wait_iterations": "int>=0",
    },
    "QuantizationConfigArgs": {
        "linear": (
            "=fp8_per_tensor =fp8_per_block =fp8_per_channel =mxfp8 =mxfp4 =fp8_per_tensor_static "
            "=fp8_per_tensor_dynamic =fp8_per_token =fp8_per_channel_static =fp8_per_block_static "
            "=fp8_per_block_dynamic =nvfp4_per_token =int8_per_channel_static =int8_per_group_32 "
            "=int4_per_group_32 {}any none"
        ),
        "moe": (
            "=fp8_per_tensor =fp8_per_block =fp8_per_channel =mxfp8 =mxfp4 =int8_per_channel_weight_only "
            "=nvfp4_per_token =fp8_per_tensor_static =fp8_per_tensor_dynamic =fp8_per_token "
            "=fp8_per_channel_static =fp8_per_block_static =fp8_per_block_dynamic "
            "=int8_per_channel_static =int8_per_group_32 =int4_per_group_32 {}any none"
        ),
        "ignore": "[]str",
        "targets": "{}str none",
    },
    "ReasoningConfig": {
        "reasoning_parser": "str",
        "reasoning_start_str": "str",
        "reasoning_end_str": "str",
    },
    "SpeculativeConfig": {
        "enforce_eager": "bool none",
        "num_speculative_tokens": "int>0",
        "model": "str none",
        "method": (
            "=ngram =draft_model =suffix =custom_class =eagle =eagle3 =extract_hidden_states "
            "=deepseek_mtp =dots3_note_mtp =mimo_mtp =mimo_v2_mtp =glm4_moe_mtp =glm4_moe_lite_mtp "
            "=glm_ocr_mtp =ernie_mtp =nemotron_h_mtp =exaone_moe_mtp =exaone4_5_mtp =qwen3_next_mtp "
            "=qwen4_exp_mtp =qwen3_5_mtp =longcat_flash_mtp =bailing_hybrid_v3_mtp =minimax_m3_mtp "
            "=bailing_hybrid_mtp =mtp =kimi_k3_mtp =pangu_ultra_moe_mtp =step3p5_mtp =step5_mtp "
            "=hy_v3_mtp =hy_v4_mtp =gemma4_mtp =inkling_mtp =glm5_next_mtp =dflash =ngram_gpu =dspark "
            "none"
        ),
        "draft_tensor_parallel_size": "int>=1 none",
        "tensor_parallel_size": "int none",
        "quantization": (
            "=awq =auto_awq =fp8 =fbgemm_fp8 =fp_quant =modelopt =modelopt_fp4 =modelopt_mxfp8 "
            "=modelopt_mixed =auto_gptq =gptq =gptq_marlin =awq_marlin =humming =compressed-tensors "
            "=experts_int8 =quark =moe_wna16 =torchao =inc =mxfp4 =gpt_oss_mxfp4 =deepseek_v4_fp8 =online "
            "=fp8_per_tensor =fp8_per_block =fp8_per_channel =int8_per_channel_weight_only "
            "=nvfp4_per_token =mxfp8 str none"
        ),
        "moe_backend": (
            "=auto =triton =batched_triton =deep_gemm =deep_gemm_mega_moe =cutlass =flashinfer_trtllm "
            "=flashinfer_cutlass =flashinfer_cutedsl =flashinfer_moe_ep_cutedsl =flashinfer_b12x =b12x "
            "=flashinfer_moe_ep_mega_deep_gemm =marlin =humming =triton_unfused =aiter =aiter_mega_moe "
            "=aiter_triton_mxfp4_bf16 =aiter_triton_mxfp4_mxfp4 =flydsl =hpc =emulation =rdna3 none"
        ),
        "attention_backend": (
            "^FLASH_ATTN ^FLASH_ATTN_DIFFKV ^TRITON_ATTN ^TRITON_ATTN_DIFFKV ^TRITON_FLASH_ATTN "
            "^ROCM_ATTN ^ROCM_SEGMENTED_ATTN ^ROCM_AITER_MLA ^ROCM_AITER_TRITON_MLA ^ROCM_AITER_FA "
            "^ROCM_AITER_MLA_SPARSE ^XPU_MLA_SPARSE ^TORCH_SDPA ^FLASHINFER ^TRITON_FLASHINFER "
            "^FLASHINFER_MLA ^TOKENSPEED_MLA ^FLASHINFER_MLA_SPARSE ^FLASHINFER_MLA_SPARSE_SM120 "
            "^FLASHINFER_MLA_SPARSE_SM90 ^TRITON_MLA ^CUTLASS_MLA ^FLASHMLA ^FLASHMLA_SPARSE "
            "^FLASHMLA_SPARSE_DSV4 ^FLASHINFER_MLA_SPARSE_DSV4 ^ROCM_FLASHMLA_SPARSE_DSV4 "
            "^FLASHMLA_SPARSE_DSV41 ^FLASHINFER_MLA_SPARSE_DSV41 ^ROCM_FLASHMLA_SPARSE_DSV41 "
            "^FLASHMLA_MEGA_ATTN_DSV41 ^B12X ^FLASH_ATTN_MLA ^FLASH_ATTN_MLA_SPARSE "
            "^FLASH_ATTN_MLA_SPARSE_FA4 ^MINIMAX_M3_SPARSE ^CUTLASS_MSA ^TRITON_MSA ^STEP5_DSA "
            "^NO_ATTENTION ^FLEX_ATTENTION ^HPC_ATTN ^ROCM_AITER_UNIFIED_ATTN ^CPU_ATTN ^CPU_MLA ^AMX_MLA "
            "^TURBOQUANT ^ROCM_OCTAVE ^ULTRAQUANT ^CUSTOM ^AUTO none"
        ),
        "kv_cache_dtype": (
            "=auto =float16 =bfloat16 =fp8 =fp8_e4m3 =fp8_e5m2 =fp8_inc =fp8_ds_mla =nvfp4_ds_mla "
            "=turboquant_k8v4 =turboquant_4bit_nc =turboquant_k3v4_nc =turboquant_3bit_nc =octave_k3v4 "
            "=octave_k3v3 =octave_k3v3_compact =ultraquant_4bit =int4_per_token_head =int8_per_token_head "
            "=fp8_per_token_head =nvfp4 =nvfp4_4over6 str none"
        ),
        "max_model_len": "int>=1 none",
        "revision": "str none",
        "code_revision": "str none",
        "index_share_for_mtp_iteration": "bool none",
        "disable_padded_drafter_batch": "bool",
        "disable_eagle_block_drop": "bool",
        "disable_lookahead_block_hashes": "bool",
        "draft_lm_head_quantization": "=fp8 =nvfp4 none",
        "use_local_argmax_reduction": "bool",
        "use_heterogeneous_vocab": "bool",
        "prompt_lookup_max": "int>=1 none",
        "prompt_lookup_min": "int>=1 none",
        "parallel_drafting": "bool",
        "num_speculative_tokens_per_batch_size": "[]any none",
        "draft_model_config": "any",
        "suffix_decoding_max_tree_depth": "int",
        "suffix_decoding_max_cached_requests": "int",
        "suffix_decoding_max_spec_factor": "float",
        "suffix_decoding_min_token_prob": "float",
        "draft_load_config": "@LoadConfig none",
        "rejection_sample_method": "=standard =synthetic =block =fly",
        "synthetic_acceptance_rates": "[]float none",
        "synthetic_acceptance_length": "float none",
        "enable_adaptive_verification": "bool",
        "draft_sample_method": "=greedy =probabilistic",
        "dspark_draft_topk": "int>=1 none",
        "xpress_topc": "int>=0 none",
        "fly_window_size": "int>=1 none",
        "fly_entropy_threshold": "float>=0",
        "fly_entropy_top_k": "int>=1",
    },
    "StructuredOutputsConfig": {
        "backend": "=auto =xgrammar =guidance =outlines =lm-format-enforcer",
        "disable_any_whitespace": "bool",
        "disable_additional_properties": "bool",
        "reasoning_parser": "str",
        "reasoning_parser_plugin": "str",
        "enable_in_reasoning": "bool",
    },
    "WatchdogConfig": {
        "timeout": "int>0",
        "check_interval": "int>0",
        "dump_dir": "str",
    },
    "WatermarkConfig": {
        "key": "int>=0",
        "algorithm": "=gumbel =dual_key_gumbel",
        "alpha": "float>=0<=1",
        "context_width": "int>=1",
        "deduplicate_contexts": "=none =single_turn =all",
        "deduplicate_contexts_max_history": "int>=1 none",
        "prf": "=philox",
        "allow_target_only_watermarking": "bool",
    },
    "WeightTransferConfig": {
        "backend": "=nccl =ipc =sparse_nccl =sharded_rdt =nccl_m2n str",
    },
    "EngineArgs": {
        "max_model_len": "int>=-1",
        "max_logprobs": "int>=-1",
        "block_size": "int>0",
        "prefix_match_unit": "int>0 none",
        "gpu_memory_utilization": "float>0<=1",
        "prefix_cache_retention_interval": "int>=0 none",
        "mamba_block_size": "int>0 none",
        "replayssm_buffer_len": "int>0",
        "pipeline_parallel_size": "int>=1",
        "tensor_parallel_size": "int>=1",
        "prefill_context_parallel_size": "int>=1",
        "data_parallel_size": "int>=1",
        "data_parallel_size_local": "int>=0",
        "data_parallel_rank": "int>=0",
        "data_parallel_rpc_port": "int>=1<=65535",
        "dp_sync_interval": "int>=1",
        "max_parallel_loading_workers": "int>=1 none",
        "elastic_ep_max_dp_size": "int>=1",
        "ubatch_size": "int>=0",
        "dbo_decode_token_threshold": "int>=0",
        "dbo_prefill_token_threshold": "int>=0",
        "node_rank": "int>=0",
        "nnodes": "int>=1",
        "decode_context_parallel_size": "int>=1",
        "max_num_batched_tokens": "int>=1",
        "max_num_scheduled_tokens": "int>=1 none",
        "max_num_seqs": "int>=1",
        "max_num_active_seqs": "int>=1 none",
        "long_prefill_token_threshold": "int>=0",
        "max_num_queued_reqs": "int>=0 none",
        "max_num_queued_tokens": "int>=0 none",
        "watermark": "float>=0.0<1.0",
        "prefill_schedule_interval": "int>=1",
        "stream_interval": "int>=1",
        "cpu_offload_gb": "float>=0",
        "offload_group_size": "int>=0",
        "offload_num_in_group": "int>=1",
        "offload_prefetch_step": "int>=0",
        "kv_cache_metrics_sample": "float>0<=1",
        "safetensors_prefetch_num_threads": "int>=1",
        "safetensors_prefetch_block_size": "int>=1",
        "kv_cache_dtype": (
            "=auto =float16 =bfloat16 =fp8 =fp8_e4m3 =fp8_e5m2 =fp8_inc =fp8_ds_mla =nvfp4_ds_mla "
            "=turboquant_k8v4 =turboquant_4bit_nc =turboquant_k3v4_nc =turboquant_3bit_nc =octave_k3v4 "
            "=octave_k3v3 =octave_k3v3_compact =ultraquant_4bit =int4_per_token_head =int8_per_token_head "
            "=fp8_per_token_head =nvfp4 =nvfp4_4over6"
        ),
        "quantization": (
            "=awq =auto_awq =fp8 =fbgemm_fp8 =fp_quant =modelopt =modelopt_fp4 =modelopt_mxfp8 "
            "=modelopt_mixed =auto_gptq =gptq =gptq_marlin =awq_marlin =humming =compressed-tensors "
            "=experts_int8 =quark =moe_wna16 =torchao =inc =mxfp4 =gpt_oss_mxfp4 =deepseek_v4_fp8 =online "
            "=fp8_per_tensor =fp8_per_block =fp8_per_channel =int8_per_channel_weight_only "
            "=nvfp4_per_token =mxfp8 none"
        ),
        "mamba_backend": "^TRITON ^FLASHINFER ^CPU",
    },
}
