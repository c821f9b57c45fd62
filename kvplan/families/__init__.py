"""Model families: which of a config's fields decide which layer's cache, one small file per family.

A family file has, at module level:

- ``ARCHITECTURES``: the vLLM architecture names that it plans (a tuple of string literals);
- ``DEFAULTS``: for each Hugging Face ``model_type``, the defaults of its config class that the family reads;
- ``TRAITS``: how the engine treats the architecture (optional; see `Traits`), or a function
  ``traits(architecture)`` where the architectures of the file differ;
- ``layers(model)``: the declarations of `kvplan.layers`, in the order in which vLLM creates them.

Adding a family is adding such a file: it is found by the architecture names in it.
"""

from kvplan.families.registry import Traits, architectures, find, traits

__all__ = ["Traits", "architectures", "find", "traits"]
