"""What vLLM 0.33.0's own models hold, built on the meta device: parameters and buffers as created, on first ranks.

Each row: model, GPU, flags, bytes of the target on each pipeline stage, bytes that the drafter adds on the last one.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan.commands.deployment import Choices, request
from kvplan.inputs import read
from kvplan.pipeline import plan_read
from kvplan.weights.checks import stages

CONFIGS = Path(__file__).parents[1] / "goldens" / "configs"
BUNDLED = Path(__file__).parents[2] / "model_configs"

ENGINE: list[tuple[str, str, tuple[str, ...], tuple[int, ...], int]] = [
    ("Qwen/Qwen3-8B", "H200", (), (16391957056,), 0),
    ("Qwen/Qwen3-8B", "H200", ("-tp", "4"), (4106316352,), 0),
    ("Qwen/Qwen3-30B-A3B-FP8", "H200", ("-tp", "4"), (7828622464,), 0),
    ("Qwen/Qwen3-235B-A22B", "H200", ("-tp", "4"), (117632426464,), 0),
    ("nvidia/Qwen3-235B-A22B-NVFP4", "H200", ("-tp", "4"), (33611241616,), 0),
    ("deepseek-ai/DeepSeek-V3", "H200", ("-tp", "4"), (169183572144,), 0),
    ("deepseek-ai/DeepSeek-V4-Flash", "H200", ("-tp", "4"), (40519127388,), 0),
    ("zai-org/GLM-5.1-FP8", "H200", ("-tp", "4"), (188301853536,), 0),
    ("zai-org/GLM-5.3-Flash", "H200", ("-tp", "4"), (157555309096,), 0),
    ("zai-org/GLM-4.7", "H200", ("-tp", "4"), (176681555008,), 0),
    ("moonshotai/Kimi-K2.5", "H200", ("-tp", "4"), (150578515976,), 0),
    ("moonshotai/Kimi-Linear-48B-A3B-Instruct", "H200", ("-tp", "4"), (24616728844,), 0),
    ("openai/gpt-oss-20b", "H200", ("-tp", "4"), (3650176256,), 0),
    ("openai/whisper-large-v3", "H200", ("-tp", "4"), (884173824,), 0),
    ("google/gemma-3-27b-it", "H200", ("-tp", "4"), (14037929242,), 0),
    ("google/gemma-3n-E4B-it", "H200", ("-tp", "4"), (5483562334,), 0),
    ("google/gemma-4-31B-it", "H200", ("-tp", "4"), (16959861546,), 0),
    ("nvidia/Gemma-4-26B-A4B-NVFP4", "H200", ("-tp", "4"), (5996402746,), 0),
    ("nvidia/Llama-3.1-70B-Instruct-FP8", "H200", ("-tp", "4"), (35312387328,), 0),
    ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "H200", ("-tp", "4"), (60973328512,), 0),
    ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "H200", (), (18874268410,), 0),
    ("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "H200", ("-tp", "4"), (4734825082,), 0),
    ("nvidia/MiniMax-M3-NVFP4", "H200", ("-tp", "4"), (62829389916,), 0),
    ("MiniMaxAI/MiniMax-M2.5", "H200", ("-tp", "4"), (57702474960,), 0),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "H200", ("-tp", "4"), (56805136576,), 0),
    ("microsoft/Phi-3.5-MoE-instruct", "H200", ("-tp", "4"), (20974272672,), 0),
    ("ai21labs/AI21-Jamba-1.5-Large", "H200", ("-tp", "4"), (199294741584,), 0),
    ("tiiuae/Falcon-H1-7B-Instruct", "H200", ("-tp", "4"), (3999489296,), 0),
    ("tiiuae/falcon-mamba-7b-instruct", "H200", ("-tp", "4"), (3640926208,), 0),
    ("ibm-granite/granite-4.0-h-micro", "H200", ("-tp", "4"), (1624697408,), 0),
    ("LiquidAI/LFM2-8B-A1B", "H200", ("-tp", "4"), (4188666208,), 0),
    ("Zyphra/Zamba2-2.7B", "H200", ("-tp", "4"), (1464714320,), 0),
    ("allenai/Olmo-3.1-32B-Instruct", "H200", ("-tp", "4"), (16118394880,), 0),
    ("tencent/Hy4-preview", "H200", ("-tp", "4"), (29634546452,), 0),
    ("tencent/Hunyuan-A13B-Instruct", "H200", ("-tp", "4"), (40209638400,), 0),
    ("XiaomiMiMo/MiMo-V2.5", "H200", ("-tp", "4"), (79583890784,), 0),
    ("poolside/Laguna-S-2.1", "H200", ("-tp", "4"), (59239593728,), 0),
    ("meta-models/Muse-Glimmer-30B", "H200", ("-tp", "4"), (17187194176,), 0),
    ("CohereLabs/c4ai-command-a-03-2025", "H200", ("-tp", "4"), (55563543552,), 0),
    ("baidu/ERNIE-4.5-300B-A47B-PT", "H200", ("-tp", "4"), (149870573152,), 0),
    ("meta-llama/Llama-3.1-8B-Instruct", "H200", ("-tp", "8"), (2041586176,), 0),
    ("Qwen/Qwen3-30B-A3B", "H200", ("-tp", "8"), (7691072256,), 0),
    ("Qwen/Qwen3-VL-32B-Instruct", "H200", ("-tp", "8"), (8416390044,), 0),
    ("Qwen/Qwen3-Next-80B-A3B-Instruct", "H200", ("-pp", "2"), (80330274784, 80330278880), 0),
    ("google/gemma-3-27b-it", "H200", ("-pp", "2"), (29567125714, 28720972274), 0),
    ("deepseek-ai/DeepSeek-V3", "H200", ("-pp", "2"), (325980758288, 347253740576), 0),
    ("openai/gpt-oss-20b", "H200", ("-tp", "4", "--enable-expert-parallel"), (3477508352,), 0),
    ("moonshotai/Kimi-K2.5", "H200", ("-tp", "4", "--enable-expert-parallel"), (150578469896,), 0),
    ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "B200", ("-tp", "2"), (34625345120,), 0),
    ("deepseek-ai/DeepSeek-V3", "H200", ("-tp", "2", "--enable-expert-parallel", "-dp", "2"), (174946999344,), 0),
    ("Qwen/Qwen3-30B-A3B", "H200", ("--enable-expert-parallel", "-dp", "2"), (32083727104,), 0),
    ("Qwen/Qwen3-VL-32B-Instruct", "H200", ("-tp", "2", "--language-model-only"), (32829910016,), 0),
    ("moonshotai/Kimi-K2.5", "H200", ("-tp", "2", "--mm-encoder-tp-mode", "data"), (299201938352,), 0),
    (
        "Qwen/Qwen3-8B",
        "H200",
        (
            "-tp",
            "2",
            "--speculative-config",
            '{"method": "eagle3", "num_speculative_tokens": 3, "model": "AngelSlim/Qwen3-8B_eagle3"}',
        ),
        (8201529920,),
        319055888,
    ),
    (
        "meta-llama/Llama-3.1-8B-Instruct",
        "H200",
        (
            "-tp",
            "2",
            "--speculative-config",
            '{"method": "eagle", "num_speculative_tokens": 3, "model": "yuhuili/EAGLE-LLaMA3.1-Instruct-8B"}',
        ),
        (8064082432,),
        318789648,
    ),
    (
        "openai/gpt-oss-20b",
        "H200",
        (
            "-tp",
            "2",
            "--speculative-config",
            '{"method": "dflash", "num_speculative_tokens": 7, "model": "z-lab/gpt-oss-20b-DFlash"}',
        ),
        (7031724032,),
        843011072,
    ),
    (
        "zai-org/GLM-5.3",
        "H200",
        (
            "-tp",
            "2",
            "--speculative-config",
            '{"method": "dflash", "num_speculative_tokens": 7, "model": "incoai/GLM-5.3-DFlash2"}',
        ),
        (745084751072,),
        3148864608,
    ),
    (
        "deepseek-ai/DeepSeek-V3.2",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (338164220464,),
        5986300400,
    ),
    (
        "deepseek-ai/DeepSeek-V4-Flash",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (79193838556,),
        1819593324,
    ),
    (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (79758586432,),
        1651532816,
    ),
    (
        "XiaomiMiMo/MiMo-V2.5",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (157867921728,),
        231808344,
    ),
    (
        "tencent/Hy4-preview",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (58639667028,),
        1787127376,
    ),
    (
        "nvidia/MiniMax-M3-NVFP4",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (125293744220,),
        7570257424,
    ),
    (
        "zai-org/GLM-4.7-Flash",
        "H200",
        ("-tp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (30117066480,),
        655252240,
    ),
    (
        "deepseek-ai/DeepSeek-V3.2",
        "H200",
        ("-pp", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
        (326498226448, 347755869216),
        13586209008,
    ),
    (
        "Qwen/Qwen3-8B",
        "H200",
        (
            "-pp",
            "2",
            "--speculative-config",
            '{"method": "eagle3", "num_speculative_tokens": 3, "model": "AngelSlim/Qwen3-8B_eagle3"}',
        ),
        (8201217312, 9445885216),
        537159696,
    ),
]


@pytest.mark.parametrize(("model", "gpu", "flags", "target", "drafter"), ENGINE)
def test_weights_are_those_of_the_engines_models(model, gpu, flags, target, drafter):
    words = [model, "--trust-remote-code", "--enforce-eager", *flags]
    wanted = request(words, Choices(gpu=gpu, offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    result = plan_read(wanted._replace(args=args), inputs)
    found = stages(result.config, inputs.target, inputs.drafter)
    assert tuple(sum(tensor.bytes for tensor in stage.target) for stage in found) == target
    assert sum(tensor.bytes for tensor in found[-1].drafter) == drafter


CLASSES = [
    ("SmolLM3ForCausalLM", 2, 887689856),
    ("SeedOssForCausalLM", 2, 36151766528),
    ("Starcoder2ForCausalLM", 2, 9617097856),
    ("PhiForCausalLM", 2, 2444356256),
    ("GPTNeoXForCausalLM", 2, 13354664640),
    ("HunYuanDenseV1ForCausalLM", 2, 8054662144),
    ("Ernie4_5ForCausalLM", 2, 394340640),
    ("GPT2LMHeadModel", 1, 3115373568),
    ("OPTForCausalLM", 2, 6667796992),
    ("FalconForCausalLM", 1, 13843704064),
    ("Mistral3ForConditionalGeneration", 2, 11547220864),
    ("LlavaForConditionalGeneration", 2, 11914862464),
    ("Step3p5ForCausalLM", 2, 25094670080),
    ("AfmoeForCausalLM", 2, 19077296384),
    ("HYV3ForCausalLM", 2, 295254168064),
    ("DeciLMForCausalLM", 2, 4836212800),
    ("ExaoneMoEForCausalLM", 2, 236675854592),
    ("GraniteSWAForCausalLM", 2, 8204986240),
    ("InternLM3ForCausalLM", 2, 8813028096),
    ("Gemma3nForCausalLM", 2, 6906513502),
    ("Glm5NextForCausalLM", 2, 313696725672),
    ("MiniMaxM3SparseForCausalLM", 2, 40689161344),
    ("Gemma4ForCausalLM", 2, 7389649660),
    ("MuseGlimmerForCausalLM", 2, 27889727296),
    ("Llama4ForCausalLM", 2, 110458645248),
    ("MiMoV2OmniForCausalLM", 2, 157867921728),
    ("LLaMAForCausalLM", 2, 6739206656),
    ("TeleChat3ForCausalLM", 2, 40275293184),
    ("IQuestCoderForCausalLM", 2, 39828663552),
    ("HyperCLOVAXForCausalLM", 2, 14782607968),
    ("SolarForCausalLM", 2, 22141742080),
    ("OrionForCausalLM", 2, 14500582016),
    ("StableLmForCausalLM", 2, 12144497280),
    ("NemotronForCausalLM", 2, 8272757248),
    ("OlmoeForCausalLM", 2, 6922440960),
    ("MiniCPMForCausalLM", 2, 8194105856),
    ("MiniCPM3ForCausalLM", 2, 1497879872),
    ("GraniteMoeForCausalLM", 2, 3377073664),
    ("GraniteMoeSharedForCausalLM", 2, 3528068608),
    ("GraniteMoeSWAForCausalLM", 2, 3528069376),
    ("ArceeForCausalLM", 2, 4619679808),
    ("CwmForCausalLM", 2, 9327489792),
    ("GlmForCausalLM", 2, 9400284032),
    ("OlmoForCausalLM", 2, 6888096768),
    ("Jais2ForCausalLM", 2, 8091047936),
    ("HeliumForCausalLM", 2, 2172770176),
    ("MinistralForCausalLM", 2, 7208510528),
    ("GPTJForCausalLM", 2, 6051759808),
    ("DeepseekForCausalLM", 2, 16380432832),
    ("MistralLarge3ForCausalLM", 2, 38317799520),
    ("Param2MoEForCausalLM", 2, 9161862992),
    ("Step3TextForCausalLM", 2, 93550295360),
    ("VaultGemmaForCausalLM", 2, 1008132770),
    ("FlexOlmoForCausalLM", 2, 12990849728),
    ("AXK1ForCausalLM", 2, 63197416832),
    ("PanguUltraMoEForCausalLM", 2, 41336195168),
    ("MellumForCausalLM", 2, 12154191808),
    ("YoutuForCausalLM", 2, 2100171520),
    ("LongcatFlashForCausalLM", 2, 561805656960),
    ("ChatGLMModel", 2, 9417060992),
    ("SolarOpenForCausalLM", 2, 102677382400),
]
"""Classes that no bundled config has: the file in tests/goldens/configs, ranks of an H200, bytes of the first."""


@pytest.mark.parametrize(("name", "ranks", "target"), CLASSES)
def test_weights_of_other_classes_are_those_of_the_engines_models(tmp_path, name, ranks, target):
    config = json.loads((CONFIGS / f"{name}.json").read_text(encoding="utf-8"))
    config.pop("kvplan", None)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    wanted = request([str(tmp_path), "-tp", str(ranks)], Choices(gpu="H200", offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    result = plan_read(wanted._replace(args=args), inputs)
    (stage,) = stages(result.config, inputs.target, inputs.drafter)
    assert sum(tensor.bytes for tensor in stage.target) == target


NEVER_TIED = (
    "MiniMaxAI/MiniMax-M2.5",
    "zai-org/GLM-4.7",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "deepseek-ai/DeepSeek-V4-Flash",
)


@pytest.mark.parametrize("name", NEVER_TIED)
def test_classes_that_read_no_tie_keep_a_head_of_their_own(tmp_path, name):
    """Their last stage holds a head and no embedding whatever tie_word_embeddings says."""
    path = BUNDLED / f"{name.replace('/', '__')}.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    wanted = request([str(tmp_path), "-tp", "4", "-pp", "2"], Choices(gpu="H200", offline=True), {})
    args, inputs = read(wanted.args, offline=True)
    result = plan_read(wanted._replace(args=args), inputs)
    names = {tensor.name for tensor in stages(result.config, inputs.target, inputs.drafter)[-1].target}
    assert "lm_head.weight" in names or "head.weight" in names
    assert ("model.embed_tokens.weight" in names) == (name == "Qwen/Qwen3-Next-80B-A3B-Instruct")


@pytest.mark.parametrize("name", ["zai-org/GLM-4.7", "zai-org/GLM-4.7-Flash"])
def test_the_shared_expert_of_glm_is_split_even_where_the_tokens_are(name):
    flags = ["-tp", "2", "--enable-expert-parallel"]
    found = []
    for more in ([], ["-dp", "2"]):
        wanted = request([name, *flags, *more], Choices(gpu="H200", offline=True), {})
        args, inputs = read(wanted.args, offline=True)
        result = plan_read(wanted._replace(args=args), inputs)
        (stage,) = stages(result.config, inputs.target, inputs.drafter)
        found.append({t.name: t.bytes for t in stage.target if ".shared_experts." in t.name})
    assert found[0]
    assert found[0] == found[1]
