"""Known results: what vLLM 0.33.0's own parser answered to several hundred lines (scripts/record_serve_answers.py)."""

import json
from pathlib import Path

import pytest

from kvplan.serve.argparser import parse
from kvplan.serve.prepare import Notes, prepare

ANSWERS = [json.loads(line) for line in (Path(__file__).parent / "answers.jsonl").read_text().splitlines()]


def no_file(name: str) -> str:
    raise OSError(name)


def ours(argv: list[str]) -> tuple[dict[str, object], list[str]]:
    notes = Notes([], [])
    parsed = parse(prepare(argv[1:], argv[0] == "serve", no_file, notes), positional=argv[0] == "serve")
    values = {key: value for key, value in parsed.values.items() if key != "lora_modules"}
    if parsed.model is not None:
        values["model_tag"] = parsed.model
    if values.get("max_model_len") == "auto":
        values["max_model_len"] = -1
    return values, notes.errors + parsed.errors


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: " ".join(answer["argv"])[:80])
def test_a_line_is_read_as_vllm_reads_it(answer: dict[str, object]) -> None:
    values, errors = ours(answer["argv"])  # type: ignore[arg-type]
    assert bool(errors) == ("error" in answer), errors
    if "values" in answer:
        assert json.dumps(values, sort_keys=True) == json.dumps(answer["values"], sort_keys=True)


def test_the_answers_hold_both_kinds() -> None:
    errors = sum("error" in answer for answer in ANSWERS)
    assert (len(ANSWERS), errors) == (774, 224)
