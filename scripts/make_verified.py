"""Write kvplan/verified.json, what `kvplan models` says was verified, from the goldens in tests/goldens.

python scripts/make_verified.py           # write it
python scripts/make_verified.py --check   # exit code 1 where it is out of date
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from kvplan.families import architectures  # noqa: E402

GOLDENS = ROOT / "tests" / "goldens"
BUNDLED = ROOT / "model_configs"
OUTPUT = ROOT / "kvplan" / "verified.json"


def planned() -> Iterator[tuple[str, dict[str, Any]]]:
    """vLLM's version and golden of every deployment that it planned."""
    for path in sorted(GOLDENS.glob("*.jsonl")):
        if path.stem == "cases":
            continue
        head, *goldens = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        yield from ((head["vllm"], golden) for golden in goldens if "error" not in golden)


def features(golden: dict[str, Any]) -> set[str]:
    """The options that a deployment sets, and the values of those that stand for a feature of their own."""
    options = {**golden.get("options", {}), **golden.get("env", {})}
    speculative = options.pop("speculative_config", None)
    found = set(options)
    if "kv_cache_dtype" in options:
        found.add(f"kv_cache_dtype={options['kv_cache_dtype']}")
    if speculative:
        found.add(f"speculative_config.method={golden['drafter']['method']}")
    return found


def is_bundled(id: str | None) -> bool:
    return isinstance(id, str) and (BUNDLED / f"{id.replace('/', '__')}.json").is_file()


def named_architecture(id: str | None) -> str | None:
    """The architecture that a config itself names; vLLM resolves some to a class of another name."""
    for folder, file in ((BUNDLED, f"{str(id).replace('/', '__')}.json"), (GOLDENS / "configs", f"{id}.json")):
        if (folder / file).is_file():
            named = json.loads((folder / file).read_text(encoding="utf-8")).get("architectures")
            return str(named[0]) if named else None
    return None


def subjects(golden: dict[str, Any]) -> Iterator[tuple[str, str, str | None]]:
    """Kind, architecture and id of the models of a deployment; a drafter also under the name in its own config.

    A speculators drafter that is served in its target's place is the drafter, and its target has no id.
    """
    drafter = golden["drafter"]
    drafting = golden.get("options", {}).get("speculative_config")
    served_alone = drafter is not None and drafting is None
    yield "target", golden["architecture"], None if served_alone else golden["model"]
    if drafter and drafter["architecture"]:
        id = golden["model"] if drafting is None else drafting.get("model")
        if drafter["method"] == "draft_model":
            yield "target", drafter["architecture"], id  # a plain draft model is a target's class
            return
        for name in {drafter["architecture"], named_architecture(id)} & architectures("drafters").keys():
            yield "drafter", name, id


def content() -> str:
    """The file's text."""
    counts: dict[tuple[str, str], int] = defaultdict(int)
    sets: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for version, golden in planned():
        for kind, architecture, id in subjects(golden):
            key = (kind, architecture)
            counts[key] += 1
            sets[key]["engine_versions"].add(version)
            sets[key]["gpus"].add(golden.get("gpu", "B200"))
            sets[key]["features"] |= features(golden)
            sets[key]["bundled"] |= {id} if id is not None and is_bundled(id) else set()
    out: dict[str, dict[str, Any]] = {"target": {}, "drafter": {}}
    for (kind, architecture), number in sorted(counts.items()):
        lists = {name: sorted(values, key=str.lower) for name, values in sets[kind, architecture].items()}
        out[kind][architecture] = {"goldens": number, **lists}
    return json.dumps(out, indent=1) + "\n"


def main() -> int:
    text = content()
    if "--check" in sys.argv[1:]:
        same = OUTPUT.is_file() and OUTPUT.read_text(encoding="utf-8") == text
        print("up to date" if same else f"{OUTPUT.name} is out of date; run python scripts/make_verified.py")
        return 0 if same else 1
    OUTPUT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
