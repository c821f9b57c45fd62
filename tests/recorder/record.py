"""From a case to a golden."""

from __future__ import annotations

import copy
import json
import os
import traceback
from collections.abc import Callable
from typing import Any

from . import checkpoint, describe, device, fold, groupings, meta, ranks, startup, stubs
from .case import Case

_REFUSALS = (ValueError, AssertionError, RuntimeError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What stops vLLM before it has specs. A missing package is not among them: that is this environment's fault."""
_BROKEN = "failed to be inspected"
"""What vLLM says of a model class that this environment cannot import: no refusal, whatever the deployment."""
OWN_OPTIONS = ("min_kv_cache_group_layers",)


def in_child(work: Callable[[], dict[str, Any]], quiet: bool = True) -> dict[str, Any]:
    """What ``work`` returns, computed in a forked process, so that it leaves nothing behind in this one.

    RuntimeError where the child died.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            if quiet:
                silence = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silence, 1)
            with os.fdopen(writing, "w") as pipe:
                json.dump(work(), pipe)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        raise RuntimeError(f"the recording process ended with status {status}")
    made: dict[str, Any] = json.loads(text)
    return made


def prepare(hub_cache: str, packages: str | None = None) -> None:
    """Import what every case needs, once: cases are recorded in forks of this process.

    ``hub_cache`` is all that vLLM finds of the Hugging Face hub; ``packages`` is a directory with packages that are not
    installed beside vLLM.
    """
    from kvplan import gpus

    os.environ |= {"HF_HUB_CACHE": hub_cache, "HF_HUB_OFFLINE": "1"}
    device.install(gpus.find("B200"), packages)
    ranks.prepare()
    import vllm.engine.arg_utils
    import vllm.model_executor.models.registry as registry
    import vllm.v1.engine.core  # noqa: F401

    # vLLM inspects model classes in a child process, which would lack the device.
    registry._run_in_subprocess = lambda function: function()
    meta.register_loader()
    stubs.install_tokenizer()


def vllm_version() -> str:
    import vllm

    return str(vllm.__version__)


def record(case: Case, checkpoints: checkpoint.Checkpoints, verbose: bool = False) -> dict[str, Any]:
    """The golden of a case: its fields, and what vLLM makes of it or the step at which it stops.

    ``verbose``: show on stderr where vLLM stopped.
    """
    from kvplan import gpus

    os.environ.update(case.env)
    device.attach(gpus.find(case.gpu))
    golden: dict[str, Any] = {"id": case.id, **case.fields(), "architecture": None}
    step = "options"
    try:
        config = _config(case, checkpoints)
        golden["architecture"] = config.model_config.architecture
        resolved = describe.resolved_options(config)
        step = "model"
        stages = _stages(config)
    except _REFUSALS as error:
        if _BROKEN in str(error):
            raise
        if verbose:
            traceback.print_exc()
        return {**golden, "error": describe.failure(error, step)}
    if resolved["kv_cache_dtype"] == "auto" and stages[0].config.cache_config.cache_dtype == "fp8":
        resolved["kv_cache_dtype"] = "fp8"  # the first layer of a checkpoint with KV scales sets it for all
    return golden | {"resolved": resolved} | _planned(case, config, stages)


def _config(case: Case, checkpoints: checkpoint.Checkpoints) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    options = {key: value for key, value in case.options.items() if key not in OWN_OPTIONS}
    directory = checkpoints.path(case.model)
    named = [directory]
    drafting = options.get("speculative_config")
    if drafting and checkpoints.has(drafting.get("model")):
        named.append(checkpoints.path(drafting["model"]))
        options["speculative_config"] = {**drafting, "model": named[-1]}
    for path in named:
        with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
            checkpoint.register_unknown_types(json.load(file))
    args = EngineArgs(model=directory, skip_tokenizer_init=True, load_format=meta.LOAD_FORMAT, **options)
    return args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)


def _stages(config: Any) -> list[Any]:
    from .worker import Stage

    count = config.parallel_config.pipeline_parallel_size
    alone = config.parallel_config.world_size == 1
    return [Stage(config if alone else copy.deepcopy(config), index) for index in range(count)]


def _planned(case: Case, config: Any, stages: list[Any]) -> dict[str, Any]:
    layers = [row for stage in stages for row in stage.rows()]
    specs, folded = fold.fold_layers(layers)
    memory = case.memory(len(stages))
    minimum = case.options.get("min_kv_cache_group_layers", 3)

    def begin(grouping: str, layout: str | None) -> dict[str, Any]:
        return in_child(lambda: startup.start(config, stages, memory, grouping, layout, minimum), quiet=False)

    own = begin(groupings.MAIN, None)
    out = {
        "block_sizes": describe.block_sizes(stages[0].config),
        "drafter": describe.drafter(config),
        "layout_candidates": stages[0].layouts,
        "specs": specs,
        "layers": folded,
    }
    if "layout" not in own:
        return out | {"error": own["error"]}
    layout = own["layout"]
    plans = {}
    for grouping in groupings.GROUPINGS:
        under = groupings.layout_of(grouping, layout)
        plans[grouping] = own if grouping == groupings.MAIN and under == layout else begin(grouping, under)
    names = [name for name, _ in layers]
    return out | {"layout": layout, "plans": fold.fold_plans(plans, names, groupings.MAIN)}
