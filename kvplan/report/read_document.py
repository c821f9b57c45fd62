"""Reads a saved JSON document back as one side of a comparison. It is untrusted: every value is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.comparison import Deployment
from kvplan.errors import KvplanError
from kvplan.hf.config import Config
from kvplan.report.document import SCHEMA_VERSION
from kvplan.result import CATEGORIES, DrafterInfo, Group, Padding, Plan, RequestCost
from kvplan.spec import MAMBA, AttentionSpec, CacheLayer, MultipleOf, Spec, StateSpec

_BYTES = 2**62


_REMEDY = "save it again with `kvplan plan ... --format json -o FILE`."


def read_document(data: Any, where: str) -> Deployment:
    """The deployment of a document that `to_document` wrote; ``where`` names the file in errors.

    Raises KvplanError for anything else, naming the key.
    """
    if not isinstance(data, Mapping):
        raise KvplanError(f"{where}: not a kvplan document; {_REMEDY}")
    try:
        return _deployment(Config(data, where), where)
    except KvplanError as error:
        raise KvplanError(f"{str(error).rstrip('.')}; {_REMEDY}") from None


def _deployment(document: Config, where: str) -> Deployment:
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise document.error("schema_version", f"is {version!r}, and this kvplan reads {SCHEMA_VERSION}")
    layers = {layer.name: layer for layer in map(_layer, _objects(document, "layers"))}
    plans = _section(document, "plans")
    found = {name: _plan(_section(plans, name), layers) for name in plans.keys()}  # noqa: SIM118
    selected = document.text("selected")
    if selected not in found:
        raise document.error("selected", f"must be one of the plans {', '.join(found)}, got {selected!r}")
    return Deployment(
        engine=document.text("engine"),
        model=_section(document, "model").text("id"),
        drafter=_drafter(document.section("drafter")),
        options=_options(_section(document, "options")),
        layers=layers,
        layout=_section(document, "layout").text("name"),
        selected=selected,
        plans=found,
        assumed=tuple(document.texts("assumed", ())),
        name=where,
    )


_NUMBERS = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "prefill_context_parallel_size",
    "decode_context_parallel_size",
    "max_in_flight_tokens",
    "block_size",
)
"""Options that reports reckon with."""


def _options(section: Config) -> dict[str, Any]:
    for key in _NUMBERS:
        section.optional_integer(key, minimum=0)
    if section.get("gpu") is not None:
        section.text("gpu")
    return dict(section.data)


def _section(config: Config, key: str) -> Config:
    found = config.section(key)
    if found is None:
        raise config.error(key, "is missing")
    return found


def _objects(config: Config, key: str) -> list[Config]:
    out = []
    for i, item in enumerate(config.sequence(key)):
        if not isinstance(item, Mapping):
            raise config.error(f"{key}[{i}]", "must be a JSON object")
        out.append(Config(item, f"{config.where}: {key}[{i}]"))
    return out


def _drafter(section: Config | None) -> DrafterInfo | None:
    if section is None:
        return None
    return DrafterInfo(
        id=section.text("id"),
        source=section.text("source"),
        architecture=section.optional_text("architecture"),
        method=section.text("method"),
        num_speculative_tokens=section.integer("num_speculative_tokens"),
    )


def _layer(item: Config) -> CacheLayer:
    spec = _state(item) if item.text("kind") == MAMBA else _attention(item)
    sizes = tuple(_kernel_size(item, i, size) for i, size in enumerate(item.sequence("kernel_block_sizes")))
    return CacheLayer(item.text("name"), item.text("owner"), spec, item.text("backend"), sizes)


def _kernel_size(item: Config, i: int, size: Any) -> int | MultipleOf:
    if isinstance(size, Mapping):
        return MultipleOf(Config(size, f"{item.where}: kernel_block_sizes[{i}]").integer("multiple_of"))
    return Config({"size": size}, f"{item.where}: kernel_block_sizes[{i}]").integer("size")


def _state(item: Config) -> StateSpec:
    shapes = []
    for i, shape in enumerate(item.sequence("state_shapes")):
        shapes.append(tuple(Config({"shape": shape}, f"{item.where}: state_shapes[{i}]").integers("shape")))
    return StateSpec(
        shapes=tuple(shapes),
        dtypes=tuple(item.texts("state_dtypes")),
        block_size=item.integer("block_size"),
        page_size_padded=item.integer("page_size_bytes", maximum=_BYTES),
        mamba_type=item.text("backend"),
        num_speculative_blocks=item.integer("num_speculative_blocks", minimum=0),
    )


def _attention(item: Config) -> AttentionSpec:
    unpadded, page = (item.integer(key, maximum=_BYTES) for key in ("unpadded_page_size_bytes", "page_size_bytes"))
    tokens = item.number("tokens_per_state")
    if tokens <= 0:
        raise item.error("tokens_per_state", "must be positive")
    spec = AttentionSpec(
        kind=item.text("kind"),
        block_size=item.integer("block_size"),
        num_kv_heads=item.integer("num_kv_heads"),
        head_size=item.integer("head_size"),
        head_size_v=item.integer("head_size_v", minimum=0),
        dtype=item.text("dtype"),
        tokens_per_state=int(tokens) if tokens.is_integer() else 1,
        sliding_window=item.optional_integer("sliding_window", minimum=0),
        attention_chunk_size=item.optional_integer("attention_chunk_size", minimum=0),
    )
    content = unpadded // max(1, spec.num_heads * spec.num_states)
    return spec._replace(state_content_bytes=content, page_size_padded=None if page == unpadded else page)


def _plan(item: Config, layers: Mapping[str, CacheLayer]) -> Plan:
    block = item.optional_integer("bytes_per_block", maximum=_BYTES)
    layout = item.text("layout")
    concurrency = item.get("max_concurrency")
    return Plan(
        layout=layout,
        error=item.optional_text("error"),
        group_size=item.optional_integer("group_size"),
        groups=tuple(_group(group, layers, layout, block or 0) for group in _objects(item, "groups")),
        bytes_per_block=block,
        num_blocks=item.optional_integer("num_blocks", minimum=0, maximum=_BYTES),
        blocks_per_request=item.optional_integer("blocks_per_request", minimum=0, maximum=_BYTES),
        kv_cache_size_tokens=item.optional_integer("kv_cache_size_tokens", minimum=0, maximum=_BYTES),
        max_concurrency=None if concurrency is None else item.number("max_concurrency", minimum=0),
        max_model_len=item.optional_integer("max_model_len"),
        longest_model_len=item.optional_integer("longest_model_len", minimum=0),
        padding=_padding(item.section("padding")),
        request_cost=_cost(item.section("request_cost"), item.section("request_cost_parts")),
        notes=tuple(item.texts("notes", ())),
    )


def _group(item: Config, layers: Mapping[str, CacheLayer], layout: str, block: int) -> Group:
    names = tuple(item.texts("layers"))
    unknown = next((name for name in names if name not in layers), None)
    if unknown is not None or not names:
        raise item.error("layers", f"names {unknown!r}, which is not among the document's layers")
    size, page = item.integer("block_size"), item.integer("page_size_bytes", maximum=_BYTES)
    padding_pages = item.integer("padding_pages", minimum=0, maximum=_BYTES)
    pages = len(names) + padding_pages
    specs: tuple[Spec, ...] = tuple(layers[name].spec for name in names)
    if block // pages >= page:  # one page for all, where pages differ it is their sum
        specs = tuple(_brought_to(spec, item.text("kind"), size, page) for spec in specs)
    blocks = item.integer("blocks_per_request", minimum=0, maximum=_BYTES)
    fitted = item.optional_integer("fitted_blocks_per_request", minimum=0, maximum=_BYTES)
    used = sum(spec.page_size_bytes for spec in specs)
    empty = max(0, block - used) if layout.startswith("B") else block // pages * padding_pages
    return Group(
        layers=names,
        spec=specs[0],
        layer_specs=specs,
        kind=item.text("kind"),
        owner=item.text("owner"),
        block_size=size,
        page_size_bytes=page,
        blocks_per_request=blocks if fitted is None else fitted,
        blocks_before_auto_fit=None if fitted is None else blocks,
        padding_pages=padding_pages,
        padding_bytes=empty,
        kernel_block_size=item.optional_integer("kernel_block_size"),
    )


def _brought_to(spec: Spec, kind: str, block_size: int, page: int) -> Spec:
    """A layer's spec in a group whose layers have one page: more tokens to a block, or padding."""
    if isinstance(spec, StateSpec):
        return spec._replace(page_size_padded=page)
    larger = spec._replace(kind=kind, block_size=block_size, page_size_padded=None)
    return larger if larger.page_size_bytes == page else larger._replace(page_size_padded=page)


def _padding(item: Config | None) -> Padding | None:
    if item is None:
        return None
    return Padding(
        growing_bytes_per_token=item.number("growing_bytes_per_token", minimum=0, maximum=_BYTES),
        growing_fraction=item.number("growing_fraction", minimum=0),
        bounded_bytes_per_request=item.integer("bounded_bytes_per_request", minimum=0, maximum=_BYTES),
        page_rounding_bytes_per_request=item.integer("page_rounding_bytes_per_request", minimum=0, maximum=_BYTES),
    )


def _cost(item: Config | None, parts: Config | None) -> RequestCost | None:
    if item is None:
        return None
    section = _section(item, "at_max_model_len")
    keys = dict.fromkeys([*CATEGORIES, *section.keys()])
    return RequestCost(
        fixed_bytes=item.number("fixed_bytes", minimum=0, maximum=_BYTES),
        bytes_per_token=item.number("bytes_per_token", minimum=0, maximum=_BYTES),
        at_max_model_len={key: section.integer(key, 0, minimum=0, maximum=_BYTES) for key in keys if key in section},
        parts={} if parts is None else {key: parts.integer(key, minimum=0, maximum=_BYTES) for key in parts.keys()},  # noqa: SIM118
    )
