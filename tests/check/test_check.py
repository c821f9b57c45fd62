"""`kvplan check`: what a pull request changes is named with its share of the loss; nothing is half-written."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.check.fleet import read_fleet
from kvplan.check.lock import sealed
from kvplan.check.nodes import parse
from kvplan.commands.check import run
from kvplan.errors import KvplanError
from kvplan.request import read_words
from kvplan.units import human_readable_bytes

QWEN, DFLASH = "Qwen/Qwen3.6-35B-A3B-FP8", "z-lab/Qwen3.6-35B-A3B-DFlash"
CHAT = {
    "name": "chat",
    "model": QWEN,
    "gpu": "H200",
    "kv_cache_memory": "60GiB",
    "max_model_len": 32768,
    "speculative_config": {"model": DFLASH, "num_speculative_tokens": 3},
}
BIG = {**CHAT, "name": "big", "gpu": "B300", "engine": "vllm-next", "attention_backend": "TRITON_ATTN"}
EAGLE = {
    "name": "eagle",
    "serve": "vllm serve Qwen/Qwen3-8B --max-model-len 8192 --speculative-config "
    '\'{"model":"AngelSlim/Qwen3-8B_eagle3","method":"eagle3","num_speculative_tokens":3}\'',
    "gpu": "H200",
    "kv_cache_memory": "20GiB",
}


class Fleet:
    """A file of deployments in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "fleet.yaml"
        self.lock = folder / "kvplan.lock"

    def write(self, *deployments: dict, **top: object) -> None:
        self.path.write_text(yaml.safe_dump({**top, "deployments": list(deployments)}, sort_keys=False))

    def run(self, **options: object):
        return run(str(self.path), offline=True, **options)

    def first(self) -> str:
        """The sentence of the first failure."""
        outcome = self.run(format="json")
        assert outcome.exit_code == 1
        failing = [each for each in json.loads(outcome.text)["deployments"] if each["status"] == "fails"]
        return failing[0]["failures"][0]["sentence"]


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path)


def test_what_was_recorded_holds(fleet):
    fleet.write(CHAT, BIG, EAGLE)
    assert fleet.run(update=True).exit_code == 0
    before = fleet.lock.read_bytes()
    outcome = fleet.run()
    assert outcome.exit_code == 0
    assert outcome.text == (
        "3 deployments checked: all hold.\n"
        "ok    chat: 1,005,720 tokens, 30.69 requests at once (unchanged)\n"
        "ok    big: 968,145 tokens, 29.55 requests at once (unchanged)\n"
        "ok    eagle: 141,696 tokens, 17.30 requests at once (unchanged)\n"
    )
    fleet.write(EAGLE, BIG, CHAT)
    fleet.run(update=True)
    assert fleet.lock.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            CHAT,
            {**CHAT, "speculative_config": {"model": DFLASH, "num_speculative_tokens": 7}},
            "779,410 tokens instead of 1,005,720 (-22.5 %): "
            "--speculative-config num_speculative_tokens 7 instead of 3.",
        ),
        (
            {**CHAT, "speculative_config": {"method": "mtp", "num_speculative_tokens": 3}},
            CHAT,
            "drafter z-lab/Qwen3.6-35B-A3B-DFlash is new",
        ),
        (
            {key: value for key, value in CHAT.items() if key != "speculative_config"},
            {**CHAT, "speculative_config": {"method": "mtp", "num_speculative_tokens": 2}},
            '--speculative-config {"method": "mtp", "num_speculative_tokens": 2} is new.',
        ),
        (
            BIG,
            {key: value for key, value in BIG.items() if key != "attention_backend"},
            "--attention-backend is gone, was TRITON_ATTN",
        ),
        ({**BIG, "engine": "vllm-next"}, {**BIG, "engine": "vllm-0.33.0"}, "engine vllm-0.33.0 instead of vllm-next"),
        (CHAT, {**CHAT, "kv_cache_memory": "40GiB"}, "kv_cache_memory 40GiB instead of 60GiB."),
        (CHAT, {**CHAT, "max_num_batched_tokens": 32768}, "--max-num-batched-tokens 32768 is new"),
        (EAGLE, {**EAGLE, "serve": "vllm serve Qwen/Qwen3-32B --max-model-len 8192"}, "model Qwen/Qwen3-32B"),
    ],
    ids=["length", "drafter", "mtp", "backend", "engine", "memory", "batch", "model"],
)
def test_a_pull_request_that_loses_capacity_fails_with_its_cause_in_the_first_line(fleet, old, new, sentence):
    fleet.write(old)
    assert fleet.run(update=True).exit_code == 0
    fleet.write(new)
    found = fleet.first()
    assert sentence in found
    assert " tokens instead of " in found


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        ("20GiB", "8GB", "kv_cache_memory 8GB instead of 20GiB."),
        ("20GiB", "2.5GiB", "kv_cache_memory 2.5GiB instead of 20GiB."),
        ("20GiB", 5368709121, "kv_cache_memory 5368709121 instead of 20GiB."),
        ("20G", "16g", "--kv-cache-memory-bytes 16g instead of 20G."),
        ("20G", "16384M", "--kv-cache-memory-bytes 16G instead of 20G."),
    ],
)
def test_sizes_are_written_as_the_file_writes_them(fleet, before, after, cause):
    key = "kv_cache_memory" if before == "20GiB" else "kv_cache_memory_bytes"
    own = {"name": "a", "model": "Qwen/Qwen3-8B", "gpu": "H200", "max_model_len": 8192}
    fleet.write({**own, key: before})
    fleet.run(update=True)
    fleet.write({**own, key: after})
    assert fleet.first().endswith(cause)


