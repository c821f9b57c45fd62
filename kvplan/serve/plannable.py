"""From a deployment to what a plan takes: vLLM's own rewriting done, what cannot be judged refused by name."""

from kvplan.errors import KvplanError, Refused
from kvplan.serve.deployment import Deployment
from kvplan.serve.flagtable import flag_name
from kvplan.serve.jsonfields import shown
from kvplan.serve.touch import touch_of, touch_of_env

SPECULATIVE = (("spec_method", "method"), ("spec_model", "model"), ("spec_tokens", "num_speculative_tokens"))
DECIDE_FILES = ("runner", "config_format")
"""Flags whose harmless values decide whether a file beside config.json makes another model of it."""


def planner_options(deployment: Deployment) -> dict[str, object]:
    """Options for a plan: max_model_len -1 for auto, spec_* inside speculative_config, neutral flags left out.

    KvplanError when the line has a fault or a variable without a value; Refused when a flag or environment variable
    touches the cache in a way that kvplan does not model.
    """
    if deployment.errors:
        first = deployment.errors[0]
        raise KvplanError(first if first.endswith("?") else f"{first}.")
    check_variables(deployment)
    options: dict[str, object] = {}
    for dest, value in deployment.options.items():
        touch = touch_of(dest, value)
        if touch.kind == "refused":
            raise Refused(f"{flag_name(dest)} {shown(value)} cannot be judged ({touch.why}): leave it out.")
        if touch.kind == "planned" or dest in DECIDE_FILES:
            options[dest] = value
    for name, text in deployment.env.items():
        touch = touch_of_env(name, text)
        if touch.kind == "refused":
            raise Refused(
                f"environment variable {name}={' '.join(text.split())} cannot be judged ({touch.why}): unset it."
            )
    if options.get("max_model_len") == "auto":
        options["max_model_len"] = -1
    return with_speculative(options)


def remarks(deployment: Deployment) -> list[str]:
    """What a user may want to know of options that are shown and change nothing, one sentence each."""
    found = []
    for dest, value in deployment.options.items():
        touch = touch_of(dest, value)
        if touch.kind == "neutral" or touch.why.startswith("deprecated"):
            found.append(f"{flag_name(dest)} does not change the plan: {touch.why}.")
    for name, text in deployment.env.items():
        touch = touch_of_env(name, text)
        if touch.kind == "neutral":
            found.append(f"{name} does not change the plan: {touch.why}.")
    return found


def with_speculative(options: dict[str, object]) -> dict[str, object]:
    """--spec-method and its like as keys of speculative_config, whose keys take - for _.

    Source: vllm/engine/arg_utils.py, create_speculative_config.
    """
    given = options.get("speculative_config")
    config = {key.replace("-", "_"): value for key, value in given.items()} if isinstance(given, dict) else {}
    for dest, key in SPECULATIVE:
        value = options.pop(dest, None)
        if value is not None:
            config[key] = value
    if config:
        options["speculative_config"] = config
    return options


def check_variables(deployment: Deployment) -> None:
    """KvplanError for a shell variable that stands where a value must."""
    values = {"the model": deployment.model, **{flag_name(dest): v for dest, v in deployment.options.items()}}
    for name, value in {**values, **deployment.env}.items():
        reference = first_reference(value)
        if reference:
            raise KvplanError(
                f"{name} is {reference}, a variable that has no value here: write the value in its place."
            )


def first_reference(value: object) -> str | None:
    """A $NAME inside a value, at any depth, or None."""
    if isinstance(value, str):
        at = value.find("$")
        return " ".join(value[at : at + 40].split()) if at >= 0 else None
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((found for item in inner if (found := first_reference(item))), None)
