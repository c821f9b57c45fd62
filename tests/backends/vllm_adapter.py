"""An installed vLLM as the other side of a comparison: its own backend and layout code, told which GPU it runs on.

No GPU is needed. What the machine lacks (compiled kernels, CUDA-only packages) is replaced by stand-ins that import;
they are never called, because only declarations and planning code run.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import inspect
import os
import sys
import types
import warnings
from types import SimpleNamespace
from typing import Any, ClassVar

CUDA_ONLY = ("cuda", "cudnn", "cutlass", "deep_gemm", "flash_mla", "flashinfer", "humming", "quack", "tilelang")
CUDA_ONLY += ("flashinfer_cubin", "tokenspeed_mla", "torchvision")
COMPILED = ("_C_stable_libtorch", "_moe_C_stable_libtorch", "_flashmla_C", "_flashmla_extension_C", "cumem_allocator")
COMPILED += ("vllm_flash_attn._vllm_fa2_C", "vllm_flash_attn._vllm_fa3_C", "third_party.deep_gemm")
PROBES = {
    "_C": ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8", "cutlass_group_gemm_supported"),
    "_flashmla_C": ("fused_norm_rope_attn_rope_cast_decode", "permute_q_b_proj"),
}
"""Compiled operators whose presence or answer vLLM asks for while it imports or validates."""

gpu = SimpleNamespace(capability=(9, 0))
"""The GPU that vLLM is told of; set its capability before a question."""


class _StandIn(type):
    """A class that stands for anything: its attributes are such classes, calling it decorates or returns itself."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(name, (), {})

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else cls

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())


class _Module(types.ModuleType):
    __path__: ClassVar[list[str]] = []
    __version__ = "99.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        stand_in = _StandIn(name, (), {})
        setattr(self, name, stand_in)
        return stand_in


class _Finder:
    """Imports the missing packages as modules whose every attribute is a class."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self.roots = roots

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if any(name == root or name.startswith(f"{root}.") for root in self.roots):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _TritonUtils:
    """What Triton asks the driver of a GPU."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 232448, "max_num_regs": 65536, "multiprocessor_count": 132, "warpSize": 32}

    def __getattr__(self, name: str) -> Any:
        return None


def _answer_for_cuda(cuda: Any) -> None:
    """What modules ask torch.cuda for while they are imported."""
    properties = SimpleNamespace(multi_processor_count=132, total_memory=80 * 10**9, name="GPU", major=9, minor=0)
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.get_device_capability = lambda *args: gpu.capability
    cuda.get_device_name = lambda *args: "GPU"
    cuda.get_device_properties = lambda *args: properties
    cuda.Stream = cuda.Event = _StandIn("Stream", (), {})


def _wheel_signature(self: Any, *args: Any, ckv_scale_arr: Any = None, **kwargs: Any) -> None:
    """FlashInfer 0.7's, by which vLLM finds that it serves Hopper's sparse MLA."""


def install() -> Any:
    """vLLM's CUDA platform class, on this machine. Idempotent; takes some seconds the first time."""
    for name, value in {"VLLM_HAS_FLASHINFER_CUBIN": "1", "VLLM_PLUGINS": "", "VLLM_LOGGING_LEVEL": "ERROR"}.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _install()


def _install() -> Any:
    import torch
    import torch._dynamo

    torch.version.cuda = "13.0"
    for namespace, names in PROBES.items():
        for name in names:
            setattr(getattr(torch.ops, namespace), name, lambda *args: True)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        missing = tuple(name for name in CUDA_ONLY if importlib.util.find_spec(name) is None)
        missing += tuple(f"vllm.{name}" for name in COMPILED)
        sys.meta_path.insert(0, _Finder(missing))
        if "flashinfer" in missing:
            import flashinfer.mla

            wrapper = type("BatchMLAPagedAttentionWrapper", (), {"run": _wheel_signature})
            flashinfer.mla.BatchMLAPagedAttentionWrapper = wrapper
    from triton.backends import backends as triton_backends

    if not torch.cuda.is_available():
        import triton.backends.nvidia.driver as triton_driver

        triton_backends["nvidia"].driver.is_active = staticmethod(lambda: True)
        triton_driver.CudaUtils = _TritonUtils
        _answer_for_cuda(torch.cuda)
    import vllm.platforms as platforms
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    class Platform(cuda.CudaPlatformBase):
        device_name = "cuda"

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:
            return DeviceCapability(*gpu.capability)

        @classmethod
        def num_compute_units(cls, device_id: int = 0) -> int:
            return 132

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:
            return "GPU"

    if not isinstance(platforms._current_platform, cuda.CudaPlatformBase):
        platforms._current_platform = Platform()
        platforms.current_platform = platforms._current_platform
    return Platform