def test_a_field_of_a_local_config_that_changed_is_named(fleet, tmp_path):
    from kvplan import sources

    model = tmp_path / "model"
    model.mkdir()
    config = dict(sources.resolve("Qwen/Qwen3-8B", offline=True).config)
    (model / "config.json").write_text(json.dumps(config))
    local = {"name": "local", "model": str(model), "gpu": "H200", "kv_cache_memory": "20GiB", "max_model_len": 8192}
    fleet.write(local)
    fleet.run(update=True)
    (model / "config.json").write_text(json.dumps({**config, "num_key_value_heads": 16}))
    assert "config.json: num_key_value_heads 16 instead of 8." in fleet.first()


def test_a_file_beside_a_config_that_came_is_named(fleet, tmp_path):
    from kvplan import sources

    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(sources.resolve("Qwen/Qwen3-8B", offline=True).config))
    local = {"name": "local", "model": str(model), "gpu": "H200", "kv_cache_memory": "20GiB", "max_model_len": 8192}
    scheme = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (model / "hf_quant_config.json").write_text(json.dumps(scheme))
    fleet.write(local)
    fleet.run(update=True)
    recorded = json.loads(fleet.lock.read_text())["configs"][str(model)]["files"]
    assert list(recorded) == ["hf_quant_config.json"]
    assert fleet.run().exit_code == 0
    (model / "hf_quant_config.json").write_text(json.dumps({**scheme, "quantization": {"quant_algo": "FP8"}}))
    assert "model hf_quant_config.json " in fleet.first()


def test_without_a_budget_it_comes_from_the_gpu_less_weights_and_what_a_start_up_takes(fleet):
    own = {key: value for key, value in CHAT.items() if key != "kv_cache_memory"}
    fleet.write({**own, "non_kv_memory": "6GiB"})
    assert fleet.run(update=True).exit_code == 0
    fleet.write({**own, "non_kv_memory": "12GiB"})
    assert "non_kv_memory 12GiB instead of 6GiB." in fleet.first()


ESTIMATED = {"name": "est", "model": "Qwen/Qwen3-8B", "gpu": "H200", "max_model_len": 32768}


def figures(fleet: Fleet, *deployments: dict, update: bool = True) -> dict:
    fleet.write(*deployments)
    outcome = fleet.run(update=update, format="json")
    assert outcome.exit_code in (0, 1)
    return json.loads(outcome.text)["deployments"][0]


def test_a_budget_that_the_gpu_gives_is_an_interval_and_the_lock_keeps_both_ends(fleet):
    found = figures(fleet, ESTIMATED)
    least, most = found["figures"]["tokens"], found["figures"]["tokens_at_most"]
    assert 0 < least < most
    recorded = json.loads(fleet.lock.read_text())["deployments"]["est"]["figures"]
    assert (recorded["tokens"], recorded["tokens_at_most"]) == (least, most)
    assert f"| {least:,} to {most:,} | unchanged |" in fleet.run(format="markdown").text
    assert fleet.run().text == (
        "1 deployment checked: all hold.\n"
        f"ok    est: at least {least:,} tokens, {least / 32768:.2f} requests at once; estimated, at most\n"
        f"      {most:,} tokens (unchanged)\n"
    )


