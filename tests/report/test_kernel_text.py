"""`kvplan kernel-blocks` as text, whole: blocks that kernels read in pieces, and blocks that run whole."""

from __future__ import annotations

from kvplan import EngineArgs, PlanRequest, plan
from kvplan.kernel_blocks import kernel_blocks
from kvplan.report.kernel_text import kernel_document, kernel_text
from kvplan.report.style import ASCII, View


def planned(model: str, gpu: str, **args: object):
    result = plan(PlanRequest(EngineArgs(model=model, **args), gpu=gpu, offline=True))
    return result, kernel_blocks(result.plans[result.selected], result.layers)


def test_packed_blocks_are_mapped_and_compressed_pages_hold_seventeen_kernel_blocks():
    assert (
        kernel_text(*planned("zai-org/GLM-5.3-Flash", "H200", tensor_parallel_size=2))
        == """\
zai-org/GLM-5.3-Flash under vLLM 0.33.0 on 2 H200 (TP 2), packed grouping,
layout BLHNC.

  group  backend                     block  kernel  per block  stride  how
      4  DEEPSEEK_V32_INDEXER        2,176     128         17   5,992  mapped
      4  FLASHINFER_MLA_SPARSE_SM90  2,176   2,176          1       1  whole
      5  KPOOL_TAIL                      4       4          1       1  whole
mapped: kernel blocks of one block are neighbours, other layers' pages lie
before those of the next; whole: the block is one kernel block

Kernel block j of block b
  DEEPSEEK_V32_INDEXER: b x 5,992 + j
    block 1: 5,992, 5,993, 5,994, 5,995, …, 6,008
    block 2: 11,984, 11,985, 11,986, 11,987, …, 12,000
    block 7: 41,944, 41,945, 41,946, 41,947, …, 41,960
  blocks that run whole: kernel block b of block b

One block in the pool
  a block is 25,310,208 bytes in one piece; groups lie over each other from byte
  0
  group 0: 9 layers, blocks of 2,176 tokens
    bytes 0 to 20,054,016: 9 pages of 2,228,224 bytes
      (language_model.model.layers.0.self_attn, ...), 57,344 of each unused
    bytes 20,054,016 to 25,310,208: no layer's
  group 1: 9 layers, blocks of 2,176 tokens
    bytes 0 to 20,054,016: 9 pages of 2,228,224 bytes
      (language_model.model.layers.1.self_attn, ...), 57,344 of each unused
    bytes 20,054,016 to 25,310,208: no layer's
  group 2: 8 layers, blocks of 2,176 tokens
    bytes 0 to 17,825,792: 8 pages of 2,228,224 bytes
      (language_model.model.layers.2.self_attn, ...), 57,344 of each unused
    bytes 17,825,792 to 25,310,208: no layer's
  group 3: 8 layers, blocks of 2,176 tokens
    bytes 0 to 17,825,792: 8 pages of 2,228,224 bytes
      (language_model.model.layers.4.self_attn, ...), 57,344 of each unused
    bytes 17,825,792 to 25,310,208: no layer's
  group 4: 22 layers, blocks of 2,176 tokens
    bytes 0 to 789,888: 11 pages of 71,808 bytes
      (language_model.model.layers.3.self_attn.indexer.k_cache, ...); a kernel
      block is 4,224 bytes of a page
    bytes 789,888 to 25,300,352: 11 pages of 2,228,224 bytes
      (language_model.model.layers.3.self_attn.attn, ...)
    bytes 25,300,352 to 25,310,208: no layer's
  group 5: 11 layers, blocks of 4 tokens
    bytes 0 to 22,528: 11 pages of 2,048 bytes
      (language_model.model.layers.3.self_attn.indexer.tail_cache, ...)
    bytes 22,528 to 25,310,208: no layer's

One page in kernel blocks
  DEEPSEEK_V32_INDEXER: 71,808 bytes, 17 kernel blocks of 4,224 bytes and 128
    tokens
    │   0    │   1    │   2    │   3    │   4    │   5    │   …    │   16   │
    0        4,224    8,448    12,672   16,896   21,120            67,584

What a KV connector moves
  grouping  layout  regions                 each  regions/req    request
* packed    BLHNC         1  22 KiB to 24.13 MiB          495  11.57 GiB
regions: runs of contiguous bytes of one block on one rank; each: bytes of one
region; request: of 1,048,576 tokens
"""
    )


