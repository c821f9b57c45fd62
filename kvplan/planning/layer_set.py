"""Layers with their specs, equal specs held once: planning works on the few distinct specs, not on every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kvplan.spec import AttentionSpec, Spec


class CannotPlan(Exception):
    """vLLM's planning stops on these specs; the message is one sentence."""


class PagesCannotUnify(CannotPlan):
    """No common page size, where vLLM still tries to allocate every layer in full."""


class LayerSet(NamedTuple):
    """Layers in the engine's order, each a number, with interned specs."""

    specs: tuple[Spec, ...]
    """The distinct specs, in order of first use."""
    ids: Sequence[int]
    """For each layer, the position of its spec in ``specs``."""
    layers: Sequence[int]
    """The layers' numbers: their positions in the deployment."""

    def layers_by_spec(self) -> list[list[int]]:
        """The layers of each distinct spec, in the order of ``specs``."""
        out: list[list[int]] = [[] for _ in self.specs]
        for layer, spec_id in zip(self.layers, self.ids, strict=True):
            out[spec_id].append(layer)
        return out

    def mapped(self, change: Callable[[Spec], Spec]) -> LayerSet:
        """The same layers, each with its spec changed: one call per distinct spec."""
        return self.with_specs([change(spec) for spec in self.specs])

    def with_specs(self, specs: Sequence[Spec]) -> LayerSet:
        """The same layers with ``specs[i]`` in the place of the i-th distinct spec; equal ones become one."""
        position: dict[Spec, int] = {}
        new_ids = [position.setdefault(spec, len(position)) for spec in specs]
        if len(position) == len(specs):
            return self._replace(specs=tuple(specs))
        return self._replace(specs=tuple(position), ids=[new_ids[i] for i in self.ids])

    def where(self, keep: Callable[[Spec], bool]) -> LayerSet:
        """The layers whose spec passes ``keep``, in the same order."""
        kept = [keep(spec) for spec in self.specs]
        if all(kept):
            return self
        new_id = {old: new for new, old in enumerate(i for i, k in enumerate(kept) if k)}
        pairs = [(layer, new_id[i]) for layer, i in zip(self.layers, self.ids, strict=True) if kept[i]]
        return LayerSet(
            tuple(self.specs[i] for i in new_id), [spec_id for _, spec_id in pairs], [layer for layer, _ in pairs]
        )

    def spec_by_layer(self) -> dict[int, Spec]:
        """Each layer's spec, by the layer's number."""
        specs = self.specs
        return {layer: specs[i] for layer, i in zip(self.layers, self.ids, strict=True)}


def intern(specs: Iterable[Spec]) -> LayerSet:
    """The layers whose specs are given, numbered from 0. Specs get the row padding that vLLM adds as it builds them."""
    by_object: dict[int, int] = {}
    position: dict[Spec, int] = {}
    ids: list[int] = []
    for spec in specs:
        spec_id = by_object.get(id(spec))
        if spec_id is None:
            built = spec.with_row_padding() if isinstance(spec, AttentionSpec) else spec
            spec_id = by_object[id(spec)] = position.setdefault(built, len(position))
        ids.append(spec_id)
    return LayerSet(tuple(position), ids, range(len(ids)))


class Grouped(NamedTuple):
    """Layers that share one block table, before names and sizes are worked out (vLLM's KVCacheGroupSpec)."""

    layers: Sequence[int]
    spec: Spec
    """The merged spec, which stands for every layer; of a uniform-type group the first layer's."""
    layer_specs: tuple[Spec, ...] | None = None
    """A uniform-type group (UniformTypeKVCacheSpecs) keeps each layer's own spec: their pages may differ."""

    def counted_specs(self) -> list[tuple[Spec, int]]:
        """The specs that vLLM sizes the group's layers by, each with its number of layers."""
        if self.layer_specs is None:
            return [(self.spec, len(self.layers))]
        counts: dict[int, int] = {}
        by_object = {}
        for spec in self.layer_specs:
            key = id(spec)
            by_object[key] = spec
            counts[key] = counts.get(key, 0) + 1
        return [(by_object[key], count) for key, count in counts.items()]