@pytest.mark.parametrize(
    ("share", "code", "part"),
    [
        (0.0, 0, None),
        (
            0.5,
            1,
            "may not hold: {least:,} to {most:,}, as what a start-up takes besides weights and KV cache is estimat",
        ),
        (1.5, 1, "does not hold: at most {most:,}, estimated ("),
    ],
)
def test_a_limit_between_the_ends_of_an_estimate_fails_and_says_so(fleet, share, code, part):
    found = figures(fleet, ESTIMATED)["figures"]
    least, most = found["tokens"], found["tokens_at_most"]
    fleet.write({**ESTIMATED, "limits": {"min_tokens": round(least + share * (most - least))}})
    assert fleet.run(update=True).exit_code == code
    if part is not None:
        assert part.format(least=least, most=most) in fleet.first()


def test_a_loss_compares_like_with_like(fleet):
    before = figures(fleet, ESTIMATED)["figures"]
    found = figures(fleet, {**ESTIMATED, "gpu_memory_utilization": 0.8}, update=False)
    after = found["figures"]
    assert found["loss"] == pytest.approx(1 - after["tokens"] / before["tokens"])
    assert [cause["what"] for cause in found["causes"]] == ["--gpu-memory-utilization"]


def test_a_deployment_that_may_not_start_fails_and_says_so(fleet):
    def start(utilization: float) -> tuple[bool, list]:
        found = figures(fleet, {**ESTIMATED, "gpu_memory_utilization": utilization})
        return found["figures"]["starts"], found["failures"]

    between = next(found for n in range(12, 40) if (found := start(n / 100))[1] and found[1][0]["at_most"])
    assert between[0] is False
    assert between[1][0]["sentence"].startswith("it may not start (")


def test_weights_that_leave_nothing_are_told(fleet):
    found = figures(fleet, {**ESTIMATED, "model": "Qwen/Qwen3-32B", "gpu": "A10"})
    (failure,) = found["failures"]
    assert re.fullmatch(
        r"it does not start: of the [\d.]+ GiB that --gpu-memory-utilization [\d.]+ asks for, [\d.]+ GiB of weights "
        r"and what else a start-up takes leave no KV cache\.",
        failure["sentence"],
    )


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"gpu": None}, "without a gpu there is no KV budget; name it, or give kv_cache_memory"),
        ({"gpu": "GB10"}, "as it shares the CPU's memory; give kv_cache_memory"),
        ({"quantization": "fp8"}, "the GPU's KV budget is not known ("),
    ],
)
def test_a_budget_that_the_gpu_cannot_give_is_an_error_with_what_to_do(fleet, change, part):
    own = {key: value for key, value in {**ESTIMATED, **change}.items() if value is not None}
    fleet.write(own)
    outcome = fleet.run(format="json", update=True)
    (found,) = json.loads(outcome.text)["deployments"]
    if found["error"] is None and "quantization" in change:
        pytest.fail("derived after all: take another example")
    assert (outcome.exit_code, part in found["error"]) == (2, True), found["error"]


def test_the_number_of_blocks_needs_no_budget(fleet):
    found = figures(fleet, {**ESTIMATED, "num_gpu_blocks_override": 5000})["figures"]
    assert (found["num_blocks"], found["tokens_at_most"]) == (5000, None)


def test_two_changes_have_a_share_each(fleet):
    fleet.write(CHAT)
    fleet.run(update=True)
    fleet.write(
        {**CHAT, "kv_cache_memory": "30GiB", "speculative_config": {"model": DFLASH, "num_speculative_tokens": 7}}
    )
    causes = json.loads(fleet.run(format="json").text)["deployments"][0]["causes"]
    assert [cause["what"] for cause in causes] == ["kv_cache_memory", "--speculative-config num_speculative_tokens"]
    assert [round(cause["share"], 3) for cause in causes] == [0.5, 0.225]


