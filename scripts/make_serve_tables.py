"""Write kvplan/serve/flags.py and kvplan/serve/fields.py from an installed vLLM: facts only.

    python scripts/make_serve_tables.py kvplan/serve && ruff format kvplan/serve

Run it in an environment where `import vllm` works. flags.py holds every flag of `vllm serve` as its own parser has it;
fields.py holds the keys, types and bounds of the config classes that a JSON flag takes.
"""

import dataclasses
import enum
import json
import sys
import types
import typing
from pathlib import Path

SCALARS = {int: "int", float: "float", bool: "bool", str: "str", type(None): "none", typing.Any: "any"}
BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}
# Flags that the parser keeps as plain JSON and vLLM turns into a config class afterwards.
LATER = {"speculative_config": "SpeculativeConfig", "watermark_config": "WatermarkConfig"}
LATER["diffusion_config"] = "DiffusionConfig"
# Classes whose bounds hold for flags of the same name, checked whenever the engine's config is made. LoRAConfig and
# MultiModalConfig are not among them: vLLM makes those only for adapters and for models that take images.
ENGINE_CLASSES = (
    "ModelConfig CacheConfig ParallelConfig SchedulerConfig UVAOffloadConfig PrefetchOffloadConfig ObservabilityConfig "
    "LoadConfig"
)
# Fields of these classes that the engine fills in; nobody writes them on a command line.
ENGINE_FILLED = {"SpeculativeConfig": ("target_", "draft_parallel_config")}
# Fields whose values no class checks: extract_hidden_states takes its layers from such a dict.
UNCHECKED = {"SpeculativeConfig": ("draft_model_config",)}


def serve_parser() -> typing.Any:
    """The parser of `vllm serve`."""
    from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))


def inner_callable(converter: typing.Any) -> typing.Any:
    """The converter that a closure such as optional_type(int) wraps."""
    cells = getattr(converter, "__closure__", None) or ()
    return next((cell.cell_contents for cell in cells if callable(cell.cell_contents)), None)


def kind_of(converter: typing.Any, classes: dict[str, type]) -> str:
    """The name under which kvplan/serve/values.py knows an argparse converter."""
    name = getattr(converter, "__name__", "")
    if converter in (None, str, int, float):
        return {None: "str", str: "str", int: "int", float: "float"}[converter]
    if name == "_optional_type":
        return "opt:" + kind_of(inner_callable(converter), classes)
    if name == "_parse_type":
        return kind_of(inner_callable(converter), classes)
    if name == "parse_dataclass":
        cls = converter.__defaults__[0]
        classes[cls.__name__] = cls
        return "config:" + cls.__name__
    if name == "<lambda>":
        return "devices" if isinstance(converter("0"), list) else "lower"
    return {
        "loads": "json",
        "union_dict_and_str": "dict-or-str",
        "human_readable_int": "size",
        "human_readable_int_or_auto": "size-or-auto",
        "parse_reasoning_parser": "str",
    }[name]


def plain_default(value: typing.Any) -> typing.Any:
    """A default as a literal; None where the parser holds an object or nothing."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bool | int | float | str) and value != "==SUPPRESS==":
        return value
    return None


def flag_row(action: typing.Any, strings: list[str], classes: dict[str, type]) -> tuple[str, str, str, typing.Any]:
    """(option strings, kind, choices, default) of one action; the strings that switch a bool off are derived later."""
    negative = set(getattr(action, "negative_option_strings", ()))
    positive = [text for text in strings if text not in negative]
    if negative != negative_strings(positive) and type(action).__name__ == "EnableDisableAction":
        raise SystemExit(f"{action.dest}: the option strings that switch it off follow another rule now")
    names = " ".join(positive)
    if type(action).__name__ == "EnableDisableAction":
        kind = "bool"
    elif type(action).__name__ == "_StoreTrueAction":
        kind = "true"
    elif type(action).__name__ == "_HelpAction":
        kind = "help"
    elif type(action).__name__ == "LoRAParserAction":
        kind = "lora+"
    else:
        kind = kind_of(action.type, classes) + (action.nargs or "")
        kind = "append:" + kind if type(action).__name__ == "_AppendAction" else kind
    if action.dest in LATER:
        kind = "opt:json"
    choices = " ".join(str(choice) for choice in action.choices or () if choice is not None)
    return names, kind, choices, plain_default(action.default)


def negative_strings(positive: list[str]) -> set[str]:
    """The rule by which kvplan/serve/flagtable.py derives the option strings that switch a bool off."""
    found = set()
    for text in positive:
        if text.startswith("--"):
            found.add("--no-" + text[2:])
        for prefix, inverse in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
            if text.startswith(prefix):
                found.add(inverse + text.removeprefix(prefix))
    return found


def flag_rows(parser: typing.Any, classes: dict[str, type]) -> dict[str, tuple[str, str, str, typing.Any]]:
    """Every action of the parser by its destination, with all the option strings that reach it."""
    strings: dict[str, list[str]] = {}
    for text, action in parser._option_string_actions.items():
        strings.setdefault(action.dest, []).append(text)
    return {
        action.dest: flag_row(action, strings[action.dest], classes)
        for action in parser._actions
        if action.dest in strings
    }


def bounds_of(metadata: typing.Iterable[typing.Any]) -> str:
    """Bounds such as '>0' or '>=1<=256' from pydantic's annotated-types metadata."""
    parts = []
    for item in metadata:
        parts += [
            sign + str(getattr(item, key)) for key, sign in BOUNDS.items() if getattr(item, key, None) is not None
        ]
    return "".join(parts)