def test_dense_blocks_are_split_side_by_side():
    assert (
        kernel_text(*planned("Qwen/Qwen3.6-35B-A3B-FP8", "B200", max_model_len=32768))
        == """\
Qwen/Qwen3.6-35B-A3B-FP8 under vLLM 0.33.0 on one B200, main grouping, layout
LBHNC.

  group  layers  backend     block  kernel  per block  stride    bytes  how
      3      10  FLASHINFER  1,088      64         17      17  128 KiB  split
split: kernel blocks lie side by side

Kernel block j of block b
  FLASHINFER: b x 17 + j
    block 1: 17, 18, 19, 20, …, 33
    block 2: 34, 35, 36, 37, …, 50
    block 7: 119, 120, 121, 122, …, 135

One block in the pool
  a block is 22,282,240 bytes in all, each layer's in its region
  group 0: 10 layers, blocks of 1,088 tokens
    2,228,224 bytes from one block to the next: 10 pages of 2,228,224 bytes
      (language_model.model.layers.0.linear_attn, ...), 81,920 of each unused
  group 1: 10 layers, blocks of 1,088 tokens
    2,228,224 bytes from one block to the next: 10 pages of 2,228,224 bytes
      (language_model.model.layers.1.linear_attn, ...), 81,920 of each unused
  group 2: 10 layers, blocks of 1,088 tokens
    2,228,224 bytes from one block to the next: 10 pages of 2,228,224 bytes
      (language_model.model.layers.2.linear_attn, ...), 81,920 of each unused
  group 3: 10 layers, blocks of 1,088 tokens
    2,228,224 bytes from one block to the next: 10 pages of 2,228,224 bytes
      (language_model.model.layers.3.self_attn.attn, ...); a kernel block is
      131,072 bytes of a page

One page in kernel blocks
  FLASHINFER: 2,228,224 bytes, 17 kernel blocks of 131,072 bytes and 64 tokens
    │     0     │     1     │     2     │     3     │     …     │     16    │
    0           131,072     262,144     393,216                 2,097,152

What a KV connector moves
  grouping  layout  regions       each      block  regions/req  request
* main      LBHNC        10   2.12 MiB  21.25 MiB          400  850 MiB
  uniform   LBHNC        10   2.12 MiB  21.25 MiB          400  850 MiB
  packed    BLHNC         1  21.25 MiB  21.25 MiB           40  850 MiB
regions: runs of contiguous bytes of one block on one rank; each: bytes of one
region; block: bytes of a block; request: of 32,768 tokens
"""
    )


def test_blocks_that_run_whole_keep_their_numbers():
    assert (
        kernel_text(*planned("Qwen/Qwen3-8B", "H200", max_model_len=8192, block_size=256), View(60, ASCII))
        == """\
Qwen/Qwen3-8B under vLLM 0.33.0 on one H200, main grouping,
layout LBNHC.

  group  backend     block  kernel  per block  stride  how
      0  FLASH_ATTN    256     256          1       1  whole
whole: the block is one kernel block

Kernel block j of block b
  blocks that run whole: kernel block b of block b

One block in the pool
  a block is 37,748,736 bytes in all, each layer's in its
  region
  group 0: 36 layers, blocks of 256 tokens
    1,048,576 bytes from one block to the next: 36 pages of
      1,048,576 bytes (model.layers.0.self_attn.attn, ...)

What a KV connector moves
  grouping  layout  regions    each  regions/req   request
* main      LBNHC        36   1 MiB        1,152  1.12 GiB
  uniform   LBNHC        36   1 MiB        1,152  1.12 GiB
  packed    BLNHC         1  36 MiB           32  1.12 GiB
regions: runs of contiguous bytes of one block on one rank;
each: bytes of one region; request: of 8,192 tokens
"""
    )


def test_the_document_holds_what_the_text_says():
    """GLM-5.3-Flash at TP 2 on H200: blocks of 2,176 tokens, indexer pages of seventeen kernel blocks."""
    document = kernel_document(*planned("zai-org/GLM-5.3-Flash", "H200", tensor_parallel_size=2))
    mapped = [group for group in document["attention_groups"] if group["mode"] == "packed"]
    assert [(g["block_size"], g["kernel_block_size"], g["kernel_blocks_per_block"]) for g in mapped] == [
        (2176, 128, 17)
    ]
    assert document["error"] is None
    assert set(document["transfer"]) == {"packed"}
    moved = document["transfer"]["packed"]
    assert moved["bytes_per_request"] == sum(g["bytes_per_block"] * g["blocks_per_request"] for g in moved["groups"])
