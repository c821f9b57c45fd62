"""Rules between the keys of one config class, which vLLM checks while it reads the flag.

Source: the validators and __post_init__ of the classes in vllm/config; KVCacheSpecKind in
vllm/v1/kv_cache_interface.py.
"""

from collections.abc import Callable, Mapping

from kvplan.serve.fields import FIELDS

Given = Mapping[str, object]
KINDS = (
    "full_attention mla_attention sliding_window sliding_window_mla mamba chunked_local_attention sink_full_attention "
    "encoder_only_attention cross_attention unknown"
)


def custom_ops_wrong(given: Given) -> bool:
    """Whether custom_ops breaks its little language."""
    listed = given.get("custom_ops")
    ops = [op for op in listed if isinstance(op, str)] if isinstance(listed, list) else []
    modes = [op for op in ops if op in ("all", "none")]
    named = [op for op in ops if op not in ("all", "none")]
    both = {op[1:] for op in named if op[:1] == "+"} & {op[1:] for op in named if op[:1] == "-"}
    return len(modes) > 1 or bool(both) or any(len(op) < 2 or op[0] not in "+-" for op in named)


def kinds_wrong(given: Given) -> bool:
    """Whether backend_per_kind has an unknown kind or backend."""
    chosen = given.get("backend_per_kind")
    if not isinstance(chosen, dict):
        return False
    backends = {name.lstrip("^") for name in FIELDS["AttentionConfig"]["backend"].split() if name[0] == "^"} - {"AUTO"}
    return any(
        kind not in KINDS.split() or not isinstance(backend, str) or backend.upper() not in backends
        for kind, backend in chosen.items()
    )


# class -> (the rule is broken, what to say). Only rules that vLLM checks while it reads the flag.
RULES: dict[str, tuple[tuple[Callable[[Given], object], str], ...]] = {
    "KVTransferConfig": (
        (lambda c: c.get("kv_connector") is not None and not c.get("kv_role"), "kv_connector needs kv_role"),
    ),
    "ECTransferConfig": (
        (lambda c: c.get("ec_connector") is not None and not c.get("ec_role"), "ec_connector needs ec_role"),
    ),
    "EPLBConfig": (
        (
            lambda c: c.get("use_async", True) and c.get("communicator") in ("torch_nccl", "pynccl"),
            "communicator torch_nccl or pynccl needs use_async false",
        ),
    ),
    "EncoderCacheManagerConfig": (
        (
            lambda c: c.get("manager_config") and c.get("encoder_cache_manager_cls") is None,
            "manager_config needs encoder_cache_manager_cls",
        ),
    ),
    "EngramConfig": (
        (lambda c: c.get("dp_shared_memory") and not c.get("cpu_offload", True), "dp_shared_memory needs cpu_offload"),
        (
            lambda c: c.get("use_thp") and (not c.get("cpu_offload", True) or c.get("dp_shared_memory")),
            "use_thp needs cpu_offload and no dp_shared_memory",
        ),
    ),
    "StructuredOutputsConfig": (
        (
            lambda c: c.get("disable_any_whitespace") and c.get("backend") not in ("xgrammar", "guidance"),
            "disable_any_whitespace needs backend xgrammar or guidance",
        ),
        (
            lambda c: c.get("disable_additional_properties") and c.get("backend") != "guidance",
            "disable_additional_properties needs backend guidance",
        ),
    ),
    "ProfilerConfig": (
        (
            lambda c: (c.get("profiler") == "torch") != bool(c.get("torch_profiler_dir")),
            "profiler torch and torch_profiler_dir go together",
        ),
        (
            lambda c: (c.get("profiler") == "proton") != bool(c.get("proton_profiler_dir")),
            "profiler proton and proton_profiler_dir go together",
        ),
        (
            lambda c: c.get("profiler") != "proton" and any(str(key).startswith("proton_") for key in c),
            "proton_ keys need profiler proton",
        ),
        (
            lambda c: c.get("profiler") != "torch" and c.get("capture_torch_profiler"),
            "capture_torch_profiler needs profiler torch",
        ),
    ),
    "CompilationConfig": (
        (custom_ops_wrong, "custom_ops takes all or none once, +op and -op, and no op both ways"),
        (
            lambda c: c.get("mode") in (3, "VLLM_COMPILE") and c.get("backend", "") not in ("", "eager", "inductor"),
            "mode VLLM_COMPILE needs backend eager or inductor",
        ),
    ),
    "AttentionConfig": ((kinds_wrong, "backend_per_kind takes kinds of KV cache, and a backend for each"),),
    "SpeculativeConfig": (
        (
            lambda c: c.get("tensor_parallel_size") is not None,
            "tensor_parallel_size is not for drafters: use draft_tensor_parallel_size",
        ),
    ),
}


def rules(class_name: str, given: Given) -> list[str]:
    """The rules between fields that the given keys break. Source: the validators in vllm/config."""
    return [sentence for broken, sentence in RULES.get(class_name, ()) if broken(given)]
