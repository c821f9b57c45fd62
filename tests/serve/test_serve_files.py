"""Containers, manifests, units and config files: which server they start, and with what."""

from pathlib import Path

import pytest

from kvplan.errors import KvplanError
from kvplan.serve import read_argv, read_file, read_text, to_document
from kvplan.serve.deployment import Deployment


def one(text: str, name: str = "the text") -> Deployment:
    (deployment,) = read_text(text, name)
    return deployment


def test_docker_run_passes_only_its_own_environment() -> None:
    line = (
        "VLLM_KV_CACHE_LAYOUT=HND docker run -d --gpus '\"device=0,1\"' --rm -it -p8000:8000 -v a:b --ipc=host "
        "-e VLLM_USE_V2_MODEL_RUNNER=1 vllm/vllm-openai:v0.33.0 --model org/m -tp 2 --max-model-len 32k"
    )
    deployment = one(line)
    assert deployment.model == "org/m"
    assert deployment.options == {"tensor_parallel_size": 2, "max_model_len": 32000}
    assert deployment.env == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert deployment.errors == ()


@pytest.mark.parametrize(
    "line",
    [
        "podman run --rm docker.io/rocm/vllm:latest vllm serve org/m -tp 2",
        "docker run --entrypoint bash vllm/vllm-openai -c 'vllm serve org/m -tp 2'",
        "docker run --entrypoint vllm vllm/vllm-openai serve org/m -tp 2",
        "docker exec c bash -lc 'cd /x && vllm serve org/m -tp 2'",
        "ssh host 'CUDA_VISIBLE_DEVICES=0 nohup vllm serve org/m -tp 2 > log 2>&1 &'",
        "tmux new-session -d 'uv run vllm serve org/m -tp 2'",
        "python3 -u -m vllm.entrypoints.openai.api_server --model org/m -tp 2",
        "python -m vllm.entrypoints.cli.main serve org/m -tp 2",
        "numactl -N 0 /opt/venv/bin/vllm serve -tp 2 --model org/m",
    ],
)
def test_a_server_is_found_behind_its_wrappers(line: str) -> None:
    deployment = one(line)
    assert (deployment.model, deployment.options, deployment.errors) == ("org/m", {"tensor_parallel_size": 2}, ())


def test_an_image_that_serves_already_refuses_the_command() -> None:
    deployment = one("docker run vllm/vllm-openai:latest vllm serve org/m -tp 2")
    assert deployment.model == "org/m"
    assert "starts vllm serve by itself" in deployment.errors[0]


COMPOSE = """
services:
  cache: {image: "redis:7", command: redis-server}
  one:
    image: vllm/vllm-openai:latest
    environment: {VLLM_KV_CACHE_LAYOUT: NHD, HF_TOKEN: }
    command: >
      --model ${MODEL:-org/m} --tensor-parallel-size ${TP-2}
      --speculative-config '{"method": "mtp", "num_speculative_tokens": 1}'
  two:
    image: own/image
    environment: [VLLM_SSM_CONV_STATE_LAYOUT=DS]
    entrypoint: [python3, -m, vllm.entrypoints.openai.api_server]
    command: [--model, org/n, --port, 8000, --max-num-seqs, "4"]
"""


def test_every_service_that_serves_is_read() -> None:
    first, second = read_text(COMPOSE, "compose.yaml")
    assert first.model == "org/m"
    assert first.options == {
        "tensor_parallel_size": 2,
        "speculative_config": {"method": "mtp", "num_speculative_tokens": 1},
    }
    assert first.env == {"VLLM_KV_CACHE_LAYOUT": "NHD"}
    assert (second.model, second.options, second.ignored) == ("org/n", {"max_num_seqs": 4}, ("port",))
    assert second.env == {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}


MANIFEST = """
apiVersion: v1
kind: ConfigMap
data:
  run.sh: |
    export VLLM_KV_CACHE_LAYOUT=HND
    exec vllm serve org/script -tp $TPS --rank=0
---
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - {name: a, image: "vllm/vllm-openai:latest", args: [org/a, "--max-num-seqs=$(N)"], env: [{name: N, value: "7"}]}
      - {name: b, image: x, command: [sh, -c], args: ["vllm serve org/b -pp 2 | tee /log"]}
      - {name: c, image: x, command: [bash, /config/run.sh], env: [{name: TPS, value: 4}]}
      - {name: d, image: x, command: [sleep, inf]}
      - {name: e, image: "vllm/vllm-openai:latest", args: [org/e, -tp, $(SIZE)]}
"""


