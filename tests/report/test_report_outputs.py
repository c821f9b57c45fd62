# ruff: noqa: E501
"""Whole outputs of known deployments, word for word: what a reader sees, at 80 and 120 columns and in every format."""

from __future__ import annotations

from report_cases import dense, gemma, qwen, qwen_dflash, qwen_mtp, refused, sparse_mla

from kvplan.comparison import compare
from kvplan.report.compare_markdown import compare_markdown
from kvplan.report.compare_text import compare_text
from kvplan.report.csv import compare_csv, plan_csv
from kvplan.report.layers_text import layers_text
from kvplan.report.markdown import plan_markdown
from kvplan.report.style import ASCII, View
from kvplan.report.text import plan_text


def test_plan_of_a_hybrid_with_a_drafter_at_80_columns() -> None:
    assert (
        plan_text(qwen_dflash())
        == """\
It fits on one B300 with 200.0 GiB for the KV cache: vLLM 0.33.0 serves 27.35
requests of 262,144 tokens at once (logged as 7,170,229 tokens), with 46 groups
of layers (main grouping, layout LBNHC).

model         Qwen/Qwen3.6-35B-A3B-FP8 (Qwen3_5MoeForConditionalGeneration,
              bundled)
drafter       z-lab/Qwen3.6-35B-A3B-DFlash (DFlashDraftModel, bundled), method
              dflash, 7 speculative tokens
engine        vLLM 0.33.0 on one B300
KV dtype      --kv-cache-dtype auto, stored as bfloat16
block         640 tokens (--block-size 128): large enough that an attention page
              (1.25 MiB) holds one state (1.16 MiB)
limits        --max-model-len 262144, --max-num-seqs 32
in flight     32,768 tokens: 2 batches of --max-num-batched-tokens 16384
prefix cache  off

46 layers with a cache (upper case target, lower case drafter)
     layers  what they cache               heads x size          block      page
  M      30  gated delta net state         10x8192 32x128x128  request  1.25 MiB
  F      10  full attention                2 x 256                 640  1.25 MiB
  s       5  drafter sliding window 4,096  8 x 128                 640   2.5 MiB
  f       1  drafter full attention        8 x 128                 640   2.5 MiB

Groupings
  grouping  groups    block  growing padding  blocks/request     tokens
* main          46  2.5 MiB             none           2,995  7,170,229
  uniform       17  7.5 MiB     12 KiB +50 %           1,428  5,012,677
  packed         5   15 MiB             none             493  7,259,740
* is what vLLM 0.33.0 uses, for requests of 262,144 tokens; main is the uniform
page of 0.33.0, uniform that of vLLM pull request 58207, packed is for layouts
with blocks outermost; growing padding: per token, and what it adds to the
useful bytes

main (used): group size 1, 46 groups, block 2.5 MiB
M  [M] x30
F  [F] x10
s  [s] x5
f  [f]

uniform: group size 3, 17 groups, block 7.5 MiB
M  [MMM] x10
F  [FFF][FFF][FF▓][FF▓]
s  [sss][ss░]
f  [f▓▓]
(▓ empty and grows with context, ░ empty but bounded)

packed: 5 groups, block = 12 pages of 1.25 MiB = 15 MiB
mamba x3 │ M │ M │ M │ M │ M │ M │ M │ M │ M │ M │ ░ │ ░ │
full  x1 │ F │ F │ F │ F │ F │ F │ F │ F │ F │ F │   f   │
sw    x1 │   s   │   s   │   s   │   s   │   s   │ ░ │ ░ │
(░ empty but bounded)

Padding (main)
  - 30 M layers (gated delta net state) leave 1.34 MiB of every 2.5 MiB page
    unused: 322.5 MiB (338,165,760 bytes) per request, bounded (8 blocks each)

Capacity (main)
  blocks per request: 30 x 8 (M) + 10 x 205 (F) + 5 x 59 (s) + 410 (f) = 2,995
  200.0 GiB / 2.5 MiB a block = 81,920 blocks; one is the null block
  81,920 / 2,995 = 27.35 requests at once, x 262,144 = 7,170,229 tokens: what
    vLLM logs, a number of requests in tokens and not a store of so many
  tokens a request  blocks       size  requests at once
             4,096     327  817.5 MiB            250.52  **
            16,384     531    1.3 GiB            154.27  **
            65,536   1,158   2.83 GiB             70.74  **
           262,144   2,995   7.31 GiB             27.35
  ** more than --max-num-seqs 32, which then is the limit

One request (main)
  1.31 GiB fixed + 24 KiB (24,576 bytes) per token + 6 MiB to the end of the
  last blocks; at 262,144 tokens 7.31 GiB:
     5.0 GiB  68.4 %  target KV: 10 F layers (full attention) of 2 KiB per token
     1.0 GiB  13.7 %  drafter KV: 1 f layer (full attention) of 4 KiB per token
   737.5 MiB   9.8 %  drafter window: 5 s layers (sliding window 4,096) hold 59
                      blocks of 640 tokens: 4,095 of window + 32,768 in flight
   322.5 MiB   4.3 %  page rounding: see Padding
  242.81 MiB   3.2 %  speculative state: 8 state blocks per request in each of
                      30 M groups: 1 + 7 drafted
   34.69 MiB   0.5 %  state: 30 M layers (gated delta net state): 1.16 MiB each
       6 MiB   0.1 %  tail rounding: last block in part filled, blocks of 1,280
                      tokens (F), 640 tokens (f)

Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
  vllm-next moves block-outermost layouts first, all conditions hold:
    yes  mixed page sizes: pages of 1,310,720 bytes (M) to 2,621,440 bytes (s)
    yes  blocks run whole: TRITON_ATTN runs blocks of 640 tokens unsplit
    yes  packing costs less: without packing, the full attention groups are
         padded (5 groups against 17)
"""
    )


