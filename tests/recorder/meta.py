"""Tensors without memory: everything that vLLM would put on a GPU goes to PyTorch's meta device."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("meta")
LOAD_FORMAT = "meta"
_LARGE_HOST_TABLE = 2**27


def _moved(value: Any) -> Any:
    """``value``, or the meta device in place of a CUDA one."""
    if isinstance(value, str) and value.startswith("cuda"):
        return DEVICE
    if isinstance(value, torch.device) and value.type == "cuda":
        return DEVICE
    return value


def _elements(args: tuple[Any, ...]) -> int:
    sizes = args[0] if args and isinstance(args[0], (tuple, list)) else args
    return math.prod(size for size in sizes if isinstance(size, int)) if args else 0


class _ToMeta(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0].to(DEVICE)
        if name == "item" and args[0].device == DEVICE:
            return 1.0 if args[0].is_floating_point() else 1
        if name == "cpu" and args[0].device == DEVICE:  # a constant that a module copies from its buffers
            return torch.zeros(args[0].shape, dtype=args[0].dtype, device="cpu")
        if name == "tolist" and args[0].device == DEVICE:
            return torch.zeros(args[0].shape, device="cpu").tolist()
        if "device" in kwargs:
            asked = kwargs["device"]
            kwargs["device"] = DEVICE if isinstance(asked, int) else _moved(asked)
            large = name in ("empty", "zeros") and _elements(args) > _LARGE_HOST_TABLE
            if large and kwargs["device"] is not None:
                kwargs["device"] = DEVICE
        elif name in ("to", "_parse_to"):
            args = tuple(_moved(value) for value in args)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return function(*args, **kwargs)


@contextlib.contextmanager
def on_meta() -> Iterator[None]:
    """Inside, no tensor takes memory, wherever it was meant to live."""
    with DEVICE, _ToMeta():
        yield


def register_loader() -> None:
    """Add LOAD_FORMAT to vLLM's model loaders: it builds a model and loads nothing into it."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader
    from vllm.utils.torch_utils import set_default_torch_dtype

    @register_model_loader(LOAD_FORMAT)
    class MetaLoader(BaseModelLoader):
        def download_model(self, model_config: Any) -> None:
            pass

        def load_weights(self, model: Any, model_config: Any) -> None:
            pass

        def load_model(self, vllm_config: Any, model_config: Any, prefix: str = "") -> Any:
            with set_default_torch_dtype(model_config.dtype), on_meta():
                return self.create_model(vllm_config, model_config, prefix)
