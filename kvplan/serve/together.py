"""Flags that vLLM takes only together with others, and names that it looks up as the server starts.

Source: vllm/entrypoints/common/cli_args.py (`validate_parsed_serve_args`, `validate_api_server_args`),
vllm/config/parallel.py (`_validate_parallel_config`), vllm/config/observability.py, vllm/engine/arg_utils.py
(`create_engine_config`), vllm/tool_parsers and vllm/reasoning (`list_registered`).
"""

from collections.abc import Callable, Mapping

from kvplan.serve.marks import is_marked

Given = Mapping[str, object]

TOOL_PARSERS = (
    "apertus beam cohere_command3 cohere_command4 deepseek_v3 deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 dots "
    "ernie45 functiongemma gemma4 gigachat3 glm45 glm47 granite granite-20b-fc granite4 hermes hf hunyuan_a13b hy_v3 "
    "hy_v4 inkling internlm jamba k2_horizon kimi_k2 kimi_k3 lfm2 ling3 llama3_json llama4_json llama4_pythonic "
    "longcat mimo minicpm5 minimax_m2 minimax_m3 mistral muse muse_glimmer musespark1x olmo3 openai phi4_mini_json "
    "plamo3 poolside_v1 pythonic qwen3_coder qwen3_json qwen3_xml seed_oss step3 step3p5 step5 xlam"
)
REASONING_PARSERS = (
    "beam cohere_command3 cohere_command4 deepseek_r1 deepseek_v3 deepseek_v4 deepseek_v41 ernie45 gemma4 glm45 glm47 "
    "granite granite_thinking_parser hf holo2 hunyuan_a13b hy_v3 hy_v4 inkling k2_horizon kimi_k2 kimi_k3 ling3 mimo "
    "minicpmv minimax_m2 minimax_m2_append_think minimax_m3 mistral muse muse_glimmer musespark1x nemotron_v3 olmo3 "
    "openai_gptoss plamo3 poolside_v1 qwen3 seed_oss step3 step3p5 step5"
)


def number(given: Given, name: str, default: int) -> int | None:
    """A whole number; None where a variable stands for it."""
    value = given.get(name, default)
    return default if value is None else value if isinstance(value, int) else None


def ranks_of_experts(given: Given) -> bool:
    """Whether expert parallelism spans one rank only, for certain."""
    names = ("tensor_parallel_size", "prefill_context_parallel_size", "data_parallel_size")
    return all(number(given, name, 1) == 1 for name in names)


def local_is_more(given: Given) -> bool:
    """Whether a node holds more data-parallel ranks than there are."""
    local, whole = number(given, "data_parallel_size_local", 1), number(given, "data_parallel_size", 1)
    return local is not None and whole is not None and local > whole


def redundant_experts(given: Given) -> bool:
    """Whether experts are to be held twice."""
    config = given.get("eplb_config")
    return isinstance(config, dict) and bool(config.get("num_redundant_experts"))


# (the rule is broken, what to say).
RULES: tuple[tuple[Callable[[Given], object], str], ...] = (
    (
        lambda g: g.get("enable_auto_tool_choice") and not g.get("tool_call_parser"),
        "--enable-auto-tool-choice needs --tool-call-parser: name the model's parser",
    ),
    (
        lambda g: g.get("enable_log_outputs") and not g.get("enable_log_requests"),
        "--enable-log-outputs needs --enable-log-requests: add it",
    ),
    (
        lambda g: g.get("enable_per_request_metrics") and g.get("disable_log_stats"),
        "--enable-per-request-metrics and --disable-log-stats exclude each other: give one of them",
    ),
    (
        lambda g: (number(g, "sse_keep_alive_interval", 0) or 0) < 0,
        "--sse-keep-alive-interval must be 0 or more seconds",
    ),
    (
        lambda g: g.get("headless") and (number(g, "api_server_count", 0) or 0) > 0,
        "--headless starts no API server: leave --api-server-count out",
    ),
    (
        lambda g: g.get("enable_eplb") and not g.get("enable_expert_parallel"),
        "--enable-eplb needs --enable-expert-parallel: add it",
    ),
    (
        lambda g: g.get("enable_eplb") and g.get("enable_expert_parallel") and ranks_of_experts(g),
        "--enable-eplb needs experts on several ranks: raise --tensor-parallel-size or --data-parallel-size",
    ),
    (
        lambda g: not g.get("enable_eplb") and redundant_experts(g),
        "num_redundant_experts of --eplb-config needs --enable-eplb: add it",
    ),
    (
        lambda g: g.get("enable_elastic_ep") and not g.get("enable_eplb"),
        "--enable-elastic-ep needs --enable-eplb: add it",
    ),
    (local_is_more, "--data-parallel-size-local is more than --data-parallel-size: lower it"),
    (
        lambda g: g.get("data_parallel_hybrid_lb") and g.get("data_parallel_external_lb"),
        "--data-parallel-hybrid-lb and --data-parallel-external-lb exclude each other: give one of them",
    ),
    (
        lambda g: g.get("collect_detailed_traces") and not g.get("otlp_traces_endpoint"),
        "--collect-detailed-traces needs --otlp-traces-endpoint: name it",
    ),
    (
        lambda g: isinstance(g.get("hf_overrides"), str) and not is_marked(str(g["hf_overrides"])),
        "--hf-overrides is no JSON object: write it as '{\"key\": value}', in quotes",
    ),
)
# flag, what it names, the flag that brings more names, the flag without which nobody looks.
NAMES = (
    ("tool_call_parser", TOOL_PARSERS, "tool_parser_plugin", "enable_auto_tool_choice"),
    ("reasoning_parser", REASONING_PARSERS, "reasoning_parser_plugin", ""),
)


def together_errors(given: Given) -> list[str]:
    """One sentence for each rule that the flags break."""
    told = [sentence for broken, sentence in RULES if broken(given)]
    return told + [error for row in NAMES if (error := name_error(given, *row))]


def name_error(given: Given, dest: str, names: str, plugin: str, needed: str) -> str | None:
    """The sentence for a name that no parser of vLLM has."""
    from kvplan.serve.flags import VLLM_VERSION
    from kvplan.serve.flagtable import flag_name
    from kvplan.serve.jsonfields import near, shown

    value = given.get(dest)
    if not isinstance(value, str) or not value or is_marked(value) or given.get(plugin):
        return None
    if value in names.split() or (needed and not given.get(needed)) or (not needed and value.lower() == "none"):
        return None
    close = near(value, names.split()) or f"; {flag_name(plugin)} brings others"
    return f"{flag_name(dest)} is {shown(value)}, which vLLM {VLLM_VERSION} does not have{close}"
