"""Parallel groups of any size in one process: rank 0 of each, and no communication."""

from __future__ import annotations

from typing import Any, NamedTuple


class _Members(NamedTuple):
    """What is read of a process group: how many are in it, and which one this is."""

    count: int
    own: int

    def size(self) -> int:
        return self.count

    def rank(self) -> int:
        return self.own


def prepare() -> None:
    """Say that no two ranks share a node, so that no shared memory is set up. Before vLLM's modules import it."""
    from vllm.distributed import parallel_state

    parallel_state.in_the_same_node_as = lambda group, source_rank=0: [False] * group.size()


def install(parallel_config: Any, stage: int = 0) -> None:
    """Set up vLLM's groups for the sizes of ``parallel_config``, on the rank that runs pipeline stage ``stage``."""
    import torch
    from vllm.distributed import parallel_state

    class Group(parallel_state.GroupCoordinator):
        """A group of ``size`` ranks; collectives give what their shape promises."""

        def __init__(self, name: str, size: int, rank: int = 0) -> None:
            self.unique_name = name
            self.world_size = size
            self.ranks = list(range(size))
            self.group_ranks = [self.ranks]
            self.rank = self.rank_in_group = self.local_rank = self.device_index = rank
            self.device = torch.device("cuda:0")
            self.device_group = self.cpu_group = _Members(size, rank)
            self.device_communicator = self.mq_broadcaster = None
            self.use_device_communicator = False
            self.use_custom_op_call = True

        def all_reduce(self, input_: Any) -> Any:
            return input_

        def all_gather(self, input_: Any, dim: int = -1) -> Any:
            return torch.cat([input_] * self.world_size, dim=dim)

        def broadcast(self, input_: Any, src: int = 0) -> Any:
            return input_

        def broadcast_object(self, obj: Any = None, src: int = 0) -> Any:
            return obj

        def barrier(self) -> None:
            pass

    tensor, data = parallel_config.tensor_parallel_size, parallel_config.data_parallel_size
    pipeline = parallel_config.pipeline_parallel_size
    parallel_state._WORLD = Group("world", parallel_config.world_size, stage * tensor)
    parallel_state._TP = Group("tp", tensor)
    parallel_state._ETP = Group("etp", tensor)
    parallel_state._PP = Group("pp", pipeline, stage)
    parallel_state._DCP = Group("dcp", parallel_config.decode_context_parallel_size)
    parallel_state._PCP = Group("pcp", parallel_config.prefill_context_parallel_size)
    parallel_state._DP = Group("dp", data)
    parallel_state._EP = Group("ep", tensor * data * parallel_config.prefill_context_parallel_size)
    parallel_state._EPLB = Group("eplb", tensor * data)
    parallel_state._NODE_COUNT = 1
