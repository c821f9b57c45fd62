"""From the text after a flag to vLLM's value: the converters of vLLM 0.33.0's parser.

Kinds, as kvplan/serve/flags.py names them: str, int, float; size (16k is 16000, 16K is 16384) and size-or-auto;
json; dict-or-str (JSON only between braces); lower (backend names); devices; lora; config:Class (a JSON object that
must fit a config class); opt:KIND (empty and None are None).

Source: vllm/utils/argparse_utils.py, vllm/engine/arg_utils.py (_compute_kwargs, add_cli_args).
"""

import json
import re
from collections.abc import Callable

from kvplan.serve.marks import is_marked

SIZE = r"(\d+(?:\.\d+)?)([kKmMgGtT])"
BYTES = r"(\d+(?:\.\d+)?)([kmgtKMGT])(i?)[bB]"
"""How people write sizes that vLLM's parser does not take."""
FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def convert(kind: str, text: str) -> object:
    """The value of one argument; ValueError with what is wrong, to follow 'is'.

    Text with an unresolved shell variable passes as it is, unless it is JSON in which the variable stands in a string.
    """
    if not is_marked(text):
        return converter(kind)(text)
    if not kind.startswith(("json", "opt:json", "dict", "config", "opt:config")):
        return text
    try:
        return converter(kind)(text)
    except ValueError:
        return text


def converter(kind: str) -> Callable[[str], object]:
    """The function that reads a kind."""
    if kind.startswith("opt:"):
        inner = converter(kind[4:])
        return lambda text: None if text in ("", "None") else inner(text)
    if kind.startswith("config:"):
        return lambda text: config_object(kind[7:], text)
    return CONVERTERS[kind]


def whole_number(text: str) -> int:
    """Python's int()."""
    try:
        return int(text)
    except ValueError:
        raise ValueError("no whole number") from None


def real_number(text: str) -> float:
    """Python's float()."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("no number") from None


def size(text: str) -> int:
    """A whole number or one with a suffix: k m g t are powers of 1000, K M G T powers of 1024 and take no fraction."""
    text = text.strip()
    found = re.fullmatch(SIZE, text)
    if not found:
        written = re.fullmatch(BYTES, text)
        if written:
            raise ValueError(f"no whole number to vLLM: write {_in_suffixes(*written.groups())}")
        return whole_number(text)
    number, suffix = found.groups()
    if suffix.islower():
        try:
            return int(float(number) * FACTORS[suffix])
        except OverflowError:
            raise ValueError("too large") from None
    if "." in number:
        raise ValueError(f"a fraction of a binary {suffix}: write {number}{suffix.lower()} or a whole number")
    return whole_number(number) * FACTORS[suffix]


def _in_suffixes(number: str, letter: str, binary: str) -> str:
    """60GiB as vLLM takes it (60G), 60GB (60g); a fraction of a binary unit as a plain number."""
    if not binary:
        return number + letter.lower()
    letter = letter.upper()
    return f"{number}{letter}" if "." not in number else str(int(float(number) * FACTORS[letter]))


def size_or_auto(text: str) -> int | str:
    """As size(); auto stays the word, and -1 means the same to vLLM."""
    text = text.strip()
    return "auto" if text.lower() == "auto" else size(text)


def json_value(text: str) -> object:
    """Any JSON."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"no valid JSON ({json_hint(text) or error})") from None


def json_hint(text: str) -> str:
    """What usually went wrong with JSON that lost its quotes on the way."""
    if any(quote in text for quote in "“”‘’"):
        return "it has typographic quotes: write plain ones"
    if "{" in text and '"' not in text and "'" not in text:
        return "the shell took its quotes away: put single quotes around it"
    if text.startswith("'"):
        return "single quotes are part of the value here: leave them out"
    if "'" in text and '"' not in text:
        return "keys and strings take double quotes"
    return ""


def dict_or_str(text: str) -> object:
    """JSON between braces, any other text as it is."""
    if not re.match(r"(?s)^\s*{.*}\s*$", text):
        return text
    return json_value(text)


def lower_name(text: str) -> str:
    """A backend's name as --moe-backend and its like fold it."""
    return text.lower().replace("-", "_")


def devices(text: str) -> list[int | str]:
    """0,1 or UUIDs."""
    return [int(part) if part.isdecimal() else part for part in (piece.strip() for piece in text.split(","))]


def lora_module(text: str) -> str:
    """name=path, or a JSON object with name and path; kept as written."""
    if text in ("", "None") or ("=" in text and "," not in text):
        return text
    value = json_value(text)
    known = {"name", "path", "base_model_name", "is_3d_lora_weight"}
    if not isinstance(value, dict) or not {"name", "path"} <= set(value) <= known:
        raise ValueError("no LoRA module: write name=path or a JSON object with name and path")
    return text


def expand_sizes(text: str) -> str:
    """JSON text with bare sizes such as 80g or 16K outside strings written out.

    Source: vllm/engine/arg_utils.py, _expand_json_human_readable_numbers.
    """
    parts = re.split(r'("(?:[^"\\]|\\.)*")', text)
    for index in range(0, len(parts), 2):
        parts[index] = re.sub(rf"\b{SIZE}\b", lambda found: str(size(found.group())), parts[index])
    return "".join(parts)


def config_object(class_name: str, text: str) -> object:
    """A JSON object that fits a config class: the given keys only, with vLLM's values."""
    from kvplan.serve.jsonfields import fit_config

    value = json_value(expand_sizes(text))
    if not isinstance(value, dict):
        raise ValueError("no JSON object")
    fitted, errors = fit_config(class_name, value)
    if errors:
        raise ValueError("refused by vLLM: " + "; ".join(errors))
    return fitted


CONVERTERS: dict[str, Callable[[str], object]] = {
    "str": str,
    "int": whole_number,
    "float": real_number,
    "size": size,
    "size-or-auto": size_or_auto,
    "json": json_value,
    "dict-or-str": dict_or_str,
    "lower": lower_name,
    "devices": devices,
    "lora": lora_module,
}
