"""What the tag of a process tells of its place: ``EngineCore_DP1``, ``Worker_DP1_PP0_TP3``, ``VllmWorker rank=3``.

From `setup_proc_title_and_log_prefix` (before 0.10.2 `WorkerProc`) of vllm/v1/executor/multiproc_executor.py and
`run_engine_core` of vllm/v1/engine/core.py: up to 0.10.0 workers are numbered in the world of their engine, in 0.10.1
they are ``VllmWorker PP0_TP1``, then ``Worker_PP0_TP1``. A JSON formatter names the process itself: ``VllmWorker-3``.
"""

from __future__ import annotations

import re


def engine_index(process: str) -> int:
    """The data-parallel index; 0 when there is none."""
    found = re.search(r"(?:_DP|EngineCore_)([0-9]{1,6})", process)
    return int(found.group(1)) if found else 0


def axis_rank(process: str, axis: str) -> int | None:
    """The rank on one axis (``TP``, ``PP``); None where the tag does not tell."""
    found = re.search(rf"[_ ]{axis}([0-9]{{1,6}})", process)
    return int(found.group(1)) if found else None


def stage_of(process: str, tensor_parallel_size: int) -> int | None:
    """The pipeline stage; None where the tag does not tell."""
    stage = axis_rank(process, "PP")
    rank = _world_rank(process)
    return rank // tensor_parallel_size if stage is None and rank is not None else stage


def rank_order(process: str) -> tuple[int, int, int]:
    """Sorts ranks: by stage, by tensor-parallel rank, by number in the world."""
    return axis_rank(process, "PP") or 0, axis_rank(process, "TP") or 0, _world_rank(process) or 0


def _world_rank(process: str) -> int | None:
    found = re.search(r"(?: rank=|VllmWorker-)([0-9]{1,6})", process)
    return int(found.group(1)) if found else None
