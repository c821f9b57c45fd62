"""What vLLM refuses after its parser, when it makes the engine's config: bounds, JSON keys, flags that exclude another.

Source: vllm/engine/arg_utils.py (create_engine_config and what it calls) and the bounds in vllm/config/*.py.
"""

from collections.abc import Mapping

from kvplan.serve.fields import FIELDS, LATER
from kvplan.serve.flags import VLLM_VERSION
from kvplan.serve.flagtable import flag_name
from kvplan.serve.jsonfields import Misfit, fit, fit_config, near, shown
from kvplan.serve.marks import is_marked
from kvplan.serve.together import together_errors

# (flag, flag of a JSON object, key in it): vLLM takes one of the two.
EXCLUSIVE = (
    ("spec_method", "speculative_config", "method"),
    ("spec_model", "speculative_config", "model"),
    ("spec_tokens", "speculative_config", "num_speculative_tokens"),
    ("attention_backend", "attention_config", "backend"),
    ("enable_flashinfer_autotune", "kernel_config", "enable_flashinfer_autotune"),
    ("cudagraph_capture_sizes", "compilation_config", "cudagraph_capture_sizes"),
    ("max_cudagraph_capture_size", "compilation_config", "max_cudagraph_capture_size"),
)
# Flags whose names vLLM looks up by hand. An executor may also be the dotted path of a class.
NAMES = {
    "optimization_level": ("0", "1", "2", "3"),
    "data_parallel_backend": ("mp", "ray"),
    "distributed_executor_backend": ("mp", "ray", "uni", "external_launcher"),
}


def later_errors(values: Mapping[str, object]) -> list[str]:
    """One sentence for each value that parses and that vLLM refuses afterwards."""
    errors = [error for dest, value in values.items() if (error := later_error(dest, value))]
    return errors + exclusive_errors(values) + together_errors(values)


def later_error(dest: str, value: object) -> str | None:
    """The sentence for one value, or None."""
    if value is None or (isinstance(value, str) and is_marked(value)):
        return None
    if dest in LATER:
        return object_error(dest, value)
    if dest in NAMES:
        known = value in NAMES[dest] or (dest == "distributed_executor_backend" and "." in str(value))
        return None if known else f"{flag_name(dest)} is {shown(value)}: write one of {', '.join(NAMES[dest])}"
    if dest == "max_model_len" and value == 0:
        return "--max-model-len is 0: write a positive number of tokens, or auto"
    bounds = FIELDS["AttentionConfig"]["backend"] if dest == "attention_backend" else FIELDS["EngineArgs"].get(dest)
    if bounds is None or value == "auto":
        return None
    try:
        fit(bounds.split(), str(value).lower() if dest == "quantization" else value, dest)
    except Misfit as misfit:
        names = [name.lstrip("^=") for name in bounds.split()]
        close = near(str(value).upper(), names) or near(str(value), names)
        return f"{flag_name(dest)} is {shown(value)}{close or f', but vLLM {VLLM_VERSION} takes {misfit}'}"
    return None


def object_error(dest: str, value: object) -> str | None:
    """The sentence for a JSON flag whose keys vLLM checks later; it takes - for _ in them."""
    if not isinstance(value, dict):
        return f"{flag_name(dest)} is {shown(value)}, but takes a JSON object"
    renamed = (
        {str(key).replace("-", "_"): item for key, item in value.items()} if dest == "speculative_config" else value
    )
    errors = fit_config(LATER[dest], renamed)[1]
    return f"{flag_name(dest)} is refused by vLLM: {'; '.join(errors)}" if errors else None


def exclusive_errors(values: Mapping[str, object]) -> list[str]:
    """Flags given twice, once by themselves and once as a JSON key."""
    errors = []
    for dest, owner, key in EXCLUSIVE:
        inside = values.get(owner)
        if values.get(dest) is not None and isinstance(inside, dict) and inside.get(key) is not None:
            errors.append(
                f"{flag_name(dest)} and the key {key} of {flag_name(owner)} exclude each other: give one of them"
            )
    return errors
