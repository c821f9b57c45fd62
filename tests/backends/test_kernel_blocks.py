"""Kernel blocks: their size per group, dense and packed addressing, and caches that cannot be bound."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import Refused
from kvplan.kernel_blocks import (
    KernelBlocks,
    Strides,
    in_words,
    kernel_blocks,
    placements,
    select_common_block_size,
    strides,
    takes,
)
from kvplan.layout import LAYOUTS
from kvplan.result import Group, Plan
from kvplan.spec import AttentionSpec, CacheLayer, MultipleOf, Spec, StateSpec

FULL = AttentionSpec("full_attention", 256, 8, 128, 128, "bfloat16")
FLASHINFER = (16, 32, 64)
FLASH = (MultipleOf(16),)
sizes = st.lists(
    st.sampled_from((16, 32, 64, 128, 256)) | st.sampled_from((1, 16, 32, 48, 64)).map(MultipleOf),
    min_size=1,
    max_size=4,
)


def layer(name: str, spec: Spec, backend: str = "FLASHINFER", kernel: tuple[object, ...] = FLASHINFER) -> CacheLayer:
    return CacheLayer(name, "target", spec, backend, kernel)  # type: ignore[arg-type]


def group(*layers: CacheLayer) -> Group:
    specs = tuple(one.spec for one in layers)
    page = specs[0].page_size_bytes if len(set(specs)) == 1 else sum(spec.page_size_bytes for spec in specs)
    names = tuple(one.name for one in layers)
    return Group(names, specs[0], specs, specs[0].kind, "target", specs[0].block_size, page, 1)


def plan(layout: str, bytes_per_block: int, *groups: Group) -> Plan:
    nothing = (None,) * 7
    return Plan(layout, None, None, groups, bytes_per_block, 8, *nothing)


def bind(layout: str, bytes_per_block: int, *groups: list[CacheLayer]) -> KernelBlocks:
    layers = [one for members in groups for one in members]
    return kernel_blocks(plan(layout, bytes_per_block, *(group(*members) for members in groups)), layers)


def test_a_block_that_every_backend_takes_is_its_own_kernel_block() -> None:
    assert select_common_block_size(640, [("TRITON_ATTN", FLASH)]) == 640
    assert select_common_block_size(64, [("FLASHINFER", FLASHINFER), ("FLASH_ATTN", FLASH)]) == 64


def test_else_the_largest_explicit_size_that_divides_it() -> None:
    assert select_common_block_size(256, [("FLASHINFER", FLASHINFER), ("FLASH_ATTN", FLASH)]) == 64
    assert select_common_block_size(2176, [("DEEPSEEK_V32_INDEXER", (128, 256))]) == 128
    assert select_common_block_size(96, [("FLASHINFER", FLASHINFER)]) == 32


def test_no_common_size_is_refused_with_what_each_takes() -> None:
    with pytest.raises(Refused) as error:
        select_common_block_size(80, [("CUTLASS_MLA", (128,)), ("FLASH_ATTN", FLASH)])
    assert str(error.value) == (
        "no kernel block divides blocks of 80 tokens for every attention backend of the group (CUTLASS_MLA takes 128; "
        "FLASH_ATTN takes multiples of 16); set another --block-size or --attention-backend."
    )


def test_sizes_in_words() -> None:
    assert in_words((16, 32, MultipleOf(64))) == "16, 32 or multiples of 64"
    assert in_words((64,)) == "64"


@given(st.sampled_from((16, 64, 96, 256, 640, 2176)), st.lists(sizes, min_size=1, max_size=3))
def test_the_common_size_divides_the_block_and_suits_all(block_size: int, declared: list[list[object]]) -> None:
    named = [(f"B{i}", tuple(one)) for i, one in enumerate(declared)]
    try:
        found = select_common_block_size(block_size, named)  # type: ignore[arg-type]
    except Refused:
        return
    assert block_size % found == 0
    assert all(takes(one, found) for _, one in named)  # type: ignore[arg-type]


def test_strides_follow_the_physical_order() -> None:
    spec = AttentionSpec("full_attention", 16, 4, 64, 64, "bfloat16")  # content 256 bytes
    assert strides(spec, 3, "LBHNC", 10) == Strides(163_840, 16_384, 4_096, 256, 1)
    assert strides(spec, 3, "LBNHC", 10) == Strides(163_840, 16_384, 256, 1_024, 1)
    assert strides(spec, 3, "BLHNC", 10) == Strides(16_384, 49_152, 4_096, 256, 1)
    assert strides(spec, 3, "BHLNC", 10) == Strides(4_096, 49_152, 12_288, 256, 1)
    assert strides(spec, 3, "LHBNC", 10) == Strides(163_840, 4_096, 40_960, 256, 1)


@given(st.sampled_from(LAYOUTS), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4))
def test_every_byte_of_the_pool_has_one_address(layout: str, layers: int, blocks: int, heads: int) -> None:
    spec = AttentionSpec("full_attention", 16, heads, 2, 2, "uint8")
    at = strides(spec, layers, layout, blocks)
    starts = {
        la * at.layer + b * at.block + h * at.head + n * at.state
        for la in range(layers)
        for b in range(blocks)
        for h in range(heads)
        for n in range(16)
    }
    assert starts == set(range(0, layers * blocks * heads * 16 * 4, 4))


def test_qwen3_8b_with_eagle3_splits_256_into_64s_on_hopper_and_runs_whole_on_blackwell() -> None:
    on_h200 = bind("LBHNC", 36 * FULL.page_size_bytes, [layer("a", FULL), layer("b", FULL)])
    (found,) = on_h200.attention_groups
    assert (on_h200.group_sizes, found.mode, found.stride, found.page_bytes) == ((64,), "dense", 4, 262_144)
    assert found.table((0, 3)) == (0, 1, 2, 3, 12, 13, 14, 15)
    pages = (16, 32, 64, 128, 256, 512, 1024)
    on_b200 = bind("LBHNC", 36 * FULL.page_size_bytes, [layer("a", FULL, kernel=pages)])
    assert (on_b200.group_sizes, on_b200.attention_groups[0].mode) == ((256,), "whole")


def test_glm_4_7_flash_with_mtp_splits_256_into_64s() -> None:
    latent = AttentionSpec("mla", 256, 1, 576, 0, "bfloat16", block_stride_alignment=MultipleOf(64))
    found = bind("LBNHC", 48 * latent.page_size_bytes, [layer("a", latent, "FLASHINFER_MLA", (32, 64))])
    assert (found.group_sizes, found.cache_views) == ((64,), "ok")
    assert found.attention_groups[0].kernel_blocks_per_block == 4


GLM_INDEXER = AttentionSpec("mla", 2176, 1, 132, 0, "uint8", tokens_per_state=4)
GLM_LATENT = AttentionSpec("mla", 2176, 1, 512, 0, "bfloat16", block_stride_alignment=1024)


def test_glm_5_3_flash_maps_its_indexer_to_seventeen_kernel_pages_of_a_packed_block() -> None:
    # Page of 128 tokens: 32 states of 132 bytes.
    layers = [
        layer("indexer", GLM_INDEXER, "DEEPSEEK_V32_INDEXER", (128, 256)),
        layer("latent", GLM_LATENT, "FLASHINFER_MLA_SPARSE_SM90", (MultipleOf(64),)),
    ]
    block_stride = 4_224 * 1_000
    found = bind("BLHNC", block_stride, layers)
    assert found.group_sizes == (2176,)
    indexer, latent = found.attention_groups
    assert (indexer.mode, indexer.kernel_block_size, indexer.kernel_blocks_per_block) == ("packed", 128, 17)
    assert (indexer.page_bytes, indexer.stride) == (4_224, 1_000)
    assert indexer.table((2,)) == tuple(range(2_000, 2_017))
    assert (latent.mode, latent.kernel_blocks_per_block, latent.stride) == ("whole", 1, 1)
    assert found.cache_views == "ok"


def test_a_compressed_cache_between_uneven_blocks_cannot_be_mapped() -> None:
    found = bind(
        "BLHNC",
        4_224 * 1_000 + 4,
        [
            layer("indexer", GLM_INDEXER, "DEEPSEEK_V32_INDEXER", (128, 256)),
            layer("latent", GLM_LATENT, "FLASHINFER_MLA_SPARSE_SM90", (MultipleOf(64),)),
        ],
    )
    assert "DEEPSEEK_V32_INDEXER reads kernel blocks of 128 tokens" in found.cache_views


def test_packed_token_caches_cannot_be_split() -> None:
    spec = AttentionSpec("full_attention", 1088, 2, 256, 256, "bfloat16")
    state = StateSpec(((2_000_000,),), ("bfloat16",), 1088, page_size_padded=spec.page_size_bytes)
    found = bind("BLHNC", 2 * spec.page_size_bytes, [layer("a", spec), layer("b", spec)], [layer("m", state)])
    assert found.cache_views == (
        "FLASHINFER reads kernel blocks of 64 tokens, into which packed KV cache blocks of 1088 tokens cannot be split "
        "(a); set an --attention-backend that takes the block whole, or VLLM_KV_CACHE_LAYOUT to a layout with "
        "layers outermost."
    )
    assert found.group_sizes == (1088, 1088)


def test_padded_pages_cannot_be_split() -> None:
    padded = FULL._replace(page_size_padded=FULL.page_size_bytes + 512)
    found = bind("LBHNC", 8 * padded.page_size_bytes, [layer("a", padded)])
    assert found.cache_views.startswith(
        "KV cache layout LBHNC keeps blocks of 1,049,088 bytes for pages of 1,048,576, so "
    )
    same = FULL._replace(page_size_padded=FULL.page_size_bytes)
    assert bind("LBHNC", 8 * same.page_size_bytes, [layer("a", same)]).cache_views.startswith("padded KV cache pages ")


def test_a_state_runs_its_whole_block() -> None:
    state = StateSpec(((64, 64),), ("bfloat16",), 528)
    found = bind("LBNHC", state.page_size_bytes, [layer("m", state, "GDN_ATTN", (MultipleOf(1),))])
    assert (found.group_sizes, found.attention_groups, found.cache_views) == ((528,), (), "ok")


def test_one_packed_layer_with_nothing_beside_it_is_split_like_a_dense_one() -> None:
    found = bind("BLHNC", FULL.page_size_bytes, [layer("a", FULL)])
    assert (found.group_sizes, found.attention_groups[0].mode) == ((64,), "dense")


def test_pages_lie_side_by_side_in_a_packed_block_and_in_regions_of_a_dense_pool() -> None:
    small = AttentionSpec("full_attention", 16, 1, 64, 64, "bfloat16")  # 4096 bytes
    wide = AttentionSpec("full_attention", 16, 2, 64, 64, "bfloat16")  # 8192 bytes
    members = group(layer("a", small), layer("b", wide), layer("c", small))
    packed = placements([members], "BLNHC", 10, 16_384)
    assert [(p.layers, p.offset, p.layer_stride, p.block_stride) for p in packed] == [
        (("a", "c"), 0, 4_096, 16_384),
        (("b",), 8_192, 8_192, 16_384),
    ]
    dense = placements([members], "LBNHC", 10, 16_384)
    assert [(p.layers, p.offset, p.layer_stride, p.block_stride) for p in dense] == [
        (("a", "c"), 0, 40_960, 4_096),
        (("b",), 81_920, 81_920, 8_192),
    ]


def test_a_stride_alignment_pads_dense_pages_unless_blocks_run_whole() -> None:
    latent = AttentionSpec("mla", 64, 1, 576, 0, "bfloat16", block_stride_alignment=65_536)
    (padded,) = placements([group(layer("a", latent))], "LBNHC", 4, 131_072)
    assert (latent.page_size_bytes, padded.block_stride) == (73_728, 131_072)
    whole = latent._replace(block_stride_alignment=MultipleOf(64))
    (dense,) = placements([group(layer("a", whole))], "LBNHC", 4, 73_728)
    assert dense.block_stride == 73_728


def test_heads_outside_the_block_cannot_hold_padded_pages() -> None:
    padded = FULL._replace(page_size_padded=FULL.page_size_bytes + 512)
    for layout in ("LHBNC", "BHLNC"):
        found = bind(layout, padded.page_size_bytes, [layer("a", padded)])
        assert found.cache_views.startswith(f"KV cache layout {layout} spreads the heads of a page")


def test_each_stage_binds_its_own_layers() -> None:
    first, second = layer("a", FULL), layer("b", FULL, "FLASH_ATTN", FLASH)._replace(stage=1)
    both = plan("LBHNC", FULL.page_size_bytes, group(first, second))
    assert kernel_blocks(both, [first, second], stage=0).group_sizes == (64,)
    assert kernel_blocks(both, [first, second], stage=1).group_sizes == (256,)
