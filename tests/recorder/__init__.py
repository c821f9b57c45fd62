"""Records what an installed vLLM plans for a deployment, on a machine without a GPU.

vLLM's own Python code runs: its flag defaults and checks, model classes, attention backends, block-size alignment,
layout resolution, grouping, capacity and the binding of the cache. Faked is only what a GPU would be needed for:

- ``device``: a CUDA device that answers with a bundled GPU's capability, memory and name;
- ``stubs``: stand-ins for compiled kernels and for packages that only import beside CUDA;
- ``meta``: tensors without memory, so that models of any size are built in a second;
- ``ranks``: parallel groups of any size in one process;
- ``checkpoint``: the bundled configs as directories that vLLM reads;
- ``worker``: one pipeline stage: models, drafter, specs, backends;
- ``groupings``: the groupings that vLLM 0.33.0 does not have or would not choose;
- ``startup``: the engine's start-up from specs to a bound cache, under each grouping;
- ``describe``, ``fold``: specs, groups and plans as plain values, in a compact form;
- ``case``: a deployment to record;
- ``files``: where its golden goes.

`python -m tests.recorder --help`; docs/renewing-goldens.md says what to install.
"""