def test_a_loss_within_the_tolerance_holds_and_a_gain_always_does(fleet):
    fleet.write(CHAT)
    fleet.run(update=True)
    fleet.write({**CHAT, "kv_cache_memory": "30GiB", "capacity_loss": "51%"})
    assert fleet.run().exit_code == 0
    fleet.write({**CHAT, "kv_cache_memory": "90GiB"})
    assert fleet.run().exit_code == 0


def test_another_version_of_kvplan_whose_rules_give_less_is_named(fleet):
    fleet.write(CHAT)
    fleet.run(update=True)
    lock = json.loads(fleet.lock.read_text())
    lock["kvplan_version"] = "0.0.9"
    lock["deployments"]["chat"]["figures"]["tokens"] = 2_000_000
    fleet.lock.write_text(json.dumps(sealed(lock)))
    assert "(-49.7 %): kvplan 0.1.0 instead of 0.0.9." in fleet.first()


def test_engine_rules_are_compared_without_a_lock(fleet):
    fleet.write({**BIG, "engine": "vllm-0.33.0"})
    outcome = fleet.run(engine="vllm-next", against="vllm-0.33.0", format="json")
    (each,) = json.loads(outcome.text)["deployments"]
    assert outcome.exit_code == 1
    assert each["causes"][0]["what"] == "engine"
    assert not fleet.lock.exists()


@pytest.mark.parametrize(
    ("engine", "against", "figures", "before", "failed"),
    [
        (
            "vllm-0.33.0",
            "vllm-next",
            ("vllm-next", "packed", "BLNHC", 968145),
            878942,
            ["with vllm-next, layout LBNHC does not hold: BLNHC (packed grouping, 5 groups, layout BLNHC)."],
        ),
        (
            "vllm-next",
            "vllm-0.33.0",
            ("vllm-0.33.0", "main", "LBNHC", 878942),
            968145,
            ["878,942 tokens instead of 968,145 (-9.2 %): engine vllm-0.33.0 instead of vllm-next."],
        ),
    ],
)
def test_figures_limits_and_verdict_are_those_of_one_engine(fleet, engine, against, figures, before, failed):
    fleet.write({**BIG, "limits": {"layout": "LBNHC"}})
    document = json.loads(fleet.run(engine=engine, against=against, format="json").text)
    (each,) = document["deployments"]
    found = each["figures"]
    assert (each["engine"], found["grouping"], found["layout"], found["tokens"]) == figures
    assert (each["baseline_engine"], each["baseline"]["tokens"]) == (engine, before)
    assert [failure["sentence"] for failure in each["failures"]] == failed
    assert document["verdict"] == f"1 deployment of 1 failed with {against} in place of {engine}: big."
    row = next(csv.DictReader(fleet.run(engine=engine, against=against, format="csv").text.splitlines()))
    assert (row["engine"], row["grouping"], row["layout"], int(row["tokens"])) == figures
    assert (row["baseline_engine"], row["why"]) == (engine, " ".join(failed))


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (
            {"min_tokens": 2_000_000},
            "min_tokens 2,000,000 does not hold: 1,005,720 (14,456 blocks of 4,456,448 bytes, 471 for",
        ),
        ({"max_groups": 10}, "max_groups 10 does not hold: 46 (main grouping, 46 groups, layout LBNHC)."),
        ({"layout": "BLHNC"}, "layout BLHNC does not hold: LBNHC (main grouping"),
        ({"min_concurrency": 31}, "min_concurrency 31 does not hold: 30.69x (14,456 blocks"),
        ({"min_concurrency": {"requests": 90, "length": 4096}}, "229 for a request of 4,096 tokens)."),
        (
            {"min_prefix_hit_tokens": 1000},
            "min_prefix_hit_tokens 1,000 does not hold: prompts of fewer than 2,177 tokens cannot hit (attention",
        ),
    ],
)
def test_a_limit_that_does_not_hold_gives_the_measured_value(fleet, limits, sentence):
    fleet.write({**CHAT, "limits": limits})
    fleet.run(update=True)
    assert sentence in fleet.first()


def test_what_rounds_to_the_limit_is_shown_with_more_digits(fleet):
    fleet.write({**EAGLE, "limits": {"min_concurrency": 17.3}})
    fleet.run(update=True)
    assert fleet.first().startswith("min_concurrency 17.3 does not hold: 17.296875x (")


