"""Stand-ins for what only exists beside CUDA: kernel packages, compiled extensions and their operators.

None of them is ever computed with: a planner only builds models. A stand-in must import, subclass, decorate, compare
and answer attribute questions, and no more.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any

PACKAGES = (
    "flashinfer",
    "flashinfer_cubin",
    "flashinfer_jit_cache",
    "deep_gemm",
    "flash_mla",
    "tokenspeed_mla",
    "cutlass",
    "quack",
    "humming",
    "cuda",
    "cudnn",
    "tilelang",
    "arctic_inference",
)
"""Import names of packages that vLLM's CUDA wheel requires, or whose kernels its images carry."""

EXTENSIONS = (
    "vllm._C_stable_libtorch",
    "vllm._moe_C_stable_libtorch",
    "vllm._qutlass_C",
    "vllm._flashmla_C",
    "vllm._flashmla_extension_C",
    "vllm._flashkda_C",
    "vllm._deepselect_C",
    "vllm.cumem_allocator",
    "vllm.fs_io_C",
    "vllm.spinloop",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
)
"""Compiled modules of the wheel: they link against CUDA libraries."""

OPERATOR_NAMESPACES = (
    "_C",
    "_moe_C",
    "_C_cache_ops",
    "_C_custom_ar",
    "_qutlass_C",
    "_flashmla_C",
    "_flashmla_extension_C",
    "_flashkda_C",
    "_deepselect_C",
    "_vllm_fa2_C",
    "_vllm_fa3_C",
)

# Facts of flashinfer 0.7.2 that vLLM asks for: parameters, and the query heads and top-k that SM120 kernels take.
_KEYWORDS = {"BatchMLAPagedAttentionWrapper.run": ("ckv_scale_arr", "kpe_scale_arr")}


class _Sm120Shapes:
    """The (query heads, top-k) of DeepSeek-V4's decode kernels: any top-k, up to 128 heads."""

    def __contains__(self, shape: tuple[int, int]) -> bool:
        heads, top_k = shape
        return 1 <= heads <= 128 and top_k >= 1


_VALUES = {"_DECODE_DSV4_DISPATCH": _Sm120Shapes()}


def _arithmetic(cls: type) -> type:
    """Every operator gives another stand-in; as a number a stand-in is 0."""
    names = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "or", "xor"]
    for name in names + [f"r{name}" for name in names] + ["neg", "pos", "invert", "getitem"]:
        setattr(cls, f"__{name}__", lambda self, *operands: StandIn())
    for name, answer in {"lt": (0).__lt__, "le": (0).__le__, "gt": (0).__gt__, "ge": (0).__ge__}.items():
        setattr(cls, f"__{name}__", lambda self, other, answer=answer: answer(other) is True)
    return cls


class _StandInType(type):
    """Classes stand in for every symbol of an absent package: they can be derived from, called and written in types."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        member = _symbol(f"{cls.__name__}.{name}")
        setattr(cls, name, member)
        return member

    def __iter__(cls) -> Any:
        return iter(())


_arithmetic(_StandInType)


@_arithmetic
class StandIn(metaclass=_StandInType):
    """A value, class, function or decorator of an absent package."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == 1 and inspect.isroutine(args[0]):
            return args[0]  # used as a decorator
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        decorates = not kwargs and len(args) == 1 and (inspect.isroutine(args[0]) or inspect.isclass(args[0]))
        return args[0] if decorates else StandIn()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()

    def __iter__(self) -> Any:
        return iter(())

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *exception: Any) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    __index__ = __int__

    def __float__(self) -> float:
        return 0.0


def _symbol(name: str) -> Any:
    """A stand-in for one name, with the parameters that vLLM looks for."""
    if name in _VALUES:
        return _VALUES[name]
    last_two = ".".join(name.split(".")[-2:])
    if last_two in _KEYWORDS:
        parameters = ", ".join(f"{keyword}=None" for keyword in _KEYWORDS[last_two])
        made: dict[str, Any] = {}
        exec(f"def run(self, *args, {parameters}, **kwargs): return None", made)
        return made["run"]
    return _StandInType(name.rpartition(".")[2], (StandIn,), {})