def spec_of(hint: typing.Any, bounds: str, classes: dict[str, type]) -> list[str]:
    """The alternatives of a type hint, in the words of kvplan/serve/fields.py."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return spec_of(args[0], bounds + bounds_of(args[1:]), classes)
    if origin in (typing.Union, types.UnionType):
        return [alternative for arg in args for alternative in spec_of(arg, bounds, classes)]
    if origin is typing.Literal:
        return [("#" if isinstance(arg, int) else "=") + str(arg) for arg in args]
    if hint in SCALARS:
        return [SCALARS[hint] + (bounds if hint in (int, float) else "")]
    if origin in (list, set) or hint in (list, set):
        inner = spec_of(args[0], "", classes) if args else ["any"]
        return ["[]" + (inner[0] if len(inner) == 1 else "any")]
    if origin is dict or hint is dict:
        inner = spec_of(args[1], "", classes) if args else ["any"]
        return ["{}" + (inner[0] if len(inner) == 1 else "any")]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return enum_spec(hint)
    if dataclasses.is_dataclass(hint) and "QuantSpec" not in hint.__name__:
        classes[hint.__name__] = typing.cast(type, hint)
        return ["@" + hint.__name__]
    return ["any"]


def enum_spec(hint: type[enum.Enum]) -> list[str]:
    """An enum's member names; its values where they are plain strings that vLLM takes as they are."""
    if issubclass(hint, str):
        return ["=" + str(member.value) for member in hint]
    names = ["^" + name for name in hint.__members__]
    # SpeculativeConfig cannot be built alone, so its validator for the word auto cannot be probed.
    return [*names, "^AUTO"] if hint.__name__ == "AttentionBackendEnum" else names


def accepts(cls: type, field: str, value: typing.Any) -> bool:
    """Whether the class takes this value for this field, in JSON as the command line gives it."""
    from pydantic import TypeAdapter

    try:
        TypeAdapter(cls).validate_json(json.dumps({field: value}))
    except Exception:
        return False
    return True


def widen(cls: type, field: str, hints: list[str]) -> None:
    """Add what the field's validators take besides its type: None, other spellings, numbers of an enum."""
    if "none" not in hints and accepts(cls, field, None):
        hints.append("none")
    if any(hint.startswith("^") for hint in hints):
        hints += [f"#{number}" for number in range(10) if accepts(cls, field, number)]
    if hints[0] == "[]str" and accepts(cls, field, "a,b"):
        hints.append("str")
    if hints[0].startswith("=") and not accepts(cls, field, "A-B") and accepts(cls, field, hints[0][1:].swapcase()):
        hints[:] = ["~" + hint[1:] if hint.startswith("=") else hint for hint in hints]


def class_fields(cls: type, classes: dict[str, type]) -> dict[str, str]:
    """Key -> alternatives, for the fields that the class's constructor takes."""
    skipped = ENGINE_FILLED.get(cls.__name__, ())
    pydantic_fields = cls.__pydantic_fields__  # type: ignore[attr-defined]
    rows = {}
    for field in dataclasses.fields(cls):
        info = pydantic_fields.get(field.name)
        if not field.init or info is None or info.init is False or field.name.startswith(skipped or ("\0",)):
            continue
        if field.name in UNCHECKED.get(cls.__name__, ()):
            rows[field.name] = "any"
            continue
        hints = spec_of(info.annotation, bounds_of(info.metadata), classes)
        widen(cls, field.name, hints)
        rows[field.name] = " ".join(dict.fromkeys(hints))
    return rows


def all_fields(classes: dict[str, type]) -> dict[str, dict[str, str]]:
    """The fields of every class, including the classes that fields name."""
    found: dict[str, dict[str, str]] = {}
    while pending := [name for name in classes if name not in found]:
        for name in pending:
            found[name] = class_fields(classes[name], classes)
    return dict(sorted(found.items()))


def quantization_names() -> dict[str, str]:
    """Alternatives of linear, moe and targets, whose validators take names of schemes."""
    from vllm.config import quantization

    shorthands = quantization._ONLINE_SHORTHANDS
    rows = {}
    for field in ("linear", "moe"):
        names = [name for name, spec in shorthands.items() if getattr(spec, field) is not None]
        names += list(quantization.QUANT_KEY_NAMES)
        rows[field] = " ".join("=" + name for name in dict.fromkeys(names)) + " {}any none"
    return rows