def test_limits_that_hold_are_silent(fleet):
    limits = {
        "min_tokens": 1_000_000,
        "max_groups": 46,
        "layout": "LBNHC",
        "min_concurrency": 30,
        "max_growing_padding_fraction": "0%",
        "min_prefix_hit_tokens": 2177,
        "must_start": True,
    }
    fleet.write({**CHAT, "limits": limits})
    assert fleet.run(update=True).exit_code == 0


def test_a_deployment_that_does_not_start_fails_unless_it_need_not(fleet):
    small = {**CHAT, "kv_cache_memory": "1GiB"}
    fleet.write(small)
    outcome = fleet.run(update=True)
    assert outcome.exit_code == 1
    assert "it does not start: " in outcome.text
    fleet.write({**small, "limits": {"must_start": False}})
    assert fleet.run(update=True).exit_code == 0


LLAMA = {"model": "meta-llama/Llama-3.1-70B-Instruct", "gpu": "H200"}


@pytest.mark.parametrize(
    ("given", "advice"),
    [
        ({"kv_cache_memory": "30GiB"}, "raise kv_cache_memory or lower --max-model-len."),
        ({"kv_cache_memory_bytes": "30G"}, "raise --kv-cache-memory-bytes or lower --max-model-len."),
        ({"non_kv_memory": "1GiB", "tensor_parallel_size": 2}, "raise --gpu-memory-utilization or lower --max-"),
        ({"num_gpu_blocks_override": 10}, "raise --num-gpu-blocks-override or lower --max-model-len."),
    ],
)
def test_why_it_does_not_start_is_told_once_with_what_gives_the_memory(fleet, given, advice):
    own = {"name": "big", **LLAMA, **given, "limits": {"min_tokens": 5, "min_concurrency": 2}}
    if "non_kv_memory" in given:
        own["gpu_memory_utilization"] = 0.56
    fleet.write(own)
    outcome = fleet.run(update=True, format="json")
    (failure,) = json.loads(outcome.text)["deployments"][0]["failures"]
    assert failure["limit"] == "must_start"
    assert "GiB are available besides the null block, which hold at most" in failure["sentence"]
    assert advice in failure["sentence"]


def test_a_loss_of_everything_has_its_cause_first_and_its_reason_once(fleet):
    own = {"name": "big", **LLAMA, "limits": {"min_tokens": 5}}
    fleet.write({**own, "kv_cache_memory": "45GiB"})
    fleet.run(update=True)
    fleet.write({**own, "kv_cache_memory": "30GiB"})
    outcome = fleet.run()
    assert " ".join(outcome.text.split()).count("needs 40.0 GiB of KV cache") == 1
    assert fleet.first().startswith("it does not start any more, before 147,456 tokens: kv_cache_memory ")
    fleet.write({**own, "kv_cache_memory": "30GiB", "limits": {"must_start": False}})
    assert "(one request of max_model_len 131,072 needs 40.0 GiB" in fleet.first()