def test_plan_of_vllm_next_with_its_three_conditions() -> None:
    assert (
        plan_text(qwen_dflash(engine="vllm-next"), View(120))
        == """\
It fits on one B300 with 200.0 GiB for the KV cache: vllm-next serves 27.69 requests of 262,144 tokens at once (logged
as 7,259,740 tokens), with 5 groups of layers (packed grouping, layout BLNHC).

model         Qwen/Qwen3.6-35B-A3B-FP8 (Qwen3_5MoeForConditionalGeneration, bundled)
drafter       z-lab/Qwen3.6-35B-A3B-DFlash (DFlashDraftModel, bundled), method dflash, 7 speculative tokens
engine        vllm-next on one B300
KV dtype      --kv-cache-dtype auto, stored as bfloat16
block         640 tokens (--block-size 128): large enough that an attention page (1.25 MiB) holds one state (1.16 MiB)
limits        --max-model-len 262144, --max-num-seqs 32
in flight     32,768 tokens: 2 batches of --max-num-batched-tokens 16384
prefix cache  off

46 layers with a cache (upper case target, lower case drafter)
     layers  what they cache               heads x size        dtype       block      page  backend
  M      30  gated delta net state         10x8192 32x128x128  bfloat16  request  1.25 MiB  GDN_ATTN
  F      10  full attention                2 x 256             bfloat16      640  1.25 MiB  TRITON_ATTN
  s       5  drafter sliding window 4,096  8 x 128             bfloat16      640   2.5 MiB  TRITON_ATTN
  f       1  drafter full attention        8 x 128             bfloat16      640   2.5 MiB  TRITON_ATTN

Groupings
  grouping  layout  groups    block  growing padding  blocks/request    request     tokens
  main      LBNHC       46  2.5 MiB             none           2,995   7.31 GiB  7,170,229
  uniform   LBNHC       17  7.5 MiB     12 KiB +50 %           1,428  10.46 GiB  5,012,677
* packed    BLNHC        5   15 MiB             none             493   7.22 GiB  7,259,740
* is what vllm-next uses, for requests of 262,144 tokens; main is the uniform page of 0.33.0, uniform that of vLLM pull
request 58207, packed is for layouts with blocks outermost; growing padding: per token, and what it adds to the useful
bytes

main: group size 1, 46 groups, block 2.5 MiB
M  [M] x30
F  [F] x10
s  [s] x5
f  [f]

uniform: group size 3, 17 groups, block 7.5 MiB
M  [MMM] x10
F  [FFF][FFF][FF▓][FF▓]
s  [sss][ss░]
f  [f▓▓]
(▓ empty and grows with context, ░ empty but bounded)

packed (used): 5 groups, block = 12 pages of 1.25 MiB = 15 MiB
mamba x3 │ M │ M │ M │ M │ M │ M │ M │ M │ M │ M │ ░ │ ░ │
full  x1 │ F │ F │ F │ F │ F │ F │ F │ F │ F │ F │   f   │
sw    x1 │   s   │   s   │   s   │   s   │   s   │ ░ │ ░ │
(░ empty but bounded)

Padding (packed)
  - the s group leaves 1 of 6 pages empty: 147.5 MiB (154,664,960 bytes) per request, bounded (59 blocks)
  - all 3 M groups leave 2 of 12 pages empty: 60 MiB (62,914,560 bytes) per request, bounded (8 blocks each)
  - 30 M layers (gated delta net state) leave 96 KiB of every 1.25 MiB page unused: 22.5 MiB (23,592,960 bytes) per
    request, bounded (8 blocks each)

Capacity (packed)
  blocks per request: 3 x 8 (M) + 410 (Ff) + 59 (s) = 493
  200.0 GiB / 15 MiB a block = 13,653 blocks; one is the null block
  13,653 / 493 = 27.69 requests at once, x 262,144 = 7,259,740 tokens: what vLLM logs, a number of requests in tokens
    and not a store of so many
  tokens a request  blocks      size  requests at once
             4,096      39   585 MiB            350.08  **
            16,384      77  1.13 GiB            177.31  **
            65,536     186  2.72 GiB             73.40  **
           262,144     493  7.22 GiB             27.69
  ** more than --max-num-seqs 32, which then is the limit

One request (packed)
  1.22 GiB fixed + 24 KiB (24,576 bytes) per token + 6 MiB to the end of the last blocks; at 262,144 tokens 7.22 GiB:
     5.0 GiB  69.2 %  target KV: 10 F layers (full attention) of 2 KiB per token
     1.0 GiB  13.8 %  drafter KV: 1 f layer (full attention) of 4 KiB per token
   737.5 MiB  10.0 %  drafter window: 5 s layers (sliding window 4,096) hold 59 blocks of 640 tokens: 4,095 of window +
                      32,768 in flight
  242.81 MiB   3.3 %  speculative state: 8 state blocks per request in each of 3 M groups: 1 + 7 drafted
   207.5 MiB   2.8 %  bounded padding: see Padding
   34.69 MiB   0.5 %  state: 30 M layers (gated delta net state): 1.16 MiB each
    22.5 MiB   0.3 %  page rounding: see Padding
       6 MiB   0.1 %  tail rounding: last block in part filled, blocks of 640 tokens (F), 640 tokens (f)

Layout
  BLNHC, of the candidates BLNHC, BLHNC, BHLNC, LBNHC, LBHNC, LHBNC
  vllm-next moves block-outermost layouts first, all conditions hold:
    yes  mixed page sizes: pages of 1,310,720 bytes (M) to 2,621,440 bytes (s)
    yes  blocks run whole: TRITON_ATTN runs blocks of 640 tokens unsplit
    yes  packing costs less: without packing, the full attention groups are padded (5 groups against 17)
"""
    )


