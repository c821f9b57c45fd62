"""The configs that kvplan ships: small JSON files with the published numbers that the KV cache depends on.

The file of owner/name is model_configs/owner__name.json. Its key ``kvplan`` says where the numbers come from and what
else is known of the checkpoint (``tensor_bytes``, further ``files``), and what of it the file ``lacks``
(``quantization``: the checkpoint is quantised, and how is not known here; ``params.json``: vLLM reads that file of the
repository before its config.json, and the config here is the latter). The rest is the config, under its own names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from kvplan.errors import KvplanError
from kvplan.sources.jsonfile import read_object, split_facts
from kvplan.sources.source import BUNDLED, Source

_LACKS = {
    "quantization": (
        "{where}: this copy of the config lacks the checkpoint's quantisation, so the plan is that of a checkpoint "
        "without one; --kv-cache-dtype auto takes an FP8 cache where the checkpoint has a scheme for it: give the "
        "dtype, or a local directory with the model's files."
    ),
    "params.json": (
        "{where}: vLLM reads the repository's params.json before its config.json, which alone is bundled; the plan is "
        "that of --config-format hf."
    ),
}
"""What a bundled file lacks -> what the user of its plan should know."""


@cache
def folder() -> str:
    """The directory of the bundled files: inside the package when installed, beside it in a checkout."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    inside = os.path.join(package, "model_configs")
    return inside if os.path.isdir(inside) else os.path.join(os.path.dirname(package), "model_configs")


@cache
def ids() -> tuple[str, ...]:
    """Every bundled id, sorted without regard to case."""
    try:
        names = os.listdir(folder())
    except OSError:
        return ()
    return tuple(sorted((n[:-5].replace("__", "/", 1) for n in names if n.endswith(".json")), key=str.lower))


def find(name: str) -> Source | None:
    """The bundled config of an id, without regard to case, or of a unique last part of one; None where there is none.

    KvplanError where several ids end in the name.
    """
    id = _match(name)
    if id is None:
        return None
    where = f"{id} (bundled)"
    config, facts = split_facts(read_object(os.path.join(folder(), id.replace("/", "__") + ".json"), where))
    files: Mapping[str, Any] = facts.get("files", {})
    notes = tuple(_LACKS[what].format(where=where) for what in facts.get("lacks", ()) if what in _LACKS)
    return Source(id, BUNDLED, config, where, read_file=files.get, names=files.keys, facts=facts, notes=notes)


def _match(name: str) -> str | None:
    wanted = name.lower()
    whole = [id for id in ids() if id.lower() == wanted]
    found = whole or [id for id in ids() if id.rpartition("/")[2].lower() == wanted]
    if len(found) > 1:
        raise KvplanError(f"{name}: names several bundled models ({', '.join(found)}); give the whole id.")
    return found[0] if found else None