def test_containers_of_a_manifest_and_their_scripts() -> None:
    a, b, c, e = read_text(MANIFEST, "m.yaml")
    assert (a.model, a.options) == ("org/a", {"max_num_seqs": 7})
    assert (b.model, b.options) == ("org/b", {"pipeline_parallel_size": 2})
    assert (c.model, c.options, c.env) == ("org/script", {"tensor_parallel_size": 4}, {"VLLM_KV_CACHE_LAYOUT": "HND"})
    assert "--rank=0 is unknown" in c.errors[0]
    assert (e.options, e.errors) == ({"tensor_parallel_size": "$(SIZE)"}, ())


def test_a_script_that_is_elsewhere_is_named() -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: x\n    command: [bash, /c/run.sh]\n"
    )
    deployment = one(text)
    assert deployment.model is None
    assert "/c/run.sh" in deployment.errors[0]


def test_a_unit_gives_command_and_environment() -> None:
    unit = (
        '[Service]\nEnvironment="VLLM_KV_CACHE_LAYOUT=HND" A=3\n# note\nExecStart=-/opt/vllm serve org/m \\\n'
        '  # inside\n  --max-num-seqs ${A} \\\n  --speculative-config \'{"method": "mtp"}\'\nRestart=always\n'
    )
    deployment = one(unit)
    assert deployment.options == {"max_num_seqs": 3, "speculative_config": {"method": "mtp"}}
    assert (deployment.model, deployment.env) == ("org/m", {"VLLM_KV_CACHE_LAYOUT": "HND"})


def test_a_podman_unit_gives_image_and_arguments() -> None:
    deployment = one("[Container]\nImage=docker.io/vllm/vllm-openai:latest\nExec=--model org/m -tp 2\n")
    assert (deployment.model, deployment.options) == ("org/m", {"tensor_parallel_size": 2})


CONFIG = """model: org/m
enable_prefix_caching: true
async-scheduling: false
speculative-config: {method: mtp}
max-num-seqs: 16
"""


def test_a_config_file_comes_before_the_line_and_false_is_dropped_under_serve(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    (tmp_path / "serve.sh").write_text("vllm serve --config c.yaml --max-num-seqs 4\n")
    (tmp_path / "api.sh").write_text("python -m vllm.entrypoints.openai.api_server --config c.yaml\n")
    (serve,), (api,) = read_file(tmp_path / "serve.sh"), read_file(tmp_path / "api.sh")
    assert serve.options == {"enable_prefix_caching": True, "speculative_config": {"method": "mtp"}, "max_num_seqs": 4}
    assert serve.ignored == ("async-scheduling: false",)
    assert api.options["async_scheduling"] is False
    assert (serve.model, api.model, one(CONFIG, "c.yaml").model) == ("org/m", "org/m", "org/m")


def test_a_config_file_after_an_equals_sign_is_read_and_told() -> None:
    deployment = one("cat > c.yaml <<EOF\nmax-num-seqs: 8\nEOF\nvllm serve M --config=c.yaml")
    assert deployment.options == {"max_num_seqs": 8}
    assert "--config c.yaml in two words" in deployment.errors[0]


@pytest.mark.parametrize("name", ["../c.yaml", "/etc/c.yaml", "missing.yaml", "c.json", "$X.yaml"])
def test_a_config_file_outside_the_directory_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "run.sh").write_text(f"vllm serve M --config {name}\n")
    (deployment,) = read_file(tmp_path / "in" / "run.sh")
    assert deployment.options == {}
    assert deployment.errors[0].startswith("--config")


