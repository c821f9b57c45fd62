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