def test_plan_of_a_dense_model_on_an_assumed_gpu() -> None:
    assert (
        plan_text(dense())
        == """\
It fits on one H200 (assumed: GPU H200, as none was given) with 100.0 GiB for
the KV cache: vLLM 0.33.0 serves 17.78 requests of 40,960 tokens at once (logged
as 728,176 tokens), with 1 group of layers (main grouping, layout LBNHC).

model         Qwen/Qwen3-8B (Qwen3ForCausalLM, bundled)
engine        vLLM 0.33.0 on one H200
KV dtype      --kv-cache-dtype auto, stored as bfloat16
block         16 tokens
limits        --max-model-len 40960, --max-num-seqs 1024
in flight     16,384 tokens: 2 batches of --max-num-batched-tokens 8192
prefix cache  on; a prompt shorter than 17 tokens never hits

36 layers with a cache
     layers  what they cache  heads x size  dtype     block    page  backend
  F      36  full attention   8 x 128       bfloat16     16  64 KiB  FLASH_ATTN

Groupings
  grouping                 groups     block  blocks/request   tokens
* main = uniform = packed       1  2.25 MiB           2,560  728,176
* is what vLLM 0.33.0 uses, for requests of 40,960 tokens

main (used) = uniform = packed: 1 group, block 2.25 MiB
F  [36 F]

Padding (main)
  - every byte of every block belongs to a layer

Capacity (main)
  blocks per request: 2,560 (F)
  100.0 GiB / 2.25 MiB a block = 45,511 blocks; one is the null block
  45,511 / 2,560 = 17.78 requests at once, x 40,960 = 728,176 tokens: what vLLM
    logs, a number of requests in tokens and not a store of so many
  tokens a request  blocks      size  requests at once
             1,024      64   144 MiB            711.11
             4,096     256   576 MiB            177.78
            16,384   1,024  2.25 GiB             44.44
            40,960   2,560  5.62 GiB             17.78
  at once fit 64 requests of up to 11,376 tokens each, or 256 of up to 2,832, or
    1,024 of up to 704

One request (main)
  0 B fixed + 144 KiB (147,456 bytes) per token; at 40,960 tokens 5.62 GiB:
    5.62 GiB  100.0 %  target KV: 36 F layers (full attention) of 4 KiB per
                       token

Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
"""
    )


def test_plan_that_does_not_start() -> None:
    assert (
        plan_text(refused())
        == """\
It does not start on one H200 (assumed: GPU H200, as none was given): one
request of max_model_len 40,960 needs 5.62 GiB of KV cache and 2.0 GiB are
available, which hold at most 14,544 tokens; lower --max-model-len.

model         Qwen/Qwen3-8B (Qwen3ForCausalLM, bundled)
engine        vLLM 0.33.0 on one H200
KV dtype      --kv-cache-dtype auto, stored as bfloat16
block         16 tokens
limits        --max-model-len 40960, --max-num-seqs 1024
in flight     16,384 tokens: 2 batches of --max-num-batched-tokens 8192
prefix cache  on; a prompt shorter than 17 tokens never hits

36 layers with a cache
     layers  what they cache  heads x size  dtype     block    page  backend
  F      36  full attention   8 x 128       bfloat16     16  64 KiB  FLASH_ATTN

Groupings
  grouping                 groups     block  blocks/request          tokens
* main = uniform = packed       1  2.25 MiB           2,560  does not start
* is what vLLM 0.33.0 uses, for requests of 40,960 tokens

main (used) = uniform = packed: 1 group, block 2.25 MiB
F  [36 F]

Padding (main)
  - every byte of every block belongs to a layer

Capacity (main)
  blocks per request: 2,560 (F)
  2.0 GiB holds 910 blocks, one of them the null block
  longest request that fits: 14,544 tokens
  tokens a request  blocks      size
             1,024      64   144 MiB
             4,096     256   576 MiB
            16,384   1,024  2.25 GiB
            40,960   2,560  5.62 GiB

One request (main)
  0 B fixed + 144 KiB (147,456 bytes) per token; at 40,960 tokens 5.62 GiB:
    5.62 GiB  100.0 %  target KV: 36 F layers (full attention) of 4 KiB per
                       token

Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
"""
    )


def test_plan_without_a_budget() -> None:
    assert (
        plan_text(qwen(None))
        == """\
It is planned but not sized on one B300: vLLM 0.33.0 makes 4 groups of layers
(main grouping, layout LBNHC), and one request of 262,144 tokens holds 413
blocks of 12.5 MiB, 5.04 GiB; add --kv-cache-memory-bytes to see how many
requests of 262,144 tokens fit.

model         Qwen/Qwen3.6-35B-A3B-FP8 (Qwen3_5MoeForConditionalGeneration,
              bundled)
engine        vLLM 0.33.0 on one B300
KV dtype      --kv-cache-dtype auto, stored as bfloat16
block         640 tokens (--block-size 128): large enough that an attention page
              (1.25 MiB) holds one state (1.05 MiB)
limits        --max-model-len 262144, --max-num-seqs 32
in flight     32,768 tokens: 2 batches of --max-num-batched-tokens 16384
prefix cache  off

40 layers with a cache
     layers  what they cache        heads x size         block      page
  M      30  gated delta net state  3x8192 32x128x128  request  1.25 MiB
  F      10  full attention         2 x 256                640  1.25 MiB

Groupings
  grouping                 groups     block  growing padding  blocks/request
* main = uniform = packed       4  12.5 MiB             none             413
* is what vLLM 0.33.0 uses, for requests of 262,144 tokens

main (used) = uniform = packed: group size 10, 4 groups, block 12.5 MiB
M  [MMMMMMMMMM][MMMMMMMMMM][MMMMMMMMMM]
F  [FFFFFFFFFF]

Padding (main)
  - 30 M layers (gated delta net state) leave 208 KiB of every 1.25 MiB page
    unused: 6.09 MiB (6,389,760 bytes) per request, bounded (1 block each)

Capacity (main)
  blocks per request: 3 x 1 (M) + 410 (F) = 413
  no budget given: add --kv-cache-memory-bytes for blocks, tokens and requests
    at once
  tokens a request  blocks       size
             4,096      10    125 MiB
            16,384      29  362.5 MiB
            65,536     106   1.29 GiB
           262,144     413   5.04 GiB

One request (main)
  37.5 MiB fixed + 20 KiB (20,480 bytes) per token + 5 MiB to the end of the
  last blocks; at 262,144 tokens 5.04 GiB:
     5.0 GiB  99.2 %  target KV: 10 F layers (full attention) of 2 KiB per token
   31.41 MiB   0.6 %  state: 30 M layers (gated delta net state): 1.05 MiB each
    6.09 MiB   0.1 %  page rounding: see Padding
       5 MiB   0.1 %  tail rounding: last block in part filled, blocks of 640
                      tokens (F)

Layout
  LBNHC, of the candidates LBNHC, LBHNC, BLNHC, BLHNC, BHLNC, LHBNC
"""
    )


