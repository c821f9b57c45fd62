"""Indexers of sparse MLA, which pick the tokens a layer attends to (vllm/v1/attention/backends/mla/indexer.py).

Model classes name these backends themselves. Assumed, as in vLLM's CUDA wheel: DeepGEMM is installed.
"""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv, KernelSizes
from kvplan.errors import Refused
from kvplan.spec import AttentionSpec, MultipleOf, Spec


class DeepseekV32Indexer(Backend):
    key = name = "DEEPSEEK_V32_INDEXER"
    head_sizes: tuple[int, ...] = (32, 64, 128)
    pcp = True

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (64,)

    def supports_device_query_lens(self, env: BackendEnv) -> bool:
        return env.gpu.capability[0] in (9, 10)


class Glm5NextIndexer(DeepseekV32Indexer):
    """GLM-5.3-Flash: several tokens pooled into one state, read in pages of 32 or 64 states (64 on SM120)."""

    key = "GLM5_NEXT_INDEXER"

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        pooled = int(spec.tokens_per_state) if isinstance(spec, AttentionSpec) else env.index_kpool
        if pooled is None:
            raise Refused("config.json: index_kpool is missing; the indexer's pages follow from it.")
        pages = (64,) if env.gpu.capability[0] == 12 else (32, 64)
        return tuple(pooled * page for page in pages)


class KpoolTail(DeepseekV32Indexer):
    """GLM-5.3-Flash: the ring of keys that wait for being pooled."""

    key = name = "KPOOL_TAIL"
    head_sizes = ()

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (MultipleOf(1),)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("BLHNC",)


class DeepseekV4Indexer(DeepseekV32Indexer):
    """Pages lie beside the latents' in each block."""

    key = name = "DEEPSEEK_V4_INDEXER"

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (256,)

    def layouts(self, env: BackendEnv) -> tuple[str, ...] | None:
        return ("BLHNC", "BLNHC")


class DeepseekV41Indexer(DeepseekV4Indexer):
    key = name = "DEEPSEEK_V41_INDEXER"

    def kernel_block_sizes(self, env: BackendEnv, spec: Spec | None = None) -> KernelSizes:
        return (64 if env.gpu.capability[0] == 9 else 128,)


class DeepseekV41SparseIndexer(DeepseekV41Indexer):
    """vllm/v1/attention/backends/mla/sparse_indexer.py."""

    key = name = "DEEPSEEK_V41_SPARSE_INDEXER"
