"""Recurrent state: the backends of Mamba-like layers (vllm/v1/attention/backends/*mamba*, gdn_attn.py, linear_attn.py).

They run whole manager blocks: a state is one page, never split.
"""

from __future__ import annotations

from kvplan.backends.base import Backend, BackendEnv


class StateBackend(Backend):
    """What the state backends share: any block size, any layout."""

    ssm = True


class Mamba1Attn(StateBackend):
    key = name = "MAMBA1_ATTN"


class Mamba2Attn(StateBackend):
    key = name = "MAMBA2_ATTN"

    def supports_device_query_lens(self, env: BackendEnv) -> bool:
        return not env.use_replayssm


class GDNAttn(StateBackend):
    """Gated delta nets, and Kimi's delta attention before K3."""

    key = name = "GDN_ATTN"


class KimiK3KDA(StateBackend):
    """vllm/models/kimi_k3/nvidia/kda_metadata.py."""

    key = name = "KIMI_K3_KDA"

    def supports_device_query_lens(self, env: BackendEnv) -> bool:
        return True


class LinearAttn(StateBackend):
    key = name = "LINEAR_ATTN"


class BailingLinearAttn(StateBackend):
    key = name = "BAILING_LINEAR_ATTN"


class ShortConvAttn(StateBackend):
    key = name = "SHORT_CONV_ATTN"


class PleShortConvAttn(StateBackend):
    key = name = "PLE_SHORT_CONV_ATTN"