def test_plan_of_window_and_full_attention_at_120_columns() -> None:
    assert (
        plan_text(gemma(), View(120))
        == """\
It fits on one B200 with 100.0 GiB for the KV cache: vLLM 0.33.0 serves 3.93 requests of 131,072 tokens at once (logged
as 514,490 tokens), with 7 groups of layers (main grouping, layout LBHNC).

model         google/gemma-3-27b-it (Gemma3ForConditionalGeneration, bundled)
engine        vLLM 0.33.0 on one B200
KV dtype      --kv-cache-dtype auto, stored as bfloat16
block         16 tokens
limits        --max-model-len 131072, --max-num-seqs 1024
in flight     32,768 tokens: 2 batches of --max-num-batched-tokens 16384
prefix cache  on; a prompt shorter than 17 tokens never hits

62 layers with a cache
     layers  what they cache       heads x size  dtype     block     page  backend
  S      52  sliding window 1,024  16 x 128      bfloat16     16  128 KiB  FLASHINFER
  F      10  full attention        16 x 128      bfloat16     16  128 KiB  FLASHINFER

Groupings
  grouping       layout  groups     block  growing padding  blocks/request    request   tokens
* main = packed  LBHNC        7  1.25 MiB             none          20,870  25.48 GiB  514,490
  uniform        LBHNC        6  1.38 MiB      8 KiB +10 %          18,757  25.19 GiB  520,402
* is what vLLM 0.33.0 uses, for requests of 131,072 tokens; main is the uniform page of 0.33.0, uniform that of vLLM
pull request 58207, packed is for layouts with blocks outermost; growing padding: per token, and what it adds to the
useful bytes

main (used) = packed: group size 10, 7 groups, block 1.25 MiB
S  [SSSSSSSSS░][SSSSSSSSS░][SSSSSSSSS░][SSSSSSSSS░][SSSSSSSS░░][SSSSSSSS░░]
F  [FFFFFFFFFF]
(░ empty but bounded)

uniform: group size 11, 6 groups, block 1.38 MiB
S  [SSSSSSSSSSS][SSSSSSSSSSS][SSSSSSSSSS░][SSSSSSSSSS░][SSSSSSSSSS░]
F  [FFFFFFFFFF▓]
(▓ empty and grows with context, ░ empty but bounded)

Padding (main)
  - 4 of 6 S groups leave 1 of 10 pages empty: 1.03 GiB (1,107,820,544 bytes) per request, bounded (2,113 blocks each)
  - 2 of 6 S groups leave 2 of 10 pages empty: 1.03 GiB (1,107,820,544 bytes) per request, bounded (2,113 blocks each)

Capacity (main)
  blocks per request: 6 x 2,113 (S) + 8,192 (F) = 20,870
  100.0 GiB / 1.25 MiB a block = 81,920 blocks; one is the null block
  81,920 / 20,870 = 3.93 requests at once, x 131,072 = 514,490 tokens: what vLLM logs, a number of requests in tokens
    and not a store of so many
  tokens a request  blocks       size  requests at once
             4,096   1,798   2.19 GiB             45.56
            16,384   7,174   8.76 GiB             11.42
            65,536  16,774  20.48 GiB              4.88
           131,072  20,870  25.48 GiB              3.93
  at once fit 4 requests of up to 124,816 tokens each, or 16 of up to 11,680, or 64 of up to 2,896, or 256 of up to 704

One request (main)
  15.48 GiB fixed + 80 KiB (81,920 bytes) per token; at 131,072 tokens 25.48 GiB:
   13.41 GiB  52.6 %  target window: 52 S layers (sliding window 1,024) hold 2,113 blocks of 16 tokens: 1,023 of window
                      + 32,768 in flight
    10.0 GiB  39.3 %  target KV: 10 F layers (full attention) of 8 KiB per token
    2.06 GiB   8.1 %  bounded padding: see Padding

Layout
  LBHNC, of the candidates LBHNC, BLHNC
"""
    )


