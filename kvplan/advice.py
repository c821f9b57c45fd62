"""The one change that would gain the most, found by planning it: a flag to paste and what it brings.

Nothing is estimated: each change is planned as the deployment itself was, and dropped where vLLM refuses it or where
it gains less than one part in a hundred. Whether kernels run as fast with it is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kvplan import layout
from kvplan.errors import KvplanError
from kvplan.pipeline import PlanRequest, plan
from kvplan.planning import PACKED
from kvplan.result import Plan, Result
from kvplan.spec import AttentionSpec

_BACKENDS = ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN")
_MLA_BACKENDS = ("FLASHINFER_MLA", "CUTLASS_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "TRITON_MLA")
_BLOCK_SIZES = (16, 32, 64, 128, 256)
_LEAST_GAIN = 0.01
_LEAST_PADDING = 0.05

PACKING = "packing"
STARTING = "starting"
PADDING = "padding"


class Advice(NamedTuple):
    """One change and what planning it gave."""

    aim: str
    """packing | starting | padding: what the change was looked for."""
    flags: tuple[str, ...]
    """To paste: flags of `vllm serve` and VLLM_* variables."""
    before: Plan
    after: Plan
    grouping: str
    """Grouping of ``after``."""


class Change(NamedTuple):
    """A deployment with another backend, layout or block size."""

    backend: str | None = None
    layout: str | None = None
    block_size: int | None = None

    def flags(self) -> tuple[str, ...]:
        found = (
            (f"{layout.ENVIRONMENT_VARIABLE}=", self.layout),
            ("--attention-backend ", self.backend),
            ("--block-size ", self.block_size),
        )
        return tuple(f"{flag}{value}" for flag, value in found if value is not None)

    def of(self, request: PlanRequest) -> PlanRequest:
        args = request.args
        if self.backend is not None:
            args = args._replace(attention_backend=self.backend)
        if self.layout is not None:
            args = args._replace(env={**args.env, layout.ENVIRONMENT_VARIABLE: self.layout})
        if self.block_size is not None:
            args = args._replace(block_size=self.block_size)
        return request._replace(args=args)


def advise(request: PlanRequest, result: Result, run: Callable[[PlanRequest], Result] = plan) -> Advice | None:
    """The best change for what this plan leaves open: that it starts, else that it packs, else less padding.

    ``request``: what ``result`` was planned from. ``run``: plans a request, at least what the engine uses of it.
    """
    used = result.plans[result.selected]
    found = (_best(aim, changes, request, used, run) for aim, changes in _aims(result, used))
    return next((best for best in found if best is not None), None)


def _aims(result: Result, used: Plan) -> Iterator[tuple[str, Iterable[Change]]]:
    if not used.groups:
        return
    backends, layouts = _backends(result), _layouts(result)
    if used.error is not None:
        if used.num_blocks is not None or result.available_memory_bytes is None:  # the pool is made, not bound
            yield STARTING, (*map(_with_layout, layouts), *map(_with_backend, backends))
        return
    packed = result.plans[PACKED]
    if result.selected != PACKED and packed.error is None and gain(used, packed) >= _LEAST_GAIN:
        yield PACKING, _packing(result, backends, layouts)
    if _padded_share(used) >= _LEAST_PADDING:
        yield PADDING, (*map(_with_backend, backends), *map(_with_block, _blocks(result)))


def _packing(result: Result, backends: tuple[str, ...], layouts: tuple[str, ...]) -> Iterator[Change]:
    """What may pack: under vllm-next another backend or block; a layout with blocks outermost; else both at once."""
    outermost = tuple(name for name in layouts if layout.is_block_outermost(name))
    if result.engine == "vllm-next":
        yield from map(_with_backend, backends)
        yield from map(_with_block, _blocks(result))
    yield from map(_with_layout, outermost)
    yield from (Change(backend=name, layout=to) for name in backends for to in outermost or ("BLHNC", "BLNHC"))


def _with_layout(name: str) -> Change:
    return Change(layout=name)


def _with_backend(name: str) -> Change:
    return Change(backend=name)


def _with_block(size: int) -> Change:
    return Change(block_size=size)


def _backends(result: Result) -> tuple[str, ...]:
    """Backends that are not the target's already; none where the target has no attention."""
    own = {x.backend for x in result.layers if x.owner == "target" and isinstance(x.spec, AttentionSpec)}
    if not own:
        return ()
    return tuple(name for name in (_MLA_BACKENDS if result.config.use_mla else _BACKENDS) if name not in own)


def _layouts(result: Result) -> tuple[str, ...]:
    return tuple(name for name in result.layout.candidates if name != result.layout.name)


def _blocks(result: Result) -> tuple[int, ...]:
    """Other block sizes; none where the engine makes the block as large as a state's page whatever is asked for."""
    if result.config.is_hybrid:
        return ()
    return tuple(size for size in _BLOCK_SIZES if size != result.block_size)


def _padded_share(used: Plan) -> float:
    cost = used.request_cost
    total = sum(cost.at_max_model_len.values()) if cost else 0
    if cost is None or not total:
        return 0.0
    padded = ("growing_padding", "bounded_padding", "page_rounding")
    return sum(cost.at_max_model_len.get(key, 0) for key in padded) / total


def _best(
    aim: str, changes: Iterable[Change], request: PlanRequest, used: Plan, run: Callable[[PlanRequest], Result]
) -> Advice | None:
    """The change that gains the most; of equal ones the first, and one flag before two."""
    best: Advice | None = None
    most = 0.0
    for change in changes:
        if best is not None and len(change.flags()) > len(best.flags):
            break
        after = _planned(change, aim, request, run)
        gained = 0.0 if after is None else gain(used, after.plans[after.selected])
        enough = after is not None and (aim == STARTING or gained >= _LEAST_GAIN)
        if after is not None and enough and (best is None or gained > most):
            best, most = Advice(aim, change.flags(), used, after.plans[after.selected], after.selected), gained
    return best


def _planned(change: Change, aim: str, request: PlanRequest, run: Callable[[PlanRequest], Result]) -> Result | None:
    """The deployment with the change; None where vLLM refuses it, or where it does not come to what is aimed at."""
    try:
        made = run(change.of(request))
    except KvplanError:
        return None
    after = made.plans[made.selected]
    if after.error is not None or not after.groups or (aim == PACKING and made.selected != PACKED):
        return None
    return made


def gain(before: Plan, after: Plan) -> float:
    """What a change gains, as a fraction: of requests of max_model_len at once, or of a request's bytes.

    Without a budget it is how many more requests the same bytes hold.
    """
    if before.max_concurrency and after.max_concurrency:
        return after.max_concurrency / before.max_concurrency - 1
    own, other = request_bytes(before), request_bytes(after)
    return own / other - 1 if own and other else 0.0


def request_bytes(made: Plan) -> int:
    """Bytes of the blocks that one request of max_model_len holds."""
    return (made.bytes_per_block or 0) * (made.blocks_per_request or 0)