def test_what_fails_by_a_limit_shows_its_figures_too(fleet):
    fleet.write(EAGLE)
    fleet.run(update=True)
    fleet.write({**EAGLE, "limits": {"max_groups": 0}})
    assert fleet.run().text.endswith("      planned: 141,696 tokens, 17.30 requests at once (unchanged)\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("a: [", "line 2: is no valid YAML"),
        ("[1]", "line 1: the file must be a mapping"),
        ("deployments: {}", "must be a list"),
        ("deployments: []", "must be a list"),
        ("deployments:\n- 3", "line 2: a deployment must be a mapping"),
        ("deployments:\n- name: a", "line 2: deployment a needs either serve (a line) or model"),
        ("deployments:\n- name: a\n  model: m\n  serve: s", "line 2: deployment a needs either"),
        ("deployments:\n- model: m", "line 2: a deployment needs a name"),
        (
            "deployments:\n- name: a\n  model: m\n  tensor_paralel_size: 2",
            "line 4: unknown key tensor_paralel_size; did",
        ),
        ("deployment:\n- name: a", "line 2: unknown key deployment; did you mean deployments?"),
        ("deployments:\n- name: a\n  model: m\n  model: n", "line 4: model is given twice"),
        ("deployments:\n- &x {name: a, model: m}\n- *x", "line 2: name a is that of line 2 too"),
        ("deployments:\n- name: a\n  model: m\n  limits: {min_token: 3}", "did you mean min_tokens?"),
        ("deployments:\n- name: a\n  model: m\n  limits: {min_tokens: -1}", "min_tokens -1 must be a number"),
        (
            "deployments:\n- name: a\n  model: m\n  kv_cache_memory: lots",
            "line 4: kv_cache_memory 'lots' is not a number",
        ),
        ("deployments:\n- name: a\n  model: m\n  capacity_loss: x", "line 4: capacity_loss 'x' must be a share"),
        ("deployments:\n- name: a\n  model: m\n  kv_cache_memory: -5", "line 4: kv_cache_memory -5 must not be"),
        ("deployments:\n- name: a\n  model: m\n  kv_cache_memory: 9999999999GiB", "line 4: kv_cache_memory 9999999999"),
        ("deployments:\n- name: a\n  model: m\n  kv_cache_memory: []", "line 4: kv_cache_memory lists no size"),
        ("deployments:\n- name: a\n  model: m\n  gpu:", "line 4: gpu is null and no default gives it; give a value"),
        ("defaults: {gpu: null}\ndeployments:\n- name: a\n  model: m", "line 1: gpu is null and no default"),
        ("deployments:\n- name: a\n  model: m\n  limits: {min_tokens: 1e5}", "'1e5' is text in YAML; write 100000"),
        ("deployments:\n- name: a\n  model: m\n  capacity_loss: 5e-2", "'5e-2' is text in YAML; write 0.05."),
        ("deployments:\n- name: a\n  model m\n  gpu: H200", "line 3: is no valid YAML (could not find expected ':')"),
        (
            "deployments:\n- name: a\n  limits: {min_tokens: 3\n  gpu: H200",
            "line 4: is no valid YAML (did not find expected ',' or '}' while parsing a flow mapping, which begins in "
            "line 3)",
        ),
        ("deployments:\n- name: a\n  model: m\n  capacity_loss: 5", "line 4: capacity_loss 5 reads as 500%; write 5%"),
        ("deployments:\n- name: a\n  model: m\n  capacity_loss: 100%", "capacity_loss 100% never fails; give a share"),
        (
            "deployments:\n- name: a\n  model: m\n  limits: {max_growing_padding_fraction: 2}",
            "max_growing_padding_fraction 2 reads as 200%; write 2%",
        ),
        ("deployments:\n- name: a\n  model: m\n  engine: vllm-9", "line 4: engine vllm-9 is not known"),
        ("defaults: {name: x}\ndeployments:\n- name: a\n  model: m", "line 1: defaults cannot give name"),
        ("a: !!python/object/apply:os.system [id]", "is no valid YAML|unknown key"),
        ("? [a]\n: b", "line 1: a key must be a name"),
    ],
)
def test_a_file_that_is_not_understood_is_one_sentence_with_the_line(text, sentence):
    with pytest.raises(KvplanError) as error:
        read_fleet(parse(text, "fleet.yaml"), "fleet.yaml")
    message = str(error.value)
    assert any(part in message for part in sentence.split("|"))
    assert message.startswith("fleet.yaml")
    assert "\n" not in message


def test_null_takes_a_default_away(fleet):
    defaults = {"gpu": "H200", "kv_cache_memory": "20GiB", "max_model_len": 4096, "capacity_loss": "5%"}
    limits = {"min_tokens": 3, "max_groups": 4}
    undone = dict.fromkeys(defaults) | {"limits": {"min_tokens": None}}
    fleet.write(
        {"name": "a", "model": "m"}, {"name": "b", "model": "m", **undone}, defaults={**defaults, "limits": limits}
    )
    kept, bare = read_fleet(parse(fleet.path.read_text(), "f"), "f")
    assert (kept.gpu, kept.memory, kept.args.max_model_len, kept.tolerance) == ("H200", (20 * 2**30,), 4096, 0.05)
    assert (bare.gpu, bare.memory, bare.args.max_model_len, bare.tolerance) == (None, None, None, 0.01)
    assert [limit.name for limit in bare.limits] == ["max_groups"]


def test_a_gpu_that_is_not_known_has_the_line_and_name_of_its_key(fleet):
    fleet.write({**EAGLE, "gpu": "A100"})
    (found,) = json.loads(fleet.run(update=True, format="json").text)["deployments"]
    assert found["error"].startswith(
        f"{fleet.path}, line 4: gpu A100 is not a GPU that kvplan knows; did you mean A100 40GB"
    )