def test_plan_of_sparse_mla_in_ascii() -> None:
    assert (
        plan_text(sparse_mla(), View(70, ASCII))
        == """\
It fits on one H200 with 1000.0 GiB for the KV cache: vLLM 0.33.0
serves 136.34 requests of 163,840 tokens at once (logged as 22,337,920
tokens), with 1 group of layers (main grouping, layout LBNHC).

model         deepseek-ai/DeepSeek-V3.2 (DeepseekV32ForCausalLM,
              bundled)
engine        vLLM 0.33.0 on one H200
KV dtype      --kv-cache-dtype fp8, stored as uint8
block         64 tokens
limits        --max-model-len 163840, --max-num-seqs 1024
in flight     16,384 tokens: 2 batches of --max-num-batched-tokens
              8192
prefix cache  on; a prompt shorter than 65 tokens never hits

122 layers with a cache
     layers  what they cache  heads x size  block      page
  I      61  indexer          1 x 132          64  8.25 KiB
  L      61  MLA latent       1 x 576          64    41 KiB

Groupings
  grouping                    block  blocks/request      tokens
* main = uniform = packed  2.93 MiB           2,560  22,337,920
* is what vLLM 0.33.0 uses, for requests of 163,840 tokens

main (used) = uniform = packed: 1 group, block 2.93 MiB
mla x1 |   61 I   |                       61 L                       |

Padding (main)
  - every byte of every block belongs to a layer

Capacity (main)
  blocks per request: 2,560 (IL)
  1000.0 GiB / 2.93 MiB a block = 349,030 blocks; one is the null
    block
  349,030 / 2,560 = 136.34 requests at once, x 163,840 = 22,337,920
    tokens: what vLLM logs, a number of requests in tokens and not a
    store of so many
  tokens a request  blocks        size  requests at once
             4,096      64  187.77 MiB          5,453.59  **
            16,384     256  751.06 MiB          1,363.40  **
            65,536   1,024    2.93 GiB            340.85
           163,840   2,560    7.33 GiB            136.34
  ** more than --max-num-seqs 1024, which then is the limit
  at once fit 256 requests of up to 87,232 tokens each, or 1,024 of up
    to 21,760

One request (main)
  0 B fixed + 46.94 KiB (48,068 bytes) per token; at 163,840 tokens
  7.33 GiB:
    7.33 GiB  100.0 %  target KV: 61 I layers (indexer) of 132 B per
                       token; 61 L layers (MLA latent) of 656 B per
                       token

Layout
  LBNHC, of the candidates LBNHC, BLNHC
"""
    )


def test_comparison_of_two_drafters() -> None:
    assert (
        compare_text(compare(qwen(), [qwen_mtp(), qwen_dflash()]))
        == """\
Qwen/Qwen3.6-35B-A3B-FP8 under vLLM 0.33.0 on one B300 holds 39.67 requests of
262,144 tokens (10,399,436 tokens) without a drafter; built-in mtp, 1 token:
-9.7 %; z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens: -31.1 %.

  grouping  groups      block       growing  blocks/req      tokens   change
no drafter
* main           4   12.5 MiB          none         413  10,399,436
  uniform        4   12.5 MiB          none         413  10,399,436
  packed         4   12.5 MiB          none         413  10,399,436
built-in mtp, 1 token
* main           4  13.75 MiB          none         416   9,385,511   -9.7 %
  uniform        4  13.75 MiB          none         416   9,385,511   -9.7 %
  packed         4  13.75 MiB          none         416   9,385,511   -9.7 %
z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens
* main          46    2.5 MiB          none       2,995   7,170,229  -31.1 %
  uniform       17    7.5 MiB  12 KiB +50 %       1,428   5,012,677  -51.8 %
  packed         5     15 MiB          none         493   7,259,740  -30.2 %
* is what vLLM 0.33.0 uses; growing: padding per token, and what it adds to the
useful bytes; blocks/req: for one request of 262,144 tokens; change: of tokens,
against the same grouping without a drafter

Why built-in mtp, 1 token: -9.7 %
  one request of 262,144 tokens takes 5.59 GiB instead of 5.04 GiB (main
  grouping):
     +512 MiB  drafter KV: 1 f layer (full attention) of 2 KiB per token
   +31.88 MiB  speculative state: 2 state blocks per request instead of 1 in
               each of 3 M groups
     +7.5 MiB  bounded padding: all 3 M groups leave 1 of 11 pages empty
    +5.16 MiB  page rounding: 30 M layers (gated delta net state) leave 192 KiB
               of every 1.25 MiB page unused, 2 blocks each; before: 30 M layers
               (gated delta net state) leave 208 KiB of every 1.25 MiB page
               unused, 1 block each
     +512 KiB  tail rounding: last block in part filled, blocks of 640 tokens
               (F), 640 tokens (f); before: last block in part filled, blocks of
               640 tokens (F)
     +480 KiB  state: 30 M layers (gated delta net state): 1.06 MiB each instead
               of 1.05 MiB (4x8192 instead of 3x8192)
   +557.5 MiB  in all
  unchanged: target KV 5.0 GiB
  - the state of M is 1.06 MiB instead of 1.05 MiB (4x8192 instead of 3x8192)
  - 4 groups as before, 11 layers in a group instead of 10

Why z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens: -31.1 %
  one request of 262,144 tokens takes 7.31 GiB instead of 5.04 GiB (main
  grouping):
     +1.0 GiB  drafter KV: 1 f layer (full attention) of 4 KiB per token
   +737.5 MiB  drafter window: 5 s layers (sliding window 4,096) hold 59 blocks
               of 640 tokens: 4,095 of window + 32,768 in flight
  +316.41 MiB  page rounding: 30 M layers (gated delta net state) leave 1.34 MiB
               of every 2.5 MiB page unused, 8 blocks each; before: 30 M layers
               (gated delta net state) leave 208 KiB of every 1.25 MiB page
               unused, 1 block each
  +242.81 MiB  speculative state: 8 state blocks per request instead of 1 in
               each of 30 M groups
    +3.28 MiB  state: 30 M layers (gated delta net state): 1.16 MiB each instead
               of 1.05 MiB (10x8192 instead of 3x8192)
       +1 MiB  tail rounding: last block in part filled, blocks of 1,280 tokens
               (F), 640 tokens (f); before: last block in part filled, blocks of
               640 tokens (F)
    +2.27 GiB  in all
  unchanged: target KV 5.0 GiB
  - the state of M is 1.16 MiB instead of 1.05 MiB (10x8192 instead of 3x8192)
  - the largest page is 2.5 MiB instead of 1.25 MiB: s (sliding window 4,096, 8
    x 128), and every page is brought to it
  - 46 groups instead of 4, 1 layer in a group instead of 10: there is only 1 f
    layer (full attention)
"""
    )


