"""Faults of a serve line: each names its flag and what to write, and the rest of the line is read all the same."""

import pytest

from kvplan.errors import KvplanError, Refused
from kvplan.serve import planner_options, read_text, remarks
from kvplan.serve.deployment import Deployment


def one(text: str) -> Deployment:
    (deployment,) = read_text(text)
    return deployment


@pytest.mark.parametrize(
    ("flags", "flag", "advice"),
    [
        ("--swap-space 8", "--swap-space 8", "leave it out"),
        ("--tensor-paralel-size 2", "--tensor-paralel-size 2", "did you mean --tensor-parallel-size?"),
        ("----speculative-config '{}'", "----speculative-config {}", "did you mean --speculative-config?"),
        ("-tp4", "-tp4", "write -tp 4 or -tp=4"),
        ("-tensor-parallel-size 4", "-tensor-parallel-size 4", "did you mean --tensor-parallel-size?"),
        ("--max-num 8", "--max-num", "is ambiguous"),
        ("--device cuda", "--device", "leave it out"),
        ("--rope-scaling '{}'", "--rope-scaling {}", "use --hf-overrides"),
        ("--cuda-graph-sizes 8", "--cuda-graph-sizes 8", "use --cudagraph-capture-sizes"),
        ("--enable-chunked-prefill False", "--enable-chunked-prefill False", "write --no-enable-chunked-prefill"),
        ("--enforce-eager=true", "--enforce-eager=true", "write --enforce-eager alone"),
        ("–enforce-eager", "–enforce-eager", "write --enforce-eager"),
        ("--dtype bf16", "--dtype 'bf16'", "did you mean bfloat16?"),
        ("--block-size many", "--block-size 'many'", "no whole number"),
        ("--block-size", "--block-size", "write --block-size VALUE"),
        ("--block-size 0", "--block-size", "takes a whole number >0"),
        ("--gpu-memory-utilization 95", "--gpu-memory-utilization", "<=1"),
        ("--attention-backend XFORMERS", "--attention-backend", "takes one of FLASH_ATTN"),
        ("--attention-backend FLASHATTN", "--attention-backend", "did you mean FLASH_ATTN"),
        ("-O4", "--optimization-level", "write one of 0, 1, 2, 3"),
        ("--kv-cache-dtype fp8_e4m4", "--kv-cache-dtype", "did you mean fp8_e4m3"),
        ("--quantization fp9", "--quantization", "did you mean fp8"),
        ("--max-model-len 0", "--max-model-len", "a positive number of tokens"),
        ("--distributed-executor-backend rey", "--distributed-executor-backend", "write one of mp, ray"),
        ('--speculative-config \'{"method": "eagle9"}\'', "--speculative-config", "takes one of ngram"),
        ("--speculative-config '[1]'", "--speculative-config", "takes a JSON object"),
        ("--speculative-config.tokens 3", "--speculative-config", "key 'tokens' is not one of SpeculativeConfig"),
        ("--spec-method mtp -sc.method mtp", "--spec-method", "exclude each other"),
        ('--default-chat-template-kwargs {"a":1}', "--default-chat-template-kwargs", "single quotes around it"),
        ("--help", "--help", "leave it out"),
        ("extra", "'extra'", "one argument too many"),
    ],
)
def test_a_fault_names_the_flag_and_what_to_write(flags: str, flag: str, advice: str) -> None:
    deployment = one(f"vllm serve M --pipeline-parallel-size 3 {flags}")
    assert deployment.options["pipeline_parallel_size"] == 3
    assert deployment.model == "M"
    (error,) = deployment.errors
    assert flag in error
    assert advice in error


def test_the_model_is_found_behind_an_unknown_flags_value() -> None:
    assert one("vllm serve --swap-space 8 M -tp 2").model == "M"


def test_api_server_throws_a_positional_model_away() -> None:
    deployment = one("python -m vllm.entrypoints.openai.api_server M -tp 2")
    assert "write --model M" in deployment.errors[0]


def test_no_model_is_vllms_default() -> None:
    assert one("vllm serve -tp 2").model == "Qwen/Qwen3-0.6B"


def test_a_served_name_needs_the_model_in_front() -> None:
    assert "vllm serve MODEL" in one("vllm serve --served-model-name x -tp 2").errors[0]