class _Module(types.ModuleType):
    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__ = spec
        self.__path__: list[str] = []
        self.__version__ = "99"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        symbol = sys.modules.get(f"{self.__name__}.{name}") or _symbol(name)
        setattr(self, name, symbol)
        return symbol


class _Importer:
    """Imports any module of the packages that stand-ins are made for."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = frozenset(packages)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in EXTENSIONS or name.partition(".")[0] in self.packages:
            return ModuleSpec(name, self, is_package=name not in EXTENSIONS)
        return None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return _Module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _pinned_versions(distribution: str) -> dict[str, str]:
    """The exact versions that a distribution requires, by name."""
    found = {}
    for requirement in importlib.metadata.requires(distribution) or ():
        match = re.match(r"([\w.-]+)(?:\[[^]]*])?\s*==\s*([\w.]+)", requirement)
        if match:
            found[match[1].lower()] = match[2]
    return found


def _pretend_versions() -> None:
    """Packages that are not installed report the version that vLLM requires of them."""
    pinned = _pinned_versions("vllm")
    for companion in ("flashinfer-cubin", "flashinfer-jit-cache"):
        pinned.setdefault(companion, pinned.get("flashinfer-python", "0"))
    real = importlib.metadata.version

    def version(name: str) -> str:
        try:
            return real(name)
        except importlib.metadata.PackageNotFoundError:
            if name.lower() in pinned:
                return pinned[name.lower()]
            raise

    importlib.metadata.version = version


def _define_vision_operators() -> None:
    """torchvision declares shapes for operators of its compiled part, which does not load beside a CPU-only torch."""
    import torch

    if not _is_installed("torchvision") or hasattr(torch.ops.torchvision, "nms"):
        return
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def install(packages: str | None = None) -> None:
    """Make absent packages and every compiled extension importable. Call before vLLM is imported.

    ``packages`` is a directory with further packages, of which torchvision's compiled part need not load.
    """
    if packages is not None:
        sys.path.append(packages)
    _define_vision_operators()
    absent = [package for package in PACKAGES if not _is_installed(package)]
    sys.meta_path.insert(0, _Importer(absent))
    _pretend_versions()


def install_operators(capability: int) -> None:
    """Let compiled operators be found, and those that tell what a GPU can do answer for ``capability`` (100: 10.0).

    Call after `vllm._custom_ops` was imported: it registers shapes for the operators that it finds.
    """
    import torch
    from torch._ops import _OpNamespace

    class Operators(_OpNamespace):
        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("__"):
                    raise
                return StandIn()

    for name in OPERATOR_NAMESPACES:
        setattr(torch.ops, name, Operators(name))
    probes = {
        "cutlass_scaled_mm_supports_fp8": 89,
        "cutlass_scaled_mm_supports_block_fp8": 90,
        "cutlass_group_gemm_supported": 90,
        "cutlass_scaled_mm_supports_fp4": 100,
        "mxfp4_experts_quant_supported": 100,
    }
    for name, minimum in probes.items():
        setattr(torch.ops._C, name, lambda asked=capability, minimum=minimum: asked >= minimum)


class _NoWords:
    """A tokenizer whose vocabulary is empty: a checkpoint's own is not there."""

    def get_vocab(self) -> dict[str, int]:
        return {}


def install_tokenizer() -> None:
    """Give InternVL's processor, which looks for a word while options are read, a tokenizer without words.

    Other processors that ask for one are told that there is none, and vLLM goes on.
    """
    from vllm.multimodal.processing.context import InputProcessingContext

    given = InputProcessingContext.get_tokenizer

    def get_tokenizer(self: Any) -> Any:
        return _NoWords() if self.model_config.hf_config.model_type == "internvl_chat" else given(self)

    InputProcessingContext.get_tokenizer = get_tokenizer