def test_comparison_without_a_budget_at_120_columns() -> None:
    assert (
        compare_text(compare(qwen(None), [qwen_dflash(None)]), View(120))
        == """\
One request of 262,144 tokens of Qwen/Qwen3.6-35B-A3B-FP8 takes 5.04 GiB under vLLM 0.33.0 on one B300 without a
drafter; z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens: -31.1 %.

  grouping  layout  groups     block       growing  blocks/req    request   change
no drafter
* main      LBNHC        4  12.5 MiB          none         413   5.04 GiB
  uniform   LBNHC        4  12.5 MiB          none         413   5.04 GiB
  packed    BLNHC        4  12.5 MiB          none         413   5.04 GiB
z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens
* main      LBNHC       46   2.5 MiB          none       2,995   7.31 GiB  -31.1 %
  uniform   LBNHC       17   7.5 MiB  12 KiB +50 %       1,428  10.46 GiB  -51.8 %
  packed    BLNHC        5    15 MiB          none         493   7.22 GiB  -30.2 %
* is what vLLM 0.33.0 uses; growing: padding per token, and what it adds to the useful bytes; blocks/req: for one
request of 262,144 tokens; change: of tokens that the same memory holds, against the same grouping without a drafter;
add --kv-cache-memory-bytes for tokens

Why z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens: -31.1 %
  one request of 262,144 tokens takes 7.31 GiB instead of 5.04 GiB (main grouping):
     +1.0 GiB  drafter KV: 1 f layer (full attention) of 4 KiB per token
   +737.5 MiB  drafter window: 5 s layers (sliding window 4,096) hold 59 blocks of 640 tokens: 4,095 of window + 32,768
               in flight
  +316.41 MiB  page rounding: 30 M layers (gated delta net state) leave 1.34 MiB of every 2.5 MiB page unused, 8 blocks
               each; before: 30 M layers (gated delta net state) leave 208 KiB of every 1.25 MiB page unused, 1 block
               each
  +242.81 MiB  speculative state: 8 state blocks per request instead of 1 in each of 30 M groups
    +3.28 MiB  state: 30 M layers (gated delta net state): 1.16 MiB each instead of 1.05 MiB (10x8192 instead of 3x8192)
       +1 MiB  tail rounding: last block in part filled, blocks of 1,280 tokens (F), 640 tokens (f); before: last block
               in part filled, blocks of 640 tokens (F)
    +2.27 GiB  in all
  unchanged: target KV 5.0 GiB
  - the state of M is 1.16 MiB instead of 1.05 MiB (10x8192 instead of 3x8192)
  - the largest page is 2.5 MiB instead of 1.25 MiB: s (sliding window 4,096, 8 x 128), and every page is brought to it
  - 46 groups instead of 4, 1 layer in a group instead of 10: there is only 1 f layer (full attention)
"""
    )


def test_layers_with_what_decided_them() -> None:
    assert (
        layers_text(qwen_dflash(), explain=True)
        == """\
Qwen/Qwen3.6-35B-A3B-FP8 with z-lab/Qwen3.6-35B-A3B-DFlash (dflash): 46 layers
with a cache under vLLM 0.33.0 on one B300.

   layers  what they cache               heads x size          block      page
M      30  gated delta net state         10x8192 32x128x128  request  1.25 MiB
   language_model.model.layers.{0-2, 4-6, 8-10, 12-14, 16-18, 20-22, 24-26,
     28-30, 32-34, 36-38}.linear_attn
   GDN_ATTN
   because layer_types: linear_attention:
     model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py
F      10  full attention                2 x 256                 640  1.25 MiB
   language_model.model.layers.{3, 7, 11, 15, 19, 23, 27, 31, 35,
     39}.self_attn.attn
   TRITON_ATTN, kernel blocks: any multiple of 16 tokens
   because layer_types: full_attention: model_executor/models/qwen3_next.py,
     Qwen3NextAttention
s       5  drafter sliding window 4,096  8 x 128                 640   2.5 MiB
   model.layers.{40-44}.self_attn.attn
   TRITON_ATTN, kernel blocks: any multiple of 16 tokens
   because of its class
f       1  drafter full attention        8 x 128                 640   2.5 MiB
   model.layers.45.self_attn.attn
   TRITON_ATTN, kernel blocks: any multiple of 16 tokens
   because of its class
"""
    )