def test_aliases_cannot_blow_the_file_up():
    bomb = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
        f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 9)
    )
    with pytest.raises(KvplanError, match="nested too deep or too large"):
        parse(bomb, "fleet.yaml")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (None, "is missing; write it with `kvplan check FILE --update`"),
        ("{", "is no valid JSON"),
        ('{"packages": []}', "is no lock that kvplan wrote"),
        ('{"lock_version": 2}', "has lock_version 2"),
        ('{"lock_version": 1, "kvplan_version": "1", "deployments": [], "configs": {}}', "is damaged"),
        ('{"lock_version": 1, "kvplan_version": "1", "deployments": {"chat": {}}, "configs": {}}', "entry of chat"),
    ],
)
def test_a_lock_that_cannot_be_used_says_what_to_do(fleet, spoil, sentence):
    fleet.write(CHAT)
    if spoil is not None:
        fleet.lock.write_text(spoil)
    with pytest.raises(KvplanError) as error:
        fleet.run()
    assert sentence in str(error.value)
    assert "--update" in str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("deployments", "chat", "figures", "tokens"), 1000, "the entry of chat was changed"),
        (("deployments", "chat", "inputs", "options", "max_model_len"), 4096, "the entry of chat was changed"),
        (("deployments", "chat", "digest"), None, "the entry of chat was changed"),
        (("configs", QWEN, "config", "text_config", "num_hidden_layers"), 20, f"the entry of {QWEN} was changed"),
        (("configs", QWEN), [], f"the entry of {QWEN} was changed"),
        (("configs", "more"), {}, "the entry of more was changed"),
        (("kvplan_version",), "0.0.9", "kvplan.lock was changed"),
    ],
)
def test_a_lock_that_was_edited_by_hand_is_an_error_with_what_to_do(fleet, path, value, named):
    fleet.write(CHAT)
    fleet.run(update=True)
    lock = json.loads(fleet.lock.read_text())
    inner = lock
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    fleet.lock.write_text(json.dumps(lock))
    with pytest.raises(KvplanError) as error:
        fleet.run()
    assert f"{named} after kvplan wrote it" in str(error.value)
    assert "--update" in str(error.value)


def test_an_update_changes_only_the_lines_of_what_changed(fleet):
    fleet.write(CHAT, BIG, EAGLE)
    fleet.run(update=True)
    before = fleet.lock.read_text().splitlines()
    fleet.write({**CHAT, "max_num_seqs": 64}, BIG, EAGLE)
    fleet.run(update=True)
    changed = [line for line in fleet.lock.read_text().splitlines() if line not in before]
    assert [line.split('"')[1] for line in changed] == ["digest", "max_num_seqs"]


def test_inputs_of_a_lock_that_were_broken_by_hand_are_an_error_and_not_a_traceback(fleet):
    fleet.write(CHAT)
    fleet.run(update=True)
    lock = json.loads(fleet.lock.read_text())
    lock["deployments"]["chat"]["inputs"]["options"] = {"nonsense": 1}
    fleet.lock.write_text(json.dumps(sealed(lock)))
    outcome = fleet.run(format="json")
    (each,) = json.loads(outcome.text)["deployments"]
    assert (outcome.exit_code, each["status"]) == (2, "error")
    assert "inputs of chat are damaged" in each["error"]


@pytest.mark.parametrize(
    ("size", "hint"), [("60GiB", "60G"), ("60GB", "60g"), ("1.5GiB", "1610612736"), ("0.5GB", "0.5g")]
)
def test_a_serve_line_is_read_as_vllm_reads_it_by_plan_and_check(fleet, size, hint):
    line = f"vllm serve Qwen/Qwen3-8B --kv-cache-memory-bytes {size}"
    sentence = f"--kv-cache-memory-bytes '{size}' is no whole number to vLLM: write {hint}."
    with pytest.raises(KvplanError) as error:
        read_words(["--tensor-parallel-size", "1", "--", *line.split()], {})
    assert str(error.value) == sentence
    fleet.write({"name": "a", "gpu": "H200", "serve": line}, {"name": "b", "gpu": "H200", "serve": line[:-1]})
    (found, _) = json.loads(fleet.run(update=True, format="json").text)["deployments"]
    assert found["error"] == f"{fleet.path}, line 4: {sentence}"
    typed = ["--kv-cache-memory-bytes", size, "--", *line.replace(size, "60G").split()]
    assert read_words(typed, {}).kv_cache_memory_bytes == human_readable_bytes(size, "flag")


