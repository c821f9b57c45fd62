"""The planning core: from layers with specs to groups, blocks and tokens, exactly as vLLM 0.33.0 plans them.

Pure: no files, no printing, no environment. `planner` runs the steps; `uniform_type` and `unify` say which specs can
share what, `uniform_page` and `packed` group them, `capacity` and `padding` count the result.
"""

from kvplan.planning.planner import (
    DEFAULT_MIN_GROUP_LAYERS,
    GROUPINGS,
    MAIN,
    PACKED,
    UNIFORM,
    plan_layers,
    plan_layout,
)

__all__ = ["DEFAULT_MIN_GROUP_LAYERS", "GROUPINGS", "MAIN", "PACKED", "UNIFORM", "plan_layers", "plan_layout"]
