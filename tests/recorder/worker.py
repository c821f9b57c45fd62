"""One pipeline stage: its part of the target, the drafter on the last stage, and what it reports to the engine."""

from __future__ import annotations

import contextlib
import copy
from types import SimpleNamespace
from typing import Any

from . import describe, ranks
from .meta import DEVICE, on_meta


class Stage:
    """A worker of rank 0 of its stage, with its own copy of the deployment's config."""

    def __init__(self, config: Any, index: int) -> None:
        from vllm.config import set_current_vllm_config
        from vllm.model_executor.model_loader import get_model_loader
        from vllm.platforms import current_platform
        from vllm.v1.worker.workspace import init_workspace_manager

        self.config = config
        self.index = index
        ranks.install(config.parallel_config, index)
        init_workspace_manager(DEVICE)
        last = index == config.parallel_config.pipeline_parallel_size - 1
        with set_current_vllm_config(config):
            drafting = _speculator(config) if config.speculative_config is not None and last else None
            loader = get_model_loader(config.load_config)
            model = loader.load_model(vllm_config=config, model_config=config.model_config)
            if config.speculative_config is not None:
                _prepare_target(config, model)
            if hasattr(drafting, "load_model"):
                _load_drafter(config, drafting, model)
        current_platform.update_block_size_for_backend(config)
        with set_current_vllm_config(config):
            self.specs = self._specs()
            self.layouts = self._layouts()

    def _specs(self) -> dict[str, Any]:
        from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
        from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

        register_all_kvcache_specs(self.config)
        return get_kv_cache_spec(self.config)

    def _layouts(self) -> list[str]:
        from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
        from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts

        return [layout.name for layout in get_supported_kv_cache_layouts(get_current_attn_backends(self.config))]

    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """Name and description of every layer with a cache, in the engine's order."""
        from vllm.config import set_current_vllm_config

        modules = attention_modules(self.config)
        with set_current_vllm_config(self.config):
            return [(name, describe.layer_row(modules[name], spec, self.index)) for name, spec in self.specs.items()]

    def bind(self, cache: Any, layout: str) -> list[int]:
        """Bind a planned cache to the layers, as the worker does. Returns the groups' kernel block sizes.

        Raises what the worker would raise where the backends cannot read such a cache.
        """
        from vllm.config import set_current_vllm_config
        from vllm.v1.worker.gpu import attn_utils

        cache = copy.deepcopy(cache)  # layers that share another's cache are added to its groups
        self.config.cache_config.kv_cache_layout = layout
        ranks.install(self.config.parallel_config, self.index)
        with set_current_vllm_config(self.config), _no_metadata_builders(attn_utils), on_meta():
            groups, _, kernel_block_sizes = attn_utils.init_attn_backend(cache, self.config, DEVICE)
            attn_utils.init_kv_cache(
                self.config.compilation_config.static_forward_context,
                cache,
                DEVICE,
                kernel_block_sizes,
                self.config,
                attn_groups=[group for members in groups for group in members],
            )
        return list(kernel_block_sizes)


def attention_modules(config: Any) -> dict[str, Any]:
    """Every module with an attention or state cache, by name, in the order of construction."""
    from vllm.config import get_layers_from_vllm_config
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase

    return get_layers_from_vllm_config(config, AttentionLayerBase)


@contextlib.contextmanager
def _no_metadata_builders(attn_utils: Any) -> Any:
    """Attention groups find their kernel block, but make no builders: those hold GPU buffers."""
    from vllm.v1.worker.utils import AttentionGroup, select_common_block_size

    def choose_kernel_block(group: Any, *args: Any, kernel_block_size: int | None = None, **kwargs: Any) -> None:
        spec = group.kv_cache_spec
        if kernel_block_size is not None and describe.KINDS[type(spec).__name__] != "mamba":
            size = select_common_block_size(kernel_block_size, [group.backend], [spec])
            group.kernel_block_size = None if size == spec.block_size else size

    saved = AttentionGroup.create_metadata_builders, attn_utils.get_attn_cg_support
    AttentionGroup.create_metadata_builders = choose_kernel_block
    attn_utils.get_attn_cg_support = lambda *args, **kwargs: None
    try:
        yield
    finally:
        AttentionGroup.create_metadata_builders, attn_utils.get_attn_cg_support = saved


def _speculator(config: Any) -> Any:
    """The object that loads the drafter: of the runner that vLLM would take for this deployment."""
    if not config.use_v2_model_runner:
        return _proposer(config)
    from vllm.v1.worker.gpu import buffer_utils
    from vllm.v1.worker.gpu.spec_decode import init_speculator

    buffer_utils.is_uva_available = lambda: False
    with on_meta():
        return init_speculator(config, DEVICE, None)


def _proposer(config: Any) -> Any:
    """The drafting object of the older runner, which vLLM takes for what the newer one lacks (parallel EAGLE)."""
    speculative = config.speculative_config
    if speculative.method in ("suffix", "ngram", "ngram_gpu", "custom_class"):
        return None
    if speculative.uses_draft_model():
        from vllm.v1.spec_decode.draft_model import DraftModelProposer as Proposer
    else:
        from vllm.v1.spec_decode.eagle import EagleProposer as Proposer
    runner = SimpleNamespace(device=DEVICE, pin_memory=False, uses_mrope=False, uses_xdrope_dim=0)
    with on_meta():
        return Proposer(config, DEVICE, runner)


def _prepare_target(config: Any, model: Any) -> None:
    """Ask the target for the hidden states that the drafter reads; vLLM refuses targets that have none to give."""
    from vllm.v1.worker.gpu.spec_decode.eagle import eagle3_utils

    speculative = config.speculative_config
    if eagle3_utils.requires_aux_hidden_states(speculative):
        pipelined = config.parallel_config.pipeline_parallel_size > 1
        eagle3_utils.set_eagle3_aux_hidden_state_layers(model, speculative, pipelined)


def _load_drafter(config: Any, drafting: Any, model: Any) -> None:
    """Load the drafter beside the target, and mark its layers."""
    before = set(attention_modules(config))
    with on_meta():
        drafting.load_model(model)
    modules = attention_modules(config)
    for name in modules.keys() - before:
        modules[name].is_draft_layer = True