@pytest.mark.parametrize(
    ("text", "name", "part"),
    [
        ("echo hello", "the text", "no vLLM server is started here"),
        ("a: [", "x.yaml", "is no valid YAML"),
        ("a: !!python/object/apply:os.system [ls]", "x.yaml", "is no valid YAML"),
        ("a: 1", "x.yaml", "no vLLM server is started here"),
        ("x" * (4 * 2**20 + 1), "the text", "is larger than 4 MiB"),
        ("vllm serve M\n" * 1001, "the text", "starts more than 1000 servers"),
        ("vllm serve M " + "x " * 5001, "the text", "more than 5000 words"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, name: str, part: str) -> None:
    with pytest.raises(KvplanError) as raised:
        read_text(text, name)
    assert part in str(raised.value)


def test_a_missing_or_large_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KvplanError, match="cannot be read"):
        read_file(tmp_path / "none.txt")
    (tmp_path / "large.txt").write_bytes(b"#" * (4 * 2**20 + 1))
    with pytest.raises(KvplanError, match="larger than 4 MiB"):
        read_file(tmp_path / "large.txt")


def test_words_of_a_shell_are_taken_as_they_are() -> None:
    words = ["VLLM_KV_CACHE_LAYOUT=HND", "vllm", "serve", "org/m", "--served-model-name", "a b", "--max_num_seqs", "8"]
    assert to_document(read_argv(words)) == {
        "deployments": [
            {
                "model": "org/m",
                "options": {"max_num_seqs": 8},
                "env": {"VLLM_KV_CACHE_LAYOUT": "HND"},
                "ignored": ["served_model_name"],
                "errors": [],
            }
        ]
    }


def test_a_line_in_one_word_is_read_as_a_shell_would() -> None:
    (deployment,) = read_argv(["VLLM_KV_CACHE_LAYOUT=HND vllm serve org/m -tp 2"])
    assert (deployment.model, deployment.options) == ("org/m", {"tensor_parallel_size": 2})
    assert deployment.env == {"VLLM_KV_CACHE_LAYOUT": "HND"}


DOCKERFILE = """FROM python:3.12 AS build
CMD ["vllm", "serve", "no/model"]
FROM vllm/vllm-openai:v0.33.0
ARG TP=2
ENV VLLM_KV_CACHE_LAYOUT=HND \\
    # not this
    HF_HOME=/x
ENV LENGTH 4096
"""


@pytest.mark.parametrize(
    ("tail", "options"),
    [
        ('CMD ["org/m", "-tp", "2"]', {"tensor_parallel_size": 2}),
        ('ENTRYPOINT ["vllm", "serve"]\nCMD ["org/m"]', {}),
        ("ENTRYPOINT exec vllm serve org/m --max-model-len $LENGTH", {"max_model_len": 4096}),
        ("CMD vllm serve org/m \\\n  --max-model-len 8", {"max_model_len": 8}),
    ],
)
def test_a_dockerfile_starts_what_its_last_stage_says(tail: str, options: dict[str, object]) -> None:
    deployment = one(DOCKERFILE + tail + "\n", "Dockerfile")
    assert (deployment.model, deployment.options) == ("org/m", options)
    assert deployment.env == {"VLLM_KV_CACHE_LAYOUT": "HND"}


POD = """apiVersion: v1
kind: Pod
spec:
  containers:
  - {name: v, image: vllm/vllm-openai, args: [org/m, -tp, "4"]}
"""


@pytest.mark.parametrize(
    "text",
    [
        f"kubectl apply -f - <<EOF\n{POD}EOF\n",
        f"cat > pod.yaml <<'EOF'\n{POD}EOF\nkubectl apply -f pod.yaml\n",
        "cat > run.sh <<'EOF'\nvllm serve org/m -tp 4\nEOF\nbash run.sh\n",
        "bash -s <<'EOF'\nvllm serve org/m -tp 4\nEOF\n",
        "sudo tee /etc/v.service <<'EOF'\n[Service]\nExecStart=/bin/vllm serve org/m -tp 4\nEOF\nsystemctl start v\n",
        '[program:v]\ncommand=vllm serve org/m -tp %(ENV_TP)s\nenvironment=TP="4",X=1\n',
        "\ufeffvllm serve org/m -tp 4",
    ],
)
def test_what_a_script_writes_or_hands_on_is_read(text: str) -> None:
    deployment = one(text)
    assert (deployment.model, deployment.options, deployment.errors) == ("org/m", {"tensor_parallel_size": 4}, ())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (POD.replace("vllm/vllm-openai", "own/llm").replace("[org/m,", "[serve, org/m,"), "pod.yaml"),
        ("docker run --gpus all own/llm serve org/m -tp 4", "the text"),
        ("envs: {M: org/m}\nrun: |\n  vllm serve $M -tp 4\n", "task.yaml"),
        ("jobs:\n  a:\n    steps:\n    - env: {TP: 4}\n      run: vllm serve org/m -tp $TP\n", "ci.yaml"),
    ],
)
def test_an_image_of_ones_own_and_the_step_of_a_pipeline_are_read(text: str, name: str) -> None:
    deployment = one(text, name)
    assert (deployment.model, deployment.options, deployment.errors) == ("org/m", {"tensor_parallel_size": 4}, ())