def test_plan_as_a_pull_request_comment() -> None:
    assert (
        plan_markdown(qwen_dflash())
        == """\
**It fits on one B300 with 200.0 GiB for the KV cache: vLLM 0.33.0 serves 27.35 requests of 262,144 tokens at once (logged as 7,170,229 tokens), with 46 groups of layers (main grouping, layout LBNHC).**

| grouping | layout | groups | block | growing padding | blocks per request | request | tokens |
| :-- | :-- | --: | --: | --: | --: | --: | --: |
| **main** | LBNHC | 46 | 2.5 MiB | none | 2,995 | 7.31 GiB | 7,170,229 |
| uniform | LBNHC | 17 | 7.5 MiB | 12 KiB +50 % | 1,428 | 10.46 GiB | 5,012,677 |
| packed | BLNHC | 5 | 15 MiB | none | 493 | 7.22 GiB | 7,259,740 |

A request is one of 262,144 tokens; the grouping in bold is the one that the engine uses.

<details><summary>Groups and padding</summary>

```text
main: group size 1, 46 groups, block 2.5 MiB
M  [M] x30
F  [F] x10
s  [s] x5
f  [f]

uniform: group size 3, 17 groups, block 7.5 MiB
M  [MMM] x10
F  [FFF][FFF][FF▓][FF▓]
s  [sss][ss░]
f  [f▓▓]
(▓ empty and grows with context, ░ empty but bounded)

packed: 5 groups, block = 12 pages of 1.25 MiB = 15 MiB
mamba x3 │ M │ M │ M │ M │ M │ M │ M │ M │ M │ M │ ░ │ ░ │
full  x1 │ F │ F │ F │ F │ F │ F │ F │ F │ F │ F │   f   │
sw    x1 │   s   │   s   │   s   │   s   │   s   │ ░ │ ░ │
(░ empty but bounded)
```

- 30 M layers (gated delta net state) leave 1.34 MiB of every 2.5 MiB page unused: 322.5 MiB (338,165,760 bytes) per request, bounded (8 blocks each)

</details>

<details><summary>What one request holds (main)</summary>

1.31 GiB fixed + 24 KiB (24,576 bytes) per token + 6 MiB to the end of the last blocks; at 262,144 tokens 7.31 GiB.

| category | size | share | what |
| :-- | :-- | :-- | :-- |
| target KV | 5.0 GiB | 68.4 % | 10 F layers (full attention) of 2 KiB per token |
| drafter KV | 1.0 GiB | 13.7 % | 1 f layer (full attention) of 4 KiB per token |
| drafter window | 737.5 MiB | 9.8 % | 5 s layers (sliding window 4,096) hold 59 blocks of 640 tokens: 4,095 of window + 32,768 in flight |
| page rounding | 322.5 MiB | 4.3 % | 30 M layers (gated delta net state) leave 1.34 MiB of every 2.5 MiB page unused, 8 blocks each |
| speculative state | 242.81 MiB | 3.2 % | 8 state blocks per request in each of 30 M groups: 1 + 7 drafted |
| state | 34.69 MiB | 0.5 % | 30 M layers (gated delta net state): 1.16 MiB each |
| tail rounding | 6 MiB | 0.1 % | last block in part filled, blocks of 1,280 tokens (F), 640 tokens (f) |

</details>

<details><summary>Layout</summary>

`LBNHC`, of `LBNHC`, `LBHNC`, `BLNHC`, `BLHNC`, `BHLNC`, `LHBNC`

- yes: mixed page sizes: pages of 1,310,720 bytes (M) to 2,621,440 bytes (s)
- yes: blocks run whole: TRITON\\_ATTN runs blocks of 640 tokens unsplit
- yes: packing costs less: without packing, the full attention groups are padded (5 groups against 17)

</details>

<details><summary>Options</summary>

| option | value |
| :-- | :-- |
| `dtype` | `bfloat16` |
| `quantization` | `fp8` |
| `kv_cache_dtype` | `auto` |
| `kv_cache_dtype_skip_layers` | `none` |
| `tensor_parallel_size` | `1` |
| `pipeline_parallel_size` | `1` |
| `data_parallel_size` | `1` |
| `decode_context_parallel_size` | `1` |
| `prefill_context_parallel_size` | `1` |
| `enable_expert_parallel` | `false` |
| `block_size` | `640` |
| `mamba_block_size` | `262144` |
| `mamba_cache_mode` | `none` |
| `mamba_cache_dtype` | `bfloat16` |
| `mamba_ssm_cache_dtype` | `bfloat16` |
| `max_model_len` | `262144` |
| `max_num_seqs` | `32` |
| `max_num_batched_tokens` | `16384` |
| `max_num_encoder_input_tokens` | `16384` |
| `max_concurrent_batches` | `2` |
| `max_in_flight_tokens` | `32768` |
| `async_scheduling` | `true` |
| `enable_prefix_caching` | `false` |
| `disable_hybrid_kv_cache_manager` | `false` |
| `attention_backend` | `TRITON_ATTN` |
| `min_kv_cache_group_layers` | `3` |
| `num_gpu_blocks_override` | `none` |
| `kv_cache_memory_bytes` | `none` |
| `gpu_memory_utilization` | `0.92` |
| `gpu` | `B300` |

</details>
"""
    )


def test_comparison_as_a_pull_request_comment() -> None:
    assert (
        compare_markdown(compare(qwen(), [qwen_dflash()]))
        == """\
**Qwen/Qwen3.6-35B-A3B-FP8 under vLLM 0.33.0 on one B300 holds 39.67 requests of 262,144 tokens (10,399,436 tokens) without a drafter; z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens: -31.1 %.**

|  | grouping | groups | block | growing padding | blocks per request | tokens | change |
| :-- | :-- | --: | --: | --: | --: | --: | --: |
| no drafter | **main** | 4 | 12.5 MiB | none | 413 | 10,399,436 |  |
|  | uniform | 4 | 12.5 MiB | none | 413 | 10,399,436 |  |
|  | packed | 4 | 12.5 MiB | none | 413 | 10,399,436 |  |
| z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens | **main** | 46 | 2.5 MiB | none | 2,995 | 7,170,229 | -31.1 % |
|  | uniform | 17 | 7.5 MiB | 12 KiB +50 % | 1,428 | 5,012,677 | -51.8 % |
|  | packed | 5 | 15 MiB | none | 493 | 7,259,740 | -30.2 % |

In bold what the engine uses; change of tokens against the same grouping without a drafter.

#### z-lab/Qwen3.6-35B-A3B-DFlash (dflash), 7 tokens: -31.1 %

One request takes 7.31 GiB instead of 5.04 GiB (+2.27 GiB):

- +1.0 GiB drafter KV: 1 f layer (full attention) of 4 KiB per token
- +737.5 MiB drafter window: 5 s layers (sliding window 4,096) hold 59 blocks of 640 tokens: 4,095 of window + 32,768 in flight
- +316.41 MiB page rounding: 30 M layers (gated delta net state) leave 1.34 MiB of every 2.5 MiB page unused, 8 blocks each; before: 30 M layers (gated delta net state) leave 208 KiB of every 1.25 MiB page unused, 1 block each

<details><summary>Smaller causes, and what changed in the groups</summary>

- +242.81 MiB speculative state: 8 state blocks per request instead of 1 in each of 30 M groups
- +3.28 MiB state: 30 M layers (gated delta net state): 1.16 MiB each instead of 1.05 MiB (10x8192 instead of 3x8192)
- +1 MiB tail rounding: last block in part filled, blocks of 1,280 tokens (F), 640 tokens (f); before: last block in part filled, blocks of 640 tokens (F)
- the state of M is 1.16 MiB instead of 1.05 MiB (10x8192 instead of 3x8192)
- the largest page is 2.5 MiB instead of 1.25 MiB: s (sliding window 4,096, 8 x 128), and every page is brought to it
- 46 groups instead of 4, 1 layer in a group instead of 10: there is only 1 f layer (full attention)

</details>
"""
    )


