"""A config that was found: what it is called, where it lies, and its parsed files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

PATH, BUNDLED, CACHE, HUB = "path", "bundled", "cache", "hub"
"""Values of `Source.source`."""

READ_BESIDE = (
    "quant_config.json",
    "quantize_config.json",
    "quantization_config.json",
    "modules.json",
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
    "joint_head_config.json",
    "decision_config.json",
)
"""Endings of the files beside config.json that bear on a plan: quantisation (hf_quant_config.json among them, and for
AWQ any name that ends so), what makes the model an embedding or a schema model, a length of its own."""
_NO_FACTS: Mapping[str, Any] = {}


class Source:
    """One resolved model or drafter. Its config is parsed; further files of it are read when asked for."""

    def __init__(
        self,
        id: str,
        source: str,
        config: Mapping[str, Any],
        where: str,
        *,
        folder: str | None = None,
        read_file: Callable[[str], Any] | None = None,
        names: Callable[[], Iterable[str]] | None = None,
        facts: Mapping[str, Any] = _NO_FACTS,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.id = id
        """The model's id (owner/name), or the path as given for a local one."""
        self.source = source
        """path | bundled | cache | hub."""
        self.config = config
        """The parsed config.json: untrusted, read it through `kvplan.hf`."""
        self.where = where
        """What errors call the file: a path, or the id with the kind of source."""
        self.folder = folder
        """The local directory with the model's files, where there is one (weights may lie in it)."""
        self.facts = facts
        """What a bundled file says besides the config: where its numbers come from, ``tensor_bytes``, its ``lacks``."""
        self.notes = notes
        """What the user should know of how the config was found."""
        self._read_file = read_file
        self._names = names

    def file(self, name: str) -> Any:
        """The JSON of a further small file of the model (generation_config.json, ...); None where there is none.

        KvplanError when the file is there but cannot be read.
        """
        return self._read_file(name) if self._read_file is not None else None

    @cached_property
    def beside(self) -> Mapping[str, Any]:
        """The files beside config.json that vLLM reads before it plans (`READ_BESIDE`), by name.

        One is read when it is asked for: KvplanError where it cannot be.
        """
        return _Files(sorted(name for name in self.names if name.endswith(READ_BESIDE)), self.file)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of the model's files at the top of its directory or repository, where they can be listed."""
        return frozenset(self._names() if self._names is not None else ())

    @property
    def has_mistral_format(self) -> bool:
        """Whether vLLM prefers params.json: its weights lie beside it (transformers_utils/repo_utils.py)."""
        weights = (name.startswith("consolidated") and name.endswith(".safetensors") for name in self.names)
        return "params.json" in self.names and any(weights)

    @property
    def lacks_quantization(self) -> bool:
        """Whether the checkpoint is quantised, and this copy of its config does not say how."""
        return "quantization" in self.facts.get("lacks", ())

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the config in canonical JSON: the same for every spelling of the same content."""
        import hashlib
        import json

        text = json.dumps(self.config, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Source(id={self.id!r}, source={self.source!r}, where={self.where!r})"


class _Files(Mapping[str, Any]):
    """Files by name, each read when it is asked for."""

    def __init__(self, names: Sequence[str], read: Callable[[str], Any]) -> None:
        self._names = names
        self._read = read
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._read(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