def test_an_option_that_vllm_refuses_has_the_line_of_its_key(fleet):
    fleet.write({"name": "a", "model": "Qwen/Qwen3-8B", "gpu": "H200", "max_num_seqs": "x"})
    (found,) = json.loads(fleet.run(update=True, format="json").text)["deployments"]
    assert found["error"] == f"{fleet.path}, line 5: --max-num-seqs 'x' is no whole number."


def test_a_deployment_that_cannot_be_planned_is_an_error_of_its_own_and_the_lock_stays(fleet):
    fleet.write(CHAT)
    fleet.run(update=True)
    before = fleet.lock.read_bytes()
    fleet.write(CHAT, {"name": "x", "model": "no/such-model", "kv_cache_memory": "1GiB"})
    outcome = fleet.run(update=True)
    assert outcome.exit_code == 2
    assert "ERROR x: no/such-model" in outcome.text
    assert fleet.lock.read_bytes() == before


def test_a_new_deployment_and_a_dropped_one_are_told(fleet):
    fleet.write(CHAT)
    fleet.run(update=True)
    fleet.write({**CHAT, "name": "chat2"})
    outcome = fleet.run()
    assert outcome.exit_code == 1
    assert "chat2 is not in the lock; run" in " ".join(outcome.text.split())
    assert "note: the lock holds chat, which the file does not list" in outcome.text


def test_junit_and_annotations_hold_the_failures(fleet):
    fleet.write(CHAT, EAGLE)
    fleet.run(update=True)
    fleet.write({**CHAT, "kv_cache_memory": "30GiB"}, EAGLE)
    suite = ElementTree.fromstring(fleet.run(format="junit").text)
    assert suite.attrib == {"tests": "2", "failures": "1", "errors": "0"}
    assert [case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None] == ["chat"]
    first, last = fleet.run(format="github").text.splitlines()
    assert first.startswith(f"::error file={fleet.path},line=2,title=kvplan%3A chat::502,")
    assert "(-50.0 %25): kv_cache_memory" in first
    assert last == "::error title=kvplan check::1 deployment of 2 failed: chat."


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
KEYS = st.sampled_from(
    [
        "name",
        "serve",
        "model",
        "limits",
        "gpu",
        "engine",
        "min_tokens",
        "capacity_loss",
        "kv_cache_memory",
        "env",
        "max_model_len",
        "speculative_config",
        "drafter",
        "deployments",
        "defaults",
        "x",
    ]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)


def told(text: str) -> str:
    """The sentence of the error, if there is one; any other exception is a defect."""
    try:
        read_fleet(parse(text, "f.yaml"), "f.yaml")
    except KvplanError as error:
        return str(error)
    return ""


@settings(deadline=None)
@given(TREES)
def test_no_file_gives_a_traceback(tree):
    for document in (tree, {"deployments": [tree]}, {"deployments": [{"name": "a", "model": "m", "limits": tree}]}):
        assert "\n" not in told(yaml.safe_dump(document))


@given(st.text(max_size=60))
def test_no_text_gives_a_traceback(text):
    assert "\n" not in told(text)


def test_an_image_of_another_release_is_planned_by_the_engines_rules_and_says_so(fleet):
    own = {"gpu": "H200", "kv_cache_memory": "20GiB"}
    line = "docker run --gpus all vllm/vllm-openai:{} --model Qwen/Qwen3-8B"
    tags = {"old": "v0.18.0", "same": "v0.33.0-cu130", "latest": "latest", "pinned": "0.18.0@sha256:ab"}
    fleet.write(*({"name": name, "serve": line.format(tag), **own} for name, tag in tags.items()))
    notes = json.loads(fleet.run(update=True, format="json").text)["notes"]
    assert notes[:-1] == [
        "old: by the rules of vLLM 0.33.0 in place of the image's v0.18.0.",
        "pinned: by the rules of vLLM 0.33.0 in place of the image's 0.18.0.",
    ]