def test_plan_as_csv() -> None:
    assert (
        plan_csv(dense())
        == """\
model,drafter,method,num_speculative_tokens,engine,gpu,grouping,used,layout,error,num_groups,group_size,bytes_per_block,num_blocks,blocks_per_request,bytes_per_request,max_model_len,kv_cache_size_tokens,max_concurrency,longest_model_len,growing_bytes_per_token,growing_fraction,bounded_bytes_per_request,page_rounding_bytes_per_request,fixed_bytes,bytes_per_token,target_kv_bytes,drafter_kv_bytes,target_window_bytes,drafter_window_bytes,state_bytes,speculative_state_bytes,growing_padding_bytes,bounded_padding_bytes,page_rounding_bytes,tail_rounding_bytes
Qwen/Qwen3-8B,,,,vllm-0.33.0,H200,main,true,LBNHC,,1,,2359296,45511,2560,6039797760,40960,728176,17.777734375,,0,0.0,0,0,0,147456,6039797760,0,0,0,0,0,0,0,0,0
Qwen/Qwen3-8B,,,,vllm-0.33.0,H200,uniform,false,LBNHC,,1,,2359296,45511,2560,6039797760,40960,728176,17.777734375,,0,0.0,0,0,0,147456,6039797760,0,0,0,0,0,0,0,0,0
Qwen/Qwen3-8B,,,,vllm-0.33.0,H200,packed,false,BLNHC,,1,,2359296,45511,2560,6039797760,40960,728176,17.777734375,,0,0.0,0,0,0,147456,6039797760,0,0,0,0,0,0,0,0,0
"""
    )


def test_comparison_as_csv() -> None:
    assert (
        compare_csv(compare(qwen(), [qwen_mtp()]))
        == """\
model,drafter,method,num_speculative_tokens,engine,gpu,grouping,used,layout,error,num_groups,group_size,bytes_per_block,num_blocks,blocks_per_request,bytes_per_request,max_model_len,kv_cache_size_tokens,max_concurrency,longest_model_len,growing_bytes_per_token,growing_fraction,bounded_bytes_per_request,page_rounding_bytes_per_request,fixed_bytes,bytes_per_token,target_kv_bytes,drafter_kv_bytes,target_window_bytes,drafter_window_bytes,state_bytes,speculative_state_bytes,growing_padding_bytes,bounded_padding_bytes,page_rounding_bytes,tail_rounding_bytes,change
Qwen/Qwen3.6-35B-A3B-FP8,,,,vllm-0.33.0,B300,main,true,LBNHC,,4,10,13107200,16384,413,5413273600,262144,10399436,39.67070217917676,,0,0.0,0,6389760,39321600,20480,5368709120,0,0,0,32931840,0,0,0,6389760,5242880,
Qwen/Qwen3.6-35B-A3B-FP8,,,,vllm-0.33.0,B300,uniform,false,LBNHC,,4,10,13107200,16384,413,5413273600,262144,10399436,39.67070217917676,,0,0.0,0,6389760,39321600,20480,5368709120,0,0,0,32931840,0,0,0,6389760,5242880,
Qwen/Qwen3.6-35B-A3B-FP8,,,,vllm-0.33.0,B300,packed,false,BLNHC,,4,10,13107200,16384,413,5413273600,262144,10399436,39.67070217917676,,0,0.0,0,6389760,39321600,20480,5368709120,0,0,0,32931840,0,0,0,6389760,5242880,
Qwen/Qwen3.6-35B-A3B-FP8,Qwen/Qwen3.6-35B-A3B-FP8,mtp,1,vllm-0.33.0,B300,main,true,LBNHC,,4,11,14417920,14894,416,5997854720,262144,9385511,35.80288461538461,,0,0.0,7864320,11796480,86507520,22528,5368709120,536870912,0,0,33423360,33423360,0,7864320,11796480,5767168,-0.09749807585719072
Qwen/Qwen3.6-35B-A3B-FP8,Qwen/Qwen3.6-35B-A3B-FP8,mtp,1,vllm-0.33.0,B300,uniform,false,LBNHC,,4,11,14417920,14894,416,5997854720,262144,9385511,35.80288461538461,,0,0.0,7864320,11796480,86507520,22528,5368709120,536870912,0,0,33423360,33423360,0,7864320,11796480,5767168,-0.09749807585719072
Qwen/Qwen3.6-35B-A3B-FP8,Qwen/Qwen3.6-35B-A3B-FP8,mtp,1,vllm-0.33.0,B300,packed,false,BLNHC,,4,11,14417920,14894,416,5997854720,262144,9385511,35.80288461538461,,0,0.0,7864320,11796480,86507520,22528,5368709120,536870912,0,0,33423360,33423360,0,7864320,11796480,5767168,-0.09749807585719072
"""
    )