def test_another_program_that_serves_is_none_of_vllms() -> None:
    with pytest.raises(KvplanError, match="no vLLM server is started here"):
        read_text("docker run rayproject/ray serve run app:app")


def test_all_flags_in_one_argument_are_told() -> None:
    deployment = one(POD.replace('[org/m, -tp, "4"]', '["--model org/m -tp 4"]'), "pod.yaml")
    assert deployment.errors[0].endswith("is one argument of several words: give each word as an argument of its own")


def test_a_model_of_kserve_with_vllms_runtime_is_served_with_its_arguments() -> None:
    service = """apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor:
    model:
      modelFormat: {name: vLLM}
      storageUri: hf://org/m
      args: [--max-model-len=8192]
"""
    deployment = one(service, "service.yaml")
    assert (deployment.model, deployment.options) == ("org/m", {"max_model_len": 8192})


@pytest.mark.parametrize(
    ("text", "name", "release"),
    [
        ("docker run vllm/vllm-openai:v0.18.0 --model org/m", "the text", "v0.18.0"),
        ("docker run vllm/vllm-openai:v0.33.0 --model org/m", "the text", None),
        ("docker run vllm/vllm-openai:v0.33.0-cu130@sha256:ab --model org/m", "the text", None),
        ("docker run vllm/vllm-openai:nightly --model org/m", "the text", None),
        ("docker run own/server:1.2.3 vllm serve org/m", "the text", None),
        ("docker run --entrypoint vllm vllm/vllm-openai:v0.9.2 serve org/m", "the text", "v0.9.2"),
        ("vllm serve org/m", "the text", None),
        ("services: {a: {image: 'vllm/vllm-openai:v0.18.0', command: --model org/m}}", "c.yaml", "v0.18.0"),
        (
            "services: {a: {image: 'vllm/vllm-openai:v0.18.0', entrypoint: vllm serve, command: org/m}}",
            "c.yaml",
            "v0.18.0",
        ),
        (
            "containers: [{name: a, image: 'vllm/vllm-openai:v0.20.1', command: [vllm, serve, org/m]}]",
            "k.yaml",
            "v0.20.1",
        ),
        ('FROM vllm/vllm-openai:v0.18.0\nCMD ["--model", "org/m"]', "Dockerfile", "v0.18.0"),
        ("FROM vllm/vllm-openai:v0.18.0\nENTRYPOINT vllm serve org/m", "Dockerfile", "v0.18.0"),
    ],
)
def test_an_image_of_another_release_is_known(text: str, name: str, release: str | None) -> None:
    deployment = one(text, name)
    assert (deployment.model, deployment.other_release, deployment.errors) == ("org/m", release, ())


def test_a_plan_of_an_image_of_another_release_says_which_rules_it_goes_by() -> None:
    from kvplan.commands.deployment import Choices, request

    words = ["docker", "run", "vllm/vllm-openai:v0.18.0", "--model", "org/m"]
    assert request(words, Choices("H200"), {}).assumed == ("the rules of vLLM 0.33.0 in place of the image's v0.18.0",)


def test_a_script_or_manifest_in_place_of_a_model_is_told_what_to_write(tmp_path: Path) -> None:
    from kvplan.sources import resolve

    file = tmp_path / "start.sh"
    file.write_text("vllm serve org/m")
    with pytest.raises(KvplanError, match="write the command itself after --, as in `kvplan plan -- vllm serve MODEL`"):
        resolve(str(file), offline=True)
