"""kvplan/check/fleet.schema.json: what editors complete and check in the files of `kvplan check`.

    python scripts/fleet_schema.py            # say whether the file is that of the code; exit code 1 if not
    python scripts/fleet_schema.py --update   # write it

The schema is as the code: own keys and limits of kvplan/check/fleet.py, vLLM's options of kvplan/serve. It turns away
nothing that the command takes where a value has the type of its option; the command itself says more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kvplan.check import fleet
from kvplan.gpus import GPUS
from kvplan.layout import LAYOUTS
from kvplan.selection import ENGINES
from kvplan.serve.flags import VLLM_VERSION
from kvplan.serve.flagtable import Flag, flag_of, option_strings
from kvplan.serve.touch import touch_of

PATH = Path(__file__).resolve().parent.parent / "kvplan" / "check" / "fleet.schema.json"

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 1}
AMOUNT = {"type": "number", "minimum": 0}
TYPES: dict[str, dict[str, Any]] = {
    "fraction": {
        "anyOf": [{"type": "number", "minimum": 0, "exclusiveMaximum": 1}, {"type": "string", "pattern": "%\\s*$"}]
    },
    "size": {"anyOf": [{"type": "integer", "minimum": 0}, TEXT]},
    "scalar": {"type": ["string", "number", "boolean"]},
    "whole": {"type": ["integer", "string"]},
    "number": {"type": ["number", "string"]},
    "text": {"type": ["string", "number"]},
    "mapping": {"type": ["object", "string", "number", "boolean"]},  # vLLM reads such flags as any JSON
    "list": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/scalar"}}, {"type": ["string", "number"]}]},
}

OWN = {
    "name": ({"type": "string", "minLength": 1, "maxLength": 200}, "How the deployment is called; unique in the file."),
    "serve": (TEXT, "A line that starts vLLM; in place of model and options."),
    "model": (TEXT, "A path, a bundled id or a hub id; vLLM's options stand beside it."),
    "gpu": ({"anyOf": [{"enum": sorted(gpu.name for gpu in GPUS)}, TEXT]}, "`kvplan gpus` lists them."),
    "engine": ({"enum": list(ENGINES)}, "Engine rules."),
    "kv_cache_memory": (
        {"anyOf": [{"$ref": "#/$defs/size"}, {"type": "array", "items": {"$ref": "#/$defs/size"}}]},
        "KV cache memory of a rank, as 60GiB; a list: one for each pipeline stage. "
        "Without it the GPU gives the budget.",
    ),
    "non_kv_memory": (
        {"$ref": "#/$defs/size"},
        "What a start-up takes of a rank besides weights and KV cache; then the GPU gives the budget.",
    ),
    "limits": ({"$ref": "#/$defs/limits"}, "What must hold."),
    "capacity_loss": (
        {"$ref": "#/$defs/fraction"},
        "Loss of tokens against the lock that is no failure; 1% by default.",
    ),
    "drafter": (TEXT, "A path, a bundled id or a hub id."),
    "method": (TEXT, "Speculative method, where the drafter does not tell it."),
    "num_speculative_tokens": (COUNT, "Tokens drafted at a time."),
    "kv_cache_layout": (TEXT, "As the variable VLLM_KV_CACHE_LAYOUT."),
    "env": (
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/scalar"}},
        "VLLM_* environment variables of the deployment.",
    ),
}

LIMITS = {
    "min_tokens": (AMOUNT, "Tokens that vLLM logs as the size of the KV cache."),
    "min_concurrency": (
        {
            "anyOf": [
                AMOUNT,
                {
                    "type": "object",
                    "properties": {"requests": AMOUNT, "length": COUNT},
                    "required": ["requests"],
                    "additionalProperties": False,
                },
            ]
        },
        "Requests at once; of max_model_len, or of a length in tokens.",
    ),
    "max_growing_padding_fraction": (
        {"$ref": "#/$defs/fraction"},
        "Padding per token over the useful bytes per token.",
    ),
    "max_groups": (AMOUNT, "Groups of layers."),
    "must_start": ({"type": "boolean"}, "false: it need not start."),
    "min_prefix_hit_tokens": (AMOUNT, "Prompts of this many tokens must be able to hit the prefix cache."),
    "layout": ({"enum": list(LAYOUTS)}, "The KV cache layout."),
}


def schema() -> dict[str, Any]:
    """The schema of a file of deployments. One object holds all keys, for editors that know older drafts only."""
    options, negatives = _options()
    dashed = [key.replace("_", "-") for key in options if "_" in key]
    keys = {
        "type": "object",
        "properties": {
            key: value if key in fleet.NOT_DEFAULTS else _or_null(value)
            for key, value in {**_described(OWN, fleet.OWN_KEYS), **options}.items()
        },
        "patternProperties": {_one_of(dashed): True, _one_of(negatives): {"enum": [True, None]}},
        "additionalProperties": False,
    }
    forbidden = [{"required": [key]} for key in sorted(fleet.NOT_DEFAULTS)]
    alone = {"required": ["serve"], "propertyNames": {"enum": list(fleet.OWN_KEYS)}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Deployments for kvplan check (vLLM {VLLM_VERSION})",
        "type": "object",
        "required": ["deployments"],
        "additionalProperties": False,
        "properties": {
            "defaults": {
                "description": "What every deployment has that does not give it itself.",
                "allOf": [{"$ref": "#/$defs/keys"}, {"not": {"anyOf": forbidden}}],
            },
            "deployments": {
                "type": "array",
                "minItems": 1,
                "maxItems": fleet.MAX_DEPLOYMENTS,
                "items": {
                    "allOf": [
                        {"$ref": "#/$defs/keys"},
                        {"required": ["name"], "oneOf": [alone, {"required": ["model"]}]},
                    ]
                },
            },
        },
        "$defs": {
            **TYPES,
            "limits": {
                "type": "object",
                "properties": {key: _or_null(value) for key, value in _described(LIMITS, fleet.LIMITS).items()},
                "additionalProperties": False,
            },
            "keys": keys,
        },
    }


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a key that null may take a default away from."""
    kept = {key: value for key, value in schema.items() if key == "description"}
    return {"anyOf": [{key: value for key, value in schema.items() if key not in kept}, {"type": "null"}], **kept}


