"""Model configs as directories that vLLM reads, and classes for model types that only a repository's code knows."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from kvplan.sources import resolve
from kvplan.sources.bundled import find

_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")


class Checkpoints:
    """Directories with the files of models, made when first asked for and gone with this object."""

    def __init__(self, extra_configs: Path | None = None) -> None:
        self._root = tempfile.TemporaryDirectory(prefix="kvplan-recorder-")
        self._extra = extra_configs

    def close(self) -> None:
        """Remove the directories now."""
        self._root.cleanup()

    def _extra_file(self, name: str) -> Path | None:
        file = self._extra / f"{name}.json" if self._extra else None
        return file if file is not None and file.is_file() else None

    def has(self, name: object) -> bool:
        """Whether the name is an id or that of an extra config, and not a method such as ``ngram``."""
        return isinstance(name, str) and ("/" in name or self._extra_file(name) is not None)

    def path(self, name: str) -> str:
        """The directory of a bundled id, or of a file ``name``.json among the extra configs."""
        folder = Path(self._root.name) / name.replace("/", "__")
        if not folder.exists():
            source = resolve(str(self._extra_file(name) or name), offline=True)
            folder.mkdir()
            files = {"config.json": source.config, **source.facts.get("files", {})}
            for file, content in files.items():
                (folder / file).write_text(json.dumps(content))
            self._cache_target(source.config.get("speculators_config"))
        return str(folder)

    @property
    def hub_cache(self) -> str:
        """A Hugging Face cache with the targets that speculators drafters name: vLLM takes these by id only."""
        return str(Path(self._root.name) / "hub")

    def _cache_target(self, speculators: Any) -> None:
        target = ((speculators or {}).get("verifier") or {}).get("name_or_path")
        if isinstance(target, str) and find(target) is not None:
            cached = Path(self.hub_cache) / f"models--{target.replace('/', '--')}"
            (cached / "refs").mkdir(parents=True, exist_ok=True)
            (cached / "refs" / "main").write_text("0")
            (cached / "snapshots").mkdir(exist_ok=True)
            if not (cached / "snapshots" / "0").exists():
                (cached / "snapshots" / "0").symlink_to(self.path(target))


def register_unknown_types(config: Any) -> None:
    """Give every unknown ``model_type`` in a config a class that keeps the config's fields as attributes."""
    from transformers import AutoConfig, PretrainedConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    for section in (config, *(config.get(key) for key in _NESTED)):
        if not isinstance(section, dict):
            continue
        name = section.get("model_type")
        if isinstance(name, str) and name not in CONFIG_MAPPING and name not in _CONFIG_REGISTRY:
            AutoConfig.register(name, _attributes_class(name, PretrainedConfig))


class _Attributes(dict[str, Any]):
    """An object of a JSON file whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def _part(fields: dict[str, Any], base: type) -> Any:
    """The nested config of a class that transformers knows, else one that keeps the fields."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    name = fields.get("model_type", "")
    return (CONFIG_MAPPING[name] if name in CONFIG_MAPPING else _attributes_class(name, base))(**fields)


def _attributes_class(model_type: str, base: type) -> type:
    """A config class whose attributes are the fields of the file, with its own names and no defaults."""

    def set_fields(self: Any, **fields: Any) -> None:
        blocks = fields.get("block_configs")
        if isinstance(blocks, list):  # read as attributes of attributes
            fields["block_configs"] = json.loads(json.dumps(blocks), object_hook=_Attributes)
        if isinstance(fields.get("llm_config"), dict):  # such classes build their parts themselves
            for part in ("llm_config", "vision_config"):
                fields[part] = _part(fields.get(part) or {}, base)
        base.__init__(self, **fields)

    return type("AttributesConfig", (base,), {"model_type": model_type, "__init__": set_fields})
