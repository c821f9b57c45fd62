"""What differs between vLLM releases in the numbers that a start-up prints.

CHANGES is the whole table: from which release on a rule has which value, and where in that release's sources this
stands. Every release in VERIFIED was read for it (the functions named, compared with those of the release before). A
development build is placed between the releases before and after it, and taken only where both follow the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from kvplan.errors import Refused


class Change(NamedTuple):
    """From release ``since`` on, ``rule`` has ``value``; ``source`` is file and function, ``what`` one sentence."""

    since: str
    rule: str
    value: str
    source: str
    what: str


_UTILS = "v1/core/kv_cache_utils.py"
_SPECS = "v1/kv_cache_interface.py"
_CONFIG = "model_executor/models/config.py HybridAttentionMambaModelConfig.verify_and_update_config"
_PLATFORM = "platforms/interface.py _align_hybrid_block_size"

CHANGES = (
    Change("0.9.0", "token_line", "pool_times_block", f"{_UTILS} _get_kv_cache_config_uniform_type",
           "Tokens are blocks // groups x the configured block size."),
    Change("0.9.0", "request_blocks", "from_tokens", f"{_UTILS} _get_kv_cache_config_uniform_type",
           "Concurrency is tokens / max_model_len."),
    Change("0.9.0", "context_parallel", "none", f"{_UTILS} _get_kv_cache_config_uniform_type",
           "Context parallelism does not touch the token line."),
    Change("0.9.0", "in_flight", "one_batch", f"{_SPECS} SlidingWindowSpec.max_memory_usage_bytes",
           "A window layer reserves max_num_batched_tokens."),
    Change("0.9.0", "retained", "none", f"{_SPECS} SlidingWindowSpec.max_memory_usage_bytes",
           "A window layer retains no token beyond its window."),
    Change("0.9.0", "mamba", "none", f"{_UTILS} get_kv_cache_config",
           "State layers are not planned."),
    Change("0.9.0", "hybrid", "full_attention", f"{_UTILS} get_kv_cache_config",
           "Window layers beside full attention are cached as full attention."),
    Change("0.9.0", "hybrid_block", "none", f"{_UTILS} get_kv_cache_config",
           "The attention block is not aligned to a state."),
    Change("0.9.0", "group_size", "smallest", f"{_UTILS} _get_kv_cache_config_uniform_page_size",
           "The group size is the smallest bucket."),
    Change("0.9.0", "buckets", "by_spec", f"{_UTILS} _get_kv_cache_config_uniform_page_size",
           "A bucket holds the layers of one spec."),
    Change("0.9.0", "pages", "equal", f"{_UTILS} get_kv_cache_config",
           "Different page sizes are an error."),
    Change("0.9.0", "packed", "none", f"{_UTILS} get_kv_cache_config",
           "No packed blocks."),
    Change("0.9.0", "layout", "unnamed", "v1/attention/backends",
           "Layouts are NHD or HND and do not touch the grouping."),
    Change("0.9.0", "window_block", "configured", "attention/layer.py Attention.get_kv_cache_spec",
           "A window layer has the block size of the attention."),
    Change("0.9.0", "block_stride", "page", f"{_UTILS} get_kv_cache_config",
           "The stride between two blocks is their page."),
    Change("0.9.0", "state_prefix_caching", "off", "config/model.py is_prefix_caching_supported",
           "Prefix caching is off by default for models with state layers."),
    Change("0.9.0", "connector_groups", "never", "config.py VllmConfig.__post_init__",
           "With a KV connector all layers share one group."),
    Change("0.9.0", "kv_event_groups", "never", "config.py VllmConfig.__post_init__",
           "With KV events all layers share one group."),
    Change("0.9.0", "chunk_groups", "always", "config.py VllmConfig.__post_init__",
           "Chunked local attention has groups of its own."),
    Change("0.9.0", "nemotron_state", "model_dtype", "model_executor/models/config.py",
           "The state of Nemotron-H has the model's dtype."),
    Change("0.9.0", "mla_block", "flashmla", "platforms/cuda.py check_and_update_config",
           "The block of MLA is 64 tokens on Hopper (FlashMLA), else 16."),
    Change("0.9.0", "plain_block", "default", "platforms/cuda.py check_and_update_config",
           "The block is 16 tokens by default but for MLA."),
    Change("0.9.0", "flash_attn_blocks", "any", "v1/attention/backends/flash_attn.py",
           "FlashAttention takes every multiple of 16 tokens as a block."),
    Change("0.9.0", "check", "layers", f"{_UTILS} check_enough_kv_cache_memory",
           "A request must fit as the sum of what a rank's own layers hold."),
    Change("0.9.0", "null_block", "not_reserved", f"{_UTILS} check_enough_kv_cache_memory",
           "The check that one request fits uses all of the memory."),
    Change("0.9.0", "override", "after_sizing", f"{_UTILS} get_num_blocks",
           "num_gpu_blocks_override replaces the number of blocks after the check."),
    Change("0.9.0", "reports", "each_rank", f"{_UTILS} get_kv_cache_config",
           "Each rank reports its own blocks, before the smallest is taken for all."),
    Change("0.9.0", "cuda_graphs", "not_counted", "v1/worker/gpu_worker.py determine_available_memory",
           "CUDA graphs are captured on top of the KV memory."),
    Change("0.9.1", "request_blocks", "first_page", f"{_UTILS} get_max_concurrency_for_kv_cache_config",
           "Concurrency is blocks / ceil(bytes of one request / page of the first group)."),
    Change("0.9.1", "hybrid", "groups", f"{_UTILS} _get_kv_cache_config_uniform_page_size",
           "Layers of several kinds are split into groups."),
    Change("0.9.2", "token_line", "one_group_times_block", f"{_UTILS} _get_kv_cache_config_uniform_page_size",
           "Tokens are blocks // groups x the smallest block size of the groups, of one group the configured one."),
    Change("0.9.2", "mamba", "one_block", f"{_SPECS} MambaSpec.max_memory_usage_bytes",
           "A request takes one block of each state group, drafting or not."),
    Change("0.10.0", "mla_block", "cutlass", "platforms/cuda.py check_and_update_config",
           "As before, 128 tokens on Blackwell (CUTLASS MLA)."),
    Change("0.10.0", "hybrid_block", "multiple_of_16", _CONFIG,
           "The attention block is the multiple of 16 tokens that holds a state."),
    Change("0.10.0", "chunk_groups", "not_drafting", "config.py VllmConfig.__post_init__",
           "Chunked local attention has groups of its own unless a drafter runs on the target's hidden states."),
    Change("0.10.1", "chunk_groups", "on_request", "envs.py VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
           "Chunked local attention is cached as full attention unless the variable is 1."),
    Change("0.10.2", "context_parallel", "decode_of_one_group", f"{_UTILS} _get_kv_cache_config_uniform_type",
           "The token line of one group is multiplied by the decode context parallel size."),
    Change("0.11.0", "token_line", "pool_times_smallest_block", f"{_UTILS} get_kv_cache_config_from_groups",
           "Tokens are blocks // groups x the smallest block size of the groups."),
    Change("0.11.0", "context_parallel", "decode", f"{_UTILS} get_kv_cache_config_from_groups",
           "The token line is multiplied by the decode context parallel size."),
    Change("0.11.1", "reports", "each_rank_alike", f"{_UTILS} get_kv_cache_configs",
           "Ranks report after the smallest number of blocks was taken for all."),
    Change("0.11.1", "mamba", "model_length", f"{_SPECS} MambaSpec.max_memory_usage_bytes",
           "A request takes ceil(max_model_len / mamba_block_size) blocks of each state group."),
    Change("0.11.1", "hybrid_block", "by_kind", _CONFIG,
           "A multiple of 16, on Blackwell 32 for heads of 256, 64 or 128 for MLA; of the chunk too in all mode."),
    Change("0.12.0", "context_parallel", "decode_and_prefill", f"{_UTILS} _report_kv_cache_config",
           "The token line is multiplied by both context parallel sizes."),
    Change("0.12.0", "group_size", "largest_below_1.25", f"{_UTILS} _get_kv_cache_groups_uniform_page_size",
           "The group size is the largest bucket where that is less than 1.25 x the smallest."),
    Change("0.12.0", "pages", "scaled", f"{_UTILS} unify_kv_cache_spec_page_size",
           "A page that divides the largest gets a larger block size."),
    Change("0.13.0", "connector_groups", "on_request", "config/vllm.py VllmConfig.__post_init__",
           "With a KV connector all layers share one group unless --no-disable-hybrid-kv-cache-manager is given."),
    Change("0.13.0", "nemotron_state", "config", "model_executor/models/config.py NemotronHForCausalLMConfig",
           "The state of Nemotron-H has the dtype that its config names."),
    Change("0.14.0", "chunk_groups", "not_drafting", "envs.py VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",
           "Chunked local attention has groups of its own unless a drafter runs on the target's hidden states."),
    Change("0.14.0", "check", "all_stages", f"{_UTILS} get_kv_cache_configs",
           "A request must fit in whole blocks of all stages' layers, on the rank that has least."),
    Change("0.15.0", "mla_block", "flashinfer", "platforms/cuda.py check_and_update_config",
           "As before, 64 tokens on Blackwell (FlashInfer MLA)."),
    Change("0.15.0", "mamba", "cache_mode", f"{_SPECS} MambaSpec.max_memory_usage_bytes",
           "State blocks a request: 1 + drafted tokens, 2 + drafted tokens in align mode, by length in all mode."),
    Change("0.17.0", "check", "own_stage", f"{_UTILS} _project_kv_cache_groups_to_worker",
           "A request must fit in whole blocks of each stage's own layers."),
    Change("0.18.0", "mla_block", "preferred", "platforms/interface.py update_block_size_for_backend",
           "The block of MLA is the backend's: 16 tokens where it takes that, else its smallest."),
    Change("0.18.0", "plain_block", "first_backend", "platforms/interface.py update_block_size_for_backend",
           "The block is that of the first attention backend: 16 tokens where it takes that, else its smallest."),
    Change("0.18.0", "group_size", "largest_below_1.5", f"{_UTILS} _get_kv_cache_groups_uniform_page_size",
           "The group size is the largest bucket where that is less than 1.5 x the smallest."),
    Change("0.18.0", "hybrid_block", "by_kind_but_blackwell", _CONFIG,
           "As before, without the exception for Blackwell."),
    Change("0.18.0", "cuda_graphs", "counted_on_request", "v1/worker/gpu_worker.py determine_available_memory",
           "CUDA graphs are estimated, and taken off with VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1."),
    Change("0.20.0", "kv_event_groups", "always", "config/vllm.py VllmConfig.__post_init__",
           "KV events do not touch the groups."),
    Change("0.20.0", "cuda_graphs", "counted", "envs.py VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
           "CUDA graphs are estimated and taken off the KV memory by default."),
    Change("0.20.0", "hybrid_block", "backend", _PLATFORM,
           "A multiple of the backend's smallest kernel block or of the block size, whichever is larger."),
    Change("0.20.0", "packed", "deepseek_v4", f"{_UTILS} _get_kv_cache_config_deepseek_v4",
           "DeepSeek-V4 gets packed blocks."),
    Change("0.20.1", "token_line", "concurrency_times_length", f"{_UTILS} _report_kv_cache_config",
           "Tokens are int(concurrency x max_model_len)."),
    Change("0.20.1", "context_parallel", "none", f"{_UTILS} _report_kv_cache_config",
           "The token line is not multiplied any more."),
    Change("0.20.1", "override", "in_memory", f"{_UTILS} get_kv_cache_configs",
           "num_gpu_blocks_override replaces the available memory before the check."),
    Change("0.22.0", "connector_groups", "by_connector", "config/vllm.py VllmConfig.__post_init__",
           "With a KV connector that moves several groups, layers keep them."),
    Change("0.22.0", "mamba", "cache_mode_all_drafting", f"{_SPECS} MambaSpec.max_memory_usage_bytes",
           "In all mode the drafted tokens count too."),
    Change("0.24.0", "packed", "deepseek_v4_or_connector", f"{_UTILS} _use_packed_kv_cache_config",
           "Packed blocks also where a KV connector asks for cross-layer blocks."),
    Change("0.24.0", "pages", "scaled_or_padded_by_backend", f"{_UTILS} unify_kv_cache_spec_page_size",
           "A page that does not divide is padded where the backend steps by blocks."),
    Change("0.25.0", "window_block", "smallest_kernel_block", "attention.py _largest_kernel_block_within",
           "A window layer has its backend's smallest kernel block, which grows to the largest page."),
    Change("0.26.0", "state_prefix_caching", "on", "config/model.py is_prefix_caching_supported",
           "Prefix caching is on by default for hybrid models."),
    Change("0.26.0", "in_flight", "concurrent_batches", "config/vllm.py max_in_flight_tokens",
           "A window layer reserves max_num_batched_tokens for each batch in flight."),
    Change("0.26.0", "pages", "state_padded", f"{_UTILS} unify_kv_cache_spec_page_size",
           "A state page is padded to the largest page."),
    Change("0.27.0", "request_blocks", "per_group", f"{_UTILS} get_max_concurrency_for_kv_cache_config",
           "Concurrency is blocks / the sum over the groups of whole blocks of one request."),
    Change("0.27.0", "buckets", "merged", f"{_UTILS} _get_kv_cache_groups_uniform_page_size",
           "Buckets whose specs can merge are one bucket."),
    Change("0.27.0", "hybrid_block", "backend_mla_128", _PLATFORM,
           "As before, at least 128 for MLA."),
    Change("0.28.0", "retained", "multi_module_mtp", f"{_UTILS} get_kv_cache_configs",
           "Window layers retain drafted tokens - 1 more when several MTP modules draft."),
    Change("0.29.0", "null_block", "reserved", f"{_UTILS} get_kv_cache_configs",
           "The check that one request fits, and the longest length, use the memory less one block."),
    Change("0.29.0", "flash_attn_blocks", "by_head", "v1/attention/backends/flash_attn.py _get_fa4_hd256_block_size",
           "FlashAttention 4 takes only blocks of one size for heads of 256."),
    Change("0.29.0", "layout", "six", "v1/attention/backends/utils.py",
           "One of six axis orders is resolved for the whole model."),
    Change("0.29.0", "packed", "block_outermost", f"{_UTILS} _get_packed_kv_cache_groups",
           "Packed blocks where the layout has blocks outermost."),
    Change("0.29.0", "pages", "attention_padded", f"{_UTILS} unify_kv_cache_spec_page_size",
           "A page of non-MLA attention that does not divide is padded too."),
    Change("0.29.0", "mamba", "checkpoints", f"{_SPECS} MambaSpec.max_memory_usage_bytes",
           "In align mode the prefill checkpoint blocks of the layer count too."),
    Change("0.31.0", "plain_block", "every_backend", "platforms/interface.py _preferred_block_size_for_backends",
           "The block is one that every attention backend takes."),
    Change("0.31.0", "flash_attn_blocks", "by_head_and_fp8",
           "v1/attention/backends/flash_attn.py _get_sm90_fa4_fp8_kv_block_size",
           "As before, and fixed blocks for FP8 on Hopper."),
    Change("0.31.0", "window_block", "largest_that_fits", "attention.py _largest_kernel_block_within",
           "A window layer has the largest kernel block whose page fits the attention's."),
    Change("0.31.0", "block_stride", "kernel_block", f"{_SPECS} block_stride_alignment",
           "The stride between two blocks is a multiple of the kernel block's page, where a backend asks for it."),
    Change("0.31.0", "retained", "prefill_lookahead", f"{_UTILS} get_kv_cache_configs",
           "Window layers retain the prefill lookahead of the drafter - 1."),
    Change("0.32.0", "mamba", "checkpoints_without_all", f"{_SPECS} MambaSpec.max_memory_usage_bytes",
           "There is no all mode any more."),
    Change("0.32.0", "hybrid_block", "every_backend", _PLATFORM,
           "As before, then a multiple of every backend's smallest kernel block."),
    Change("0.33.0", "hybrid_block", "every_backend_checkpoints", _PLATFORM,
           "As before, and in align mode of the prefill checkpoint alignment."),
)  # fmt: skip

# The releases whose sources were read, all that were published from 0.9.0 to 0.33.0.
VERIFIED = (
    "0.9.0", "0.9.0.1", "0.9.1", "0.9.2", "0.10.0", "0.10.1", "0.10.1.1", "0.10.2", "0.11.0", "0.11.1", "0.11.2",
    "0.12.0", "0.13.0", "0.14.0", "0.14.1", "0.15.0", "0.15.1", "0.16.0", "0.17.0", "0.17.1", "0.18.0", "0.18.1",
    "0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0",
    "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0",
)  # fmt: skip


class Rules(NamedTuple):
    """The rules of one version; each field but the last two is a ``rule`` of CHANGES.

    ``release`` is the verified release whose values these are, ``basis`` a sentence on how the version was placed.
    """

    token_line: str
    request_blocks: str
    context_parallel: str
    in_flight: str
    retained: str
    mamba: str
    hybrid: str
    hybrid_block: str
    group_size: str
    buckets: str
    pages: str
    packed: str
    layout: str
    window_block: str
    block_stride: str
    state_prefix_caching: str
    connector_groups: str
    kv_event_groups: str
    chunk_groups: str
    nemotron_state: str
    mla_block: str
    plain_block: str
    flash_attn_blocks: str
    check: str
    null_block: str
    override: str
    reports: str
    cuda_graphs: str
    release: str
    basis: str


RULE_NAMES = Rules._fields[:-2]


def rules_for(version: str | None, *, assume: str | None = None, relevant: Collection[str] = RULE_NAMES) -> Rules:
    """The rules of the version in a log, or of the release ``assume`` (--assume-engine) whatever the log says.

    ``relevant`` names the rules that matter to the deployment (a model without state layers has no use for "mamba"):
    a development build is refused only where its neighbours differ in one of these. Raises Refused for a version that
    was not verified, with what to do.
    """
    if assume is not None:
        if assume not in VERIFIED:
            raise Refused(f"--assume-engine {assume} is not a release whose rules were verified: {_span()}.")
        return _of_release(assume, f"taken as {assume} by --assume-engine")
    if version is None:
        raise Refused("The log does not say which vLLM printed it; name the release with --assume-engine.")
    placed = _parse(version)
    if placed is None:
        raise Refused(f"vLLM version {version!r} is not readable; name the release with --assume-engine.")
    release, final = placed
    if final:
        name = ".".join(map(str, release))
        if name not in VERIFIED:
            raise Refused(_unverified(version))
        return _of_release(name, f"release {name}")
    return _of_build(version, release, relevant)


def relevant_rules(
    *, mixed: bool, state: bool = False, window: bool = False, drafting: bool = False, context_parallel: bool = False
) -> frozenset[str]:
    """The rules that touch the printed numbers of a deployment.

    ``mixed``: layers of more than one spec, so that grouping matters; ``state``, ``window``: such layers are there;
    ``drafting``: with a drafter; ``context_parallel``: decode or prefill context parallel size above 1.
    """
    names = {"token_line"}
    if mixed:
        names |= {"request_blocks", "hybrid", "group_size", "buckets", "pages", "packed"}
    if state:
        names |= {"mamba", "hybrid_block"}
    if window:
        names |= {"in_flight", "retained"} if drafting else {"in_flight"}
        if mixed:
            names.add("window_block")
    if context_parallel:
        names.add("context_parallel")
    return frozenset(names)


def differences(one: Rules, other: Rules) -> tuple[str, ...]:
    """The rules in which two versions differ, in the order of RULE_NAMES."""
    return tuple(name for name in RULE_NAMES if getattr(one, name) != getattr(other, name))


def source_of(rules: Rules, rule: str) -> Change:
    """The row of CHANGES that gave ``rule`` its value."""
    rows = [row for row in CHANGES if row.rule == rule and _key(row.since) <= _key(rules.release)]
    return max(rows, key=lambda row: _key(row.since))


def neighbours(version: str | None) -> tuple[Rules, Rules] | None:
    """The rules of the verified releases before and after a development build; None for a release.

    Raises Refused where one of them is missing.
    """
    placed = _parse(version) if version is not None else None
    return None if version is None or placed is None or placed[1] else _neighbours(version, placed[0])


def _of_build(version: str, release: tuple[int, ...], relevant: Collection[str]) -> Rules:
    """A build before ``release`` was cut: between its verified neighbours."""
    before, after = _neighbours(version, release)
    differing = [name for name in differences(before, after) if name in relevant]
    if differing:
        raise Refused(
            f"vLLM {version} lies between {before.release} and {after.release}, which differ in "
            f"{', '.join(differing)}; name the one it follows with --assume-engine."
        )
    return before._replace(basis=f"{version} lies between {before.release} and {after.release}, which agree here")


def _neighbours(version: str, release: tuple[int, ...]) -> tuple[Rules, Rules]:
    """One named after a patch release comes from the main branch, which the next minor release is cut from."""
    below = [name for name in VERIFIED if _key(name) < release]
    patch = len(release) > 2 and any(release[2:])
    above = [name for name in VERIFIED if (_key(name)[:2] > release[:2] if patch else _key(name) >= release)]
    if not below or not above:
        raise Refused(_unverified(version))
    return _of_release(below[-1], ""), _of_release(above[0], "")


def _of_release(name: str, basis: str) -> Rules:
    values = {row.rule: row.value for row in CHANGES if _key(row.since) <= _key(name)}
    return Rules(**values, release=name, basis=basis)


def _unverified(version: str) -> str:
    return (
        f"vLLM {version} is not a version whose rules were verified ({_span()}); "
        "name the release it follows with --assume-engine."
    )


def _span() -> str:
    return f"{VERIFIED[0]} to {VERIFIED[-1]}"


def _parse(version: str) -> tuple[tuple[int, ...], bool] | None:
    """The release part of a version, and whether it is that release rather than a build on the way to it.

    ``0.13.0+local`` and ``0.13.0.post1`` are 0.13.0. ``0.20.1.dev0+g...`` has no commit after 0.20.0 (setuptools_scm
    counts them), so it is 0.20.0.
    """
    found = re.fullmatch(
        r"v?([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})((?:a|b|rc)[0-9]{1,4})?(?:\.?post[0-9]{1,4})?(\.?dev([0-9]{1,6}))?(?:\+.*)?",
        version.strip(),
    )
    if not found:
        return None
    release = tuple(int(part) for part in found.group(1).split("."))
    if found.group(2) or found.group(3):
        exact = not found.group(2) and found.group(4) == "0" and release[-1] > 0
        return ((*release[:-1], release[-1] - 1), True) if exact else (release, False)
    return release, True


def _key(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("."))
