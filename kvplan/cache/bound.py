"""A backend with the environment it is asked in: what block sizes and specs need of it."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.backends.base import Backend, BackendEnv
from kvplan.spec import AttentionSpec, MultipleOf, Spec


class Bound(NamedTuple):
    """One attention backend of a worker."""

    backend: Backend
    env: BackendEnv

    @property
    def name(self) -> str:
        return self.backend.name

    @property
    def ssm(self) -> bool:
        return self.backend.ssm

    def kernel_block_sizes(self, spec: Spec | None = None) -> tuple[int | MultipleOf, ...]:
        return self.backend.kernel_block_sizes(self.env, spec)

    def layouts(self) -> tuple[str, ...] | None:
        return self.backend.layouts(self.env)

    def supports_block_size(self, block_size: int) -> bool:
        return self.backend.supports_block_size(self.env, block_size)

    def preferred_block_size(self, default: int) -> int:
        return self.backend.preferred_block_size(self.env, default)

    def customize(self, spec: AttentionSpec) -> AttentionSpec:
        return self.backend.customize(self.env, spec)
