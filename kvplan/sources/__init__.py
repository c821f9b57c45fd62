"""Where a config comes from: a local path, the bundled files, the Hugging Face cache, or the hub.

`resolve(name, offline=...)` finds a model or drafter in that order and returns a `Source`: its id, where it was found,
and the parsed config.json. The network is used only when nothing local has the name, and never with ``offline``; no
remote code is ever loaded. Every failure is a `KvplanError` of one sentence.

Reading the fields is `kvplan.hf`'s part.
"""

from kvplan.sources.resolve import resolve
from kvplan.sources.source import Source

__all__ = ["Source", "resolve"]