def engine_bounds(dests: typing.Iterable[str]) -> dict[str, str]:
    """Destination -> alternatives, for the flags with bounds that the parser does not check itself."""
    import vllm.config

    rows = {}
    for name in ENGINE_CLASSES.split():
        for field, info in getattr(vllm.config, name).__pydantic_fields__.items():
            hints = spec_of(info.annotation, bounds_of(info.metadata), {})
            if field in dests and any(sign in hint for hint in hints for sign in "<>"):
                rows[field] = " ".join(dict.fromkeys(hints))
    return rows


def literal(text: str, indent: int) -> str:
    """A string literal, broken into adjacent literals where it is too long for one line."""
    if len(json.dumps(text)) + indent < 100:
        return json.dumps(text)
    lines, line = [], ""
    for word in text.split(" "):
        if line and len(line) + len(word) + indent > 100:
            lines.append(line)
            line = ""
        line += word + " "
    lines.append(line[:-1])
    pad = "\n" + " " * indent
    return "(" + "".join(pad + "    " + json.dumps(part) for part in lines) + pad + ")"


def write_flags(path: Path, version: str, rows: dict[str, tuple[str, str, str, typing.Any]]) -> None:
    """flags.py: one entry a flag."""
    lines = [
        f'"""Every flag of `vllm serve` {version}: written by scripts/make_serve_tables.py, do not edit.',
        "",
        "destination -> (option strings, kind, choices, default). The strings that switch a bool off are derived in",
        "kvplan/serve/flagtable.py; kinds are explained in kvplan/serve/values.py, and '+' and '?' at their end are",
        "argparse's nargs. A default of None stands for None or for an empty object.",
        '"""',
        "",
        f'VLLM_VERSION = "{version}"',
        "FLAGS: dict[str, tuple[str, str, str, str | int | float | bool | None]] = {",
    ]
    for dest, (names, kind, choices, default) in rows.items():
        parts = [literal(names, 8), json.dumps(kind), literal(choices, 8), repr_(default)]
        lines.append(f'    "{dest}": ({", ".join(parts)}),')
    path.write_text("\n".join([*lines, "}", ""]))


def repr_(value: typing.Any) -> str:
    """A literal with double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)


def write_fields(path: Path, version: str, later: dict[str, str], fields: dict[str, dict[str, str]]) -> None:
    """fields.py: the config classes."""
    lines = [
        f'"""The config classes that vLLM {version} builds from JSON flags: written by scripts/make_serve_tables.py.',
        "",
        "class -> {key: alternatives}, separated by blanks: int float bool str any none, with bounds (int>0); =word",
        "and #number literals; ~word a literal in any case and with - for _; ^NAME an enum member by name,",
        "in any case; @Class; []item a list; {}value an object.",
        '"""',
        "",
        "# Flags that the parser reads as plain JSON and vLLM turns into these classes afterwards.",
        f"LATER = {json.dumps(later)}",
        "FIELDS: dict[str, dict[str, str]] = {",
    ]
    for name, keys in fields.items():
        lines.append(f'    "{name}": {{')
        lines += [f'        "{key}": {literal(spec, 8)},' for key, spec in keys.items()]
        lines.append("    },")
    path.write_text("\n".join([*lines, "}", ""]))


def main(target: str) -> None:
    """Write both tables into the directory."""
    import vllm.config
    from vllm.config import CacheConfig, DiffusionConfig, SpeculativeConfig
    from vllm.config.mamba import MambaBackendEnum
    from vllm.config.watermarking import WatermarkConfig

    classes: dict[str, type] = {cls.__name__: cls for cls in (SpeculativeConfig, WatermarkConfig, DiffusionConfig)}
    rows = flag_rows(serve_parser(), classes)
    version = vllm.__version__.split("+")[0]
    write_flags(Path(target) / "flags.py", version, rows)
    fields = {**all_fields(classes), "EngineArgs": engine_bounds(rows)}
    fields["QuantizationConfigArgs"].update(quantization_names())
    cache, drafter = CacheConfig.__pydantic_fields__, SpeculativeConfig.__pydantic_fields__
    for dest, info in (("kv_cache_dtype", cache["cache_dtype"]), ("quantization", drafter["quantization"])):
        # The type takes any string; a validator then looks the name up.
        names = [hint for hint in spec_of(info.annotation, "", {}) if hint != "str"]
        fields["EngineArgs"][dest] = " ".join(dict.fromkeys(names))
    fields["EngineArgs"]["mamba_backend"] = " ".join(enum_spec(MambaBackendEnum))
    write_fields(Path(target) / "fields.py", version, LATER, fields)


if __name__ == "__main__":
    main(sys.argv[1])