def load(path: str) -> Any:
    """The class at a dotted path, whatever its module does to a GPU at import."""
    import torch
    from torch.overrides import TorchFunctionMode

    class OnMeta(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if "cuda" in str(kwargs.get("device", "")):
                kwargs["device"] = "meta"
            return func(*args, **kwargs)

    module, _, name = path.rpartition(".")
    with OnMeta(), torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(importlib.import_module(module), name)


def set_config(config: Any) -> None:
    """The current VllmConfig of vLLM, whose backends read it."""
    module = sys.modules["vllm.config.vllm"]
    module._current_vllm_config = config


def clear_caches() -> None:
    """Forget what vLLM remembers of the GPU and the environment between two questions."""
    import vllm.utils.flashinfer as flashinfer

    for value in vars(flashinfer).values():
        if callable(clear := getattr(value, "cache_clear", None)) and inspect.isroutine(
            getattr(value, "__wrapped__", None)
        ):
            clear()


def config_of(env: Any) -> Any:
    """A VllmConfig with what a `BackendEnv` says, and nothing else."""
    names = ["qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank", "index_topk", "index_kpool"]
    text = SimpleNamespace(**{n: getattr(env, n) for n in names if getattr(env, n) is not None})
    if env.has_logits_soft_cap:
        text.attn_logit_softcapping = 30.0
    model = SimpleNamespace(
        hf_text_config=text,
        get_head_size=lambda: env.head_size,
        get_num_attention_heads=lambda parallel: env.num_attention_heads,
        get_num_kv_heads=lambda parallel: env.num_kv_heads,
        is_diffusion=env.is_diffusion,
        is_mm_prefix_lm=env.is_mm_prefix_lm,
        rswa_window=128 if env.has_rswa else None,
        use_mla=env.kv_lora_rank is not None,
        max_model_len=4096,
    )
    return SimpleNamespace(
        model_config=model,
        cache_config=SimpleNamespace(cache_dtype=env.cache_dtype, use_replayssm=env.use_replayssm),
        parallel_config=SimpleNamespace(
            decode_context_parallel_size=env.decode_context_parallel_size,
            prefill_context_parallel_size=env.prefill_context_parallel_size,
        ),
        attention_config=SimpleNamespace(
            flash_attn_version=env.flash_attn_version,
            use_trtllm_attention=env.use_trtllm_attention,
            hisparse_config=None,
        ),
    )


def spec_of(spec: Any) -> Any:
    """vLLM's spec of a kvplan spec. Kinds: full_attention, sliding_window, mla, circular_buffer, mamba."""
    import torch
    from vllm.v1 import kv_cache_interface as kv
    from vllm.v1.attention.backend import MultipleOf

    if spec.kind == "mamba":
        dtypes = tuple(getattr(torch, name) for name in spec.dtypes)
        return kv.MambaSpec(
            block_size=spec.block_size, shapes=spec.shapes, dtypes=dtypes, page_size_padded=spec.page_size_padded
        )
    cls = {
        "full_attention": kv.FullAttentionSpec,
        "sliding_window": kv.SlidingWindowSpec,
        "mla": kv.MLAAttentionSpec,
        "circular_buffer": kv.CircularBufferSpec,
    }[spec.kind]
    fields = inspect.signature(cls).parameters
    values = {name: value for name, value in spec._asdict().items() if name in fields}
    values["dtype"] = getattr(torch, spec.dtype)
    values["kv_quant_mode"] = kv.KVQuantMode[spec.kv_quant_mode.upper()]
    alignment = spec.block_stride_alignment
    values["block_stride_alignment"] = MultipleOf(alignment.base) if hasattr(alignment, "base") else alignment
    values.pop("cache_role", None)
    return cls(**values)


def plain(value: Any) -> Any:
    """Kernel sizes, layouts and spec fields as comparable plain values."""
    if type(value).__name__ == "MultipleOf":
        return ("multiple of", value.base)
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    return getattr(value, "name", value)