def _one_of(names: list[str]) -> str:
    return f"^({'|'.join(sorted(names))})$"


def _described(known: dict[str, tuple[dict[str, Any], str]], names: tuple[str, ...]) -> dict[str, Any]:
    """The keys that the code names, each with its description; KeyError for one that this script does not know."""
    return {name: {**known[name][0], "description": known[name][1]} for name in names}


def _options() -> tuple[dict[str, Any], list[str]]:
    """vLLM's options by key, those that touch the KV cache first; and the keys that switch one off, both spellings."""
    found: dict[str, tuple[bool, dict[str, Any]]] = {}
    negatives: list[str] = []
    for text in option_strings():
        flag = flag_of(text)
        key = text[2:].replace("-", "_")
        if not text.startswith("--") or flag.kind == "help" or key in fleet.OWN_KEYS:
            continue
        if flag.nargs == "0" and not flag.sets:
            negatives += [key, text[2:]]
            continue
        touch = touch_of(flag.dest)
        words = {"planned": "Touches the KV cache", "refused": "Only with its default"}
        told = f"{words.get(touch.kind, 'Does not change the plan')}: {touch.why}."
        found[key] = (touch.kind != "planned", {**_type(flag), "description": told})
    found["min_kv_cache_group_layers"] = (
        False,
        {"$ref": "#/$defs/whole", "description": "Of vLLM pull request 58207."},
    )
    return {key: found[key][1] for key in sorted(found, key=lambda key: (found[key][0], key))}, negatives


def _type(flag: Flag) -> dict[str, Any]:
    """What a key may hold: the words of the flag, or its YAML value."""
    kind = flag.kind.removeprefix("opt:")
    if flag.nargs == "0":
        return {"type": "boolean"} if flag.kind == "bool" else {"const": True}
    if flag.nargs == "+" or kind in ("devices", "append:str"):
        return {"$ref": "#/$defs/list"}
    if flag.choices and kind == "str" and flag.nargs == "":
        none = ["None", ""] if flag.kind.startswith("opt:") else []
        return {"enum": [*flag.choices, *none, *(int(choice) for choice in flag.choices if choice.isdecimal())]}
    names = {"int": "whole", "float": "number", "size": "whole", "size-or-auto": "whole"}
    if kind in ("json", "dict-or-str") or kind.startswith("config:"):
        return {"$ref": "#/$defs/mapping"}
    return {"$ref": f"#/$defs/{names.get(kind, 'scalar' if flag.nargs == '?' else 'text')}"}


def text() -> str:
    """The file: a key of a deployment on a line."""
    document = schema()
    properties = document["$defs"]["keys"]["properties"]
    document["$defs"]["keys"]["properties"] = {}
    lines = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in properties.items())
    out = json.dumps(document, indent=1, ensure_ascii=False)
    return out.replace('"properties": {}', f'"properties": {{\n{lines}\n   }}') + "\n"


def main() -> int:
    if "--update" in sys.argv[1:]:
        PATH.write_text(text(), encoding="utf-8")
        return 0
    if not PATH.exists() or PATH.read_text(encoding="utf-8") != text():
        print(f"{PATH.name} is not that of the code; run {Path(__file__).name} --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
