"""The order in which a name is looked up, and what is said when it is found nowhere."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from kvplan.errors import KvplanError
from kvplan.sources import bundled, resolve
from kvplan.sources.cache import folder

LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096}
EMPTY: dict[str, str] = {"HF_HOME": "/nowhere"}


def refused(name: str, **options: object) -> str:
    with pytest.raises(KvplanError) as caught:
        resolve(name, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cached(home: Path, name: str, config: dict[str, object], commit: str = "0" * 40) -> Path:
    """A model in a Hugging Face cache under ``home``, as huggingface_hub lays it out."""
    repository = home / "hub" / ("models--" + name.replace("/", "--"))
    snapshot = repository / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(commit)
    (snapshot / "config.json").write_text(json.dumps(config))
    return snapshot


def test_a_local_directory_wins_over_a_bundled_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Qwen" / "Qwen3-8B").mkdir(parents=True)
    (tmp_path / "Qwen" / "Qwen3-8B" / "config.json").write_text(json.dumps(LLAMA))
    source = resolve("Qwen/Qwen3-8B", env=EMPTY)
    assert (source.source, source.config, source.folder) == ("path", LLAMA, "Qwen/Qwen3-8B")


def test_a_bundled_id_wins_over_the_cache(tmp_path: Path) -> None:
    cached(tmp_path, "Qwen/Qwen3-8B", LLAMA)
    source = resolve("Qwen/Qwen3-8B", env={"HF_HOME": str(tmp_path)})
    assert (source.source, source.config["model_type"]) == ("bundled", "qwen3")


def test_a_cached_copy_with_the_quantisation_wins_over_a_bundled_one_that_lacks_it(tmp_path: Path) -> None:
    name, env = "nvidia/Llama-3.1-70B-Instruct-FP8", {"HF_HOME": str(tmp_path)}
    snapshot = cached(tmp_path, name, LLAMA)
    assert resolve(name, env=env).source == "bundled"
    (snapshot / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
    for spelling in (name, name.lower(), "llama-3.1-70b-instruct-fp8"):
        source = resolve(spelling, env=env)
        assert (source.id, source.source, source.config, source.notes) == (name, "cache", LLAMA, ())


def test_an_id_in_the_cache_is_read_at_main(tmp_path: Path) -> None:
    cached(tmp_path, "someone/model", {"model_type": "old"}, "1" * 40)
    snapshot = cached(tmp_path, "someone/model", LLAMA, "2" * 40)
    (snapshot / "hf_quant_config.json").write_text('{"quantization": {"kv_cache_quant_algo": "FP8"}}')
    source = resolve("someone/model", offline=True, env={"HF_HOME": str(tmp_path)})
    assert (source.id, source.source, source.config) == ("someone/model", "cache", LLAMA)
    assert source.file("hf_quant_config.json") == {"quantization": {"kv_cache_quant_algo": "FP8"}}
    assert source.file("generation_config.json") is None


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HUGGINGFACE_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"),
        ({"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/huggingface/hub"),
        ({"HOME": "/h"}, "/h/.cache/huggingface/hub"),
        ({"HF_HOME": "~/cache", "HOME": "/h"}, "/h/cache/hub"),
    ],
)
def test_the_cache_lies_where_huggingface_hub_puts_it(env: dict[str, str], expected: str) -> None:
    assert folder(env) == expected


def test_a_refs_file_cannot_lead_out_of_the_cache(tmp_path: Path) -> None:
    snapshot = cached(tmp_path, "someone/model", LLAMA)
    (snapshot.parent.parent / "refs" / "main").write_text("../../..")
    assert "not in the Hugging Face cache" in refused("someone/model", offline=True, env={"HF_HOME": str(tmp_path)})


@pytest.mark.parametrize("name", ["qwen/qwen3-8b", "QWEN/QWEN3-8B", "Qwen3-8B", "qwen3-8b"])
def test_bundled_ids_are_found_without_regard_to_case_and_by_their_last_part(name: str) -> None:
    source = resolve(name, offline=True, env=EMPTY)
    assert (source.id, source.where) == ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B (bundled)")


def test_an_ambiguous_last_part_names_the_candidates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner in ("one", "two"):
        (tmp_path / f"{owner}__Model.json").write_text(json.dumps(LLAMA))
    monkeypatch.setattr(bundled, "folder", lambda: str(tmp_path))
    bundled.ids.cache_clear()
    try:
        sentence = "model: names several bundled models (one/Model, two/Model); give the whole id."
        assert refused("model", offline=True, env=EMPTY) == sentence
        assert resolve("two/model", offline=True, env=EMPTY).id == "two/Model"
    finally:
        bundled.ids.cache_clear()


def test_kvplans_own_key_is_no_part_of_a_config() -> None:
    source = resolve("Qwen/Qwen3-8B", offline=True)
    assert "kvplan" not in source.config
    assert source.facts["tensor_bytes"] == 16381470720
    path = os.path.join(bundled.folder(), "Qwen__Qwen3-8B.json")
    assert resolve(path).digest == source.digest


def test_an_unknown_id_offline_hints_at_its_neighbours() -> None:
    sentence = refused("Qwen/Qwen3-9B", offline=True, env=EMPTY)
    assert sentence.startswith("Qwen/Qwen3-9B: not a path, not bundled and not in the Hugging Face cache; ")
    assert "Qwen/Qwen3-8B" in sentence


def test_hf_hub_offline_means_offline() -> None:
    assert "not bundled" in refused("someone/model", env={**EMPTY, "HF_HUB_OFFLINE": "1"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "must be a path or an id"),
        ("  ", "must be a path or an id"),
        ("x" * 5000, "must be a path or an id"),
        ("a\0b", "must be a path or an id"),
        ("./missing", "./missing: no such file or directory."),
        ("/missing/config.json", "/missing/config.json: no such file or directory."),
        ("~/missing", "no such file or directory"),
        ("missing.gguf", "no such file or directory"),
        ("a b", "neither an existing path nor a model id"),
        ("a/b/c", "neither an existing path nor a model id"),
        ("a--b/c", "neither an existing path nor a model id"),
        ("modèle/x", "neither an existing path nor a model id"),
        ("https://example.org/x/y", "neither an existing path nor a model id"),
        ("\udcff", "not valid text"),
    ],
)
def test_a_name_that_can_mean_nothing_is_refused_without_the_network(name: str, says: str) -> None:
    assert says in refused(name, env=EMPTY)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], "a directory without a config.json"),
        (["params.json"], "a params.json in Mistral format without its consolidated.safetensors"),
        (["adapter_config.json"], "a PEFT adapter"),
        (["model-Q4_K_M.gguf"], "a GGUF checkpoint"),
    ],
)
def test_a_directory_without_a_config_says_what_it_holds(tmp_path: Path, files: list[str], says: str) -> None:
    for name in files:
        (tmp_path / name).write_text("{}")
    assert says in refused(str(tmp_path), env=EMPTY)


@pytest.mark.parametrize(
    ("files", "mistral"),
    [
        (("params.json", "consolidated.safetensors"), True),
        (("params.json", "consolidated-00001-of-00002.safetensors", "config.json"), True),
        (("params.json", "config.json"), False),
        (("consolidated.safetensors", "config.json"), False),
    ],
)
def test_mistrals_format_is_params_json_beside_its_weights(
    tmp_path: Path, files: tuple[str, ...], mistral: bool
) -> None:
    for name in files:
        (tmp_path / name).write_text(json.dumps(LLAMA))
    assert resolve(str(tmp_path)).has_mistral_format is mistral


def test_a_directory_in_place_of_the_config_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()
    assert "a directory without a config.json" in refused(str(tmp_path), env=EMPTY)


class FakeHub(ModuleType):
    """huggingface_hub with one model, or with one failure."""

    def __init__(self, folder: Path, failure: Exception | None = None, size: int = 100) -> None:
        super().__init__("huggingface_hub")
        self.fetched: list[str] = []

        def metadata(url: str, timeout: float) -> object:
            if failure is not None:
                raise failure
            if not (folder / url).exists():
                raise type("RemoteEntryNotFoundError", (type("EntryNotFoundError", (Exception,), {}),), {})()
            return type("Metadata", (), {"size": size})

        def download(name: str, file: str, etag_timeout: float) -> str:
            self.fetched.append(file)
            return str(folder / file)

        self.get_hf_file_metadata, self.hf_hub_download = metadata, download
        self.hf_hub_url = lambda name, file: file


def install(monkeypatch: pytest.MonkeyPatch, hub: FakeHub) -> None:
    bars = ModuleType("huggingface_hub.utils.tqdm")
    bars.disable_progress_bars = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils", ModuleType("huggingface_hub.utils"))
    monkeypatch.setitem(sys.modules, "huggingface_hub.utils.tqdm", bars)


def test_the_hub_gives_the_config_and_nothing_but_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    hub = FakeHub(tmp_path)
    install(monkeypatch, hub)
    source = resolve("someone/model", env=EMPTY)
    assert (source.source, source.config) == ("hub", LLAMA)
    assert source.file("hf_quant_config.json") is None
    assert hub.fetched == ["config.json"]


def error(name: str, *bases: str, status: int | None = None) -> Exception:
    """An exception of huggingface_hub's, by its class names."""
    base: type[Exception] = Exception
    for parent in reversed(bases):
        base = type(parent, (base,), {})
    found = type(name, (base,), {})("a long text\nof several lines")
    if status is not None:
        found.response = type("Response", (), {"status_code": status})  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (error("GatedRepoError", "RepositoryNotFoundError", status=403), "gated on the hub"),
        (error("RepositoryNotFoundError", status=401), "not on the hub (or private: set HF_TOKEN)"),
        (error("HfHubHTTPError", status=503), "the hub answered 503"),
        (error("LocalEntryNotFoundError", "EntryNotFoundError"), "the hub cannot be reached"),
        (error("ConnectError"), "the hub cannot be reached (ConnectError)"),
        (error("RemoteEntryNotFoundError", "EntryNotFoundError"), "has no config.json"),
    ],
)
def test_each_failure_of_the_hub_has_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception, says: str
) -> None:
    install(monkeypatch, FakeHub(tmp_path, failure))
    assert says in refused("someone/model", env=EMPTY)


def test_a_config_that_the_hub_says_is_huge_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    hub = FakeHub(tmp_path, size=10**9)
    install(monkeypatch, hub)
    assert "config.json is larger than 8 MiB" in refused("someone/model", env=EMPTY)
    assert hub.fetched == []


def test_a_bundled_id_needs_neither_the_network_nor_heavy_modules() -> None:
    import subprocess

    code = (
        "import sys; from kvplan.sources import resolve; from kvplan.hf import read; "
        "read(resolve('Qwen/Qwen3.6-35B-A3B-FP8', offline=True)); "
        "print(sorted(set(sys.modules) & {'transformers', 'huggingface_hub', 'yaml', 'torch', 'pathlib', 'pydantic'}))"
    )
    out = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert out.stdout.strip() == "[]"