def test_a_variable_without_a_value_stays_text_and_stops_a_plan() -> None:
    deployment = one("vllm serve $MODEL --tensor-parallel-size $TP --port $PORT $EXTRA")
    assert (deployment.model, deployment.options, deployment.errors) == ("$MODEL", {"tensor_parallel_size": "$TP"}, ())
    assert deployment.ignored == ("port", "$EXTRA")
    with pytest.raises(KvplanError, match="the model is \\$MODEL"):
        planner_options(deployment)


def test_given_variables_are_filled_in() -> None:
    (deployment,) = read_text("vllm serve $MODEL -tp $TP", variables={"MODEL": "org/m", "TP": "8"})
    assert (deployment.model, deployment.options) == ("org/m", {"tensor_parallel_size": 8})


def test_a_variable_that_a_condition_sets_is_a_fault() -> None:
    deployment = one('if [ -n "$X" ]; then EXTRA="--block-size 64"; fi\nvllm serve M $EXTRA')
    assert "$EXTRA is set under a condition" in deployment.errors[0]


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        ("--enable-auto-tool-choice", "needs --tool-call-parser"),
        ("--enable-auto-tool-choice --tool-call-parser hermes2", "did you mean hermes?"),
        ("--tool-call-parser hermes2", None),
        ("--enable-auto-tool-choice --tool-call-parser own --tool-parser-plugin own.py", None),
        ("--reasoning-parser qwen", "did you mean qwen3?"),
        ("--reasoning-parser none", None),
        ("--reasoning-parser $P", None),
        ("--enable-log-outputs", "needs --enable-log-requests"),
        ("--enable-log-outputs --enable-log-requests", None),
        ("--enable-eplb -dp 8", "needs --enable-expert-parallel"),
        ("--enable-eplb --enable-expert-parallel", "needs experts on several ranks"),
        ("--enable-eplb --enable-expert-parallel -dp 8", None),
        ("--enable-eplb --enable-expert-parallel -tp $TP", None),
        ("--eplb-config '{\"num_redundant_experts\": 2}'", "needs --enable-eplb"),
        ("--data-parallel-size 2 --data-parallel-size-local 4", "is more than --data-parallel-size"),
        ("--data-parallel-size 16 --data-parallel-size-local 8 --data-parallel-start-rank 8 --headless", None),
        ("--headless --api-server-count 2", "starts no API server"),
        ("--hf-overrides a=1", "is no JSON object"),
        ("--hf-overrides $O", None),
        ("--hf-overrides.a 1", None),
        ("--collect-detailed-traces all", "needs --otlp-traces-endpoint"),
    ],
)
def test_flags_that_go_together_and_names_that_are_looked_up(flags: str, part: str | None) -> None:
    errors = one(f"vllm serve M {flags}").errors
    assert len(errors) == (0 if part is None else 1), errors
    assert part is None or part in errors[0]


def test_a_plan_takes_planned_options_with_vllms_rewriting_done() -> None:
    deployment = one(
        "vllm serve M --max-model-len auto --spec-method mtp --spec-tokens 2 --cudagraph-capture-sizes 1 2 --port 1 "
        "--runner generate --mamba-cache-mode align"
    )
    assert planner_options(deployment) == {
        "max_model_len": -1,
        "runner": "generate",
        "mamba_cache_mode": "align",
        "cudagraph_capture_sizes": [1, 2],
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 2},
    }
    assert remarks(deployment) == [
        "--runner does not change the plan: pooling models cache differently.",
        "--mamba-cache-mode does not change the plan: deprecated without effect: the mode follows prefix caching.",
    ]


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("vllm serve M --runner pooling", "--runner 'pooling' cannot be judged"),
        ("vllm serve M --worker-cls a.B", "--worker-cls 'a.B' cannot be judged"),
        ("vllm serve M --additional-config '{\"a\": 1}'", "--additional-config"),
        ("VLLM_MLA_DISABLE=1 vllm serve M", "environment variable VLLM_MLA_DISABLE=1"),
    ],
)
def test_a_flag_that_cannot_be_judged_is_refused_by_name(line: str, part: str) -> None:
    with pytest.raises(Refused) as raised:
        planner_options(one(line))
    assert part in str(raised.value)


def test_a_fault_stops_a_plan_with_its_sentence() -> None:
    with pytest.raises(KvplanError, match="--swap-space 8 is unknown"):
        planner_options(one("vllm serve M --swap-space 8"))
