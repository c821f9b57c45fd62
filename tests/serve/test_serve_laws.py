"""Laws: every flag is classified once, nothing that is read raises, importing costs nothing."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.errors import KvplanError
from kvplan.serve import planner_options, read_argv, read_text, to_document
from kvplan.serve.deployment import Deployment
from kvplan.serve.fields import FIELDS
from kvplan.serve.flags import FLAGS, VLLM_VERSION
from kvplan.serve.flagtable import nearest, option_strings
from kvplan.serve.removed import REMOVED
from kvplan.serve.touch import ENV_NEUTRAL, ENV_PLANNED, ENV_REFUSED, IGNORED, NEUTRAL, PLANNED, REFUSED

PIECES = [
    *"${}()[]<>|&;#=\\\"'`%^\n\t -",
    *[
        "vllm serve M ",
        "vllm",
        "serve",
        "docker run ",
        "vllm/vllm-openai ",
        "python -m ",
        "bash -c '",
        "--",
        "\\\n",
        "^\n",
    ],
    *[
        "vllm.entrypoints.openai.api_server ",
        "$A",
        "${A:-",
        "${A[@]}",
        "$((",
        "$(",
        "<<EOF\n",
        "EOF\n",
        "A=(",
        "A+=",
        "A=",
    ],
    *["export ", "if ", "then ", "fi\n", "for ", "done\n", "case ", "esac\n", "&&", "||", ">>", "%A%", "$env:A = "],
    *[
        '{"a":1}',
        "16K",
        "auto",
        "-1",
        "--config ",
        "x.yaml",
        "-O3",
        ".",
        "\ufdd0",
        "\ufdd1",
        "\ufdd2",
        "\0",
        "é",
        "\u2028",
    ],
    *["[Service]\nExecStart=", "Environment=", "apiVersion: v1\nkind: Pod\n", "services:\n", "  a:\n    image: vllm\n"],
    *["    command: ", "- ", "*a", "&a ", "<<: *a", "!!python/object:os.system", "9" * 30, "$((9**9**9))"],
    *[text + " " for text in list(option_strings())[::9]],
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=50).map("".join)
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["vllm", "vllm serve M", "vllm/vllm-openai", "$(A)"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "containers",
                    "args",
                    "command",
                    "image",
                    "env",
                    "name",
                    "value",
                    "services",
                    "environment",
                    "kind",
                    "data",
                    "model",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


def one_sentence(error: KvplanError) -> None:
    """A sentence has no line break and no mark of the reader's own."""
    assert not set(str(error)) & set("\n\ufdd0\ufdd1\ufdd2")


def check(read: Callable[[], list[Deployment]]) -> None:
    """Deployments that JSON can hold, or one sentence."""
    try:
        deployments = read()
        assert json.loads(json.dumps(to_document(deployments), allow_nan=False))
    except KvplanError as error:
        one_sentence(error)
        return
    for deployment in deployments:
        assert not any(mark in "".join(deployment.errors) for mark in "\ufdd0\ufdd1\ufdd2")
        try:
            planner_options(deployment)
        except KvplanError as error:
            one_sentence(error)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.sampled_from(["the text", "x.yaml"]))
def test_no_text_raises(text: str, name: str) -> None:
    check(lambda: read_text(text, name))


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_no_line_raises(text: str) -> None:
    check(lambda: read_text("vllm serve M " + text))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*option_strings(), *PIECES]) | st.text(max_size=8), max_size=20))
def test_no_words_raise(words: list[str]) -> None:
    check(lambda: read_argv(["vllm", "serve", *words]))


@settings(max_examples=200, deadline=None)
@given(TREES)
def test_no_yaml_raises(tree: object) -> None:
    check(lambda: read_text(json.dumps(tree), "x.json"))


def test_every_flag_of_vllm_is_classified_exactly_once() -> None:
    ignored = [name for names in IGNORED.values() for name in names.split()]
    count = Counter([*PLANNED, *NEUTRAL, *REFUSED, *ignored])
    assert set(count) == set(FLAGS)
    assert max(count.values()) == 1


def test_every_variable_is_classified_at_most_once() -> None:
    assert max(Counter([*ENV_PLANNED, *ENV_NEUTRAL, *ENV_REFUSED]).values()) == 1


def test_the_table_is_that_of_vllm_0_33_0() -> None:
    assert (VLLM_VERSION, len(FLAGS), len(option_strings()), len(FIELDS)) == ("0.33.0", 321, 485, 28)
    assert FLAGS["max_model_len"] == ("--max-model-len", "size-or-auto", "", None)
    assert FLAGS["gpu_memory_utilization"][0] == "--gpu-memory-utilization --device-memory-utilization"
    assert FLAGS["mamba_cache_mode"][2] == "align none"


def test_importing_the_package_loads_none_of_it() -> None:
    code = "import sys, kvplan.serve; print(sorted(m for m in sys.modules if m.startswith('kvplan.serve.')))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_reading_a_line_loads_neither_yaml_nor_the_shell() -> None:
    code = (
        "import sys; from kvplan.serve import read_arguments; read_arguments(['M', '-tp', '2']);"
        "print([m for m in ('yaml', 'ast', 'difflib', 'kvplan.serve.shell') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_flags_that_are_gone_are_unknown_and_what_takes_their_place_is_known() -> None:
    assert not set(REMOVED) & set(option_strings())
    named = {word.strip(",:;") for advice in REMOVED.values() for word in advice.split() if word.startswith("--")}
    assert named <= set(option_strings())


@pytest.mark.parametrize(
    ("flag", "near"), [("--tp-size", "-tp"), ("--pp", "-pp"), ("--max-model-length", "--max-model-len")]
)
def test_a_short_flag_written_long_is_near_its_own(flag: str, near: str) -> None:
    assert nearest(flag) == near
