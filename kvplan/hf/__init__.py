"""Reading a Hugging Face config.json: checked types, and the defaults and computations of its config class.

`read(source)` gives the two configs that vLLM works with, `Reading(root, text)`: the whole config.json and its text
model's part (the same object for a text-only model), each a `Config` of checked reads. `read_drafter(source)` does the
same for a drafter. Neither imports transformers unless the model type is one that the table (defaults.jsonl) lacks.
"""

from kvplan.hf.config import Config
from kvplan.hf.reading import read, read_drafter
from kvplan.hf.sections import Reading

__all__ = ["Config", "Reading", "read", "read_drafter"]
