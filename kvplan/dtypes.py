"""Element types of caches and states, under torch's names without the ``torch.`` prefix."""

SIZES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "int64": 8,
    "float64": 8,
}


def size_of(dtype: str) -> int:
    """Bytes of one element of ``dtype``. KeyError for a name that is not in SIZES."""
    return SIZES[dtype]


# KV cache dtypes as flag values, by element type (vllm/utils/torch_utils.py, STR_DTYPE_TO_TORCH_DTYPE).
_CACHE_ELEMENTS = {
    "half": "float16",
    "float": "float32",
    "int8": "int8",
    "int8_per_token_head": "int8",
    "fp8_inc": "float8_e4m3fn",
}
_BYTE_FORMATS = ("fp8", "int4_per_token_head", "nvfp4", "turboquant_", "octave_", "ultraquant_")


def cache_element(cache_dtype: str, model_dtype: str) -> str:
    """The element type of a KV cache dtype: ``auto`` is the model dtype, packed formats are bytes.

    KeyError for a name that vLLM does not know.
    """
    if cache_dtype == "auto":
        return model_dtype
    if cache_dtype in _CACHE_ELEMENTS:
        return _CACHE_ELEMENTS[cache_dtype]
    if cache_dtype.startswith(_BYTE_FORMATS):
        return "uint8"
    if cache_dtype in SIZES:
        return cache_dtype
    raise KeyError(cache_dtype)
