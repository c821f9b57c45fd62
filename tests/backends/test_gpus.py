"""GPUs: common spellings, memory as vLLM reads it, and what is no GPU."""

import pytest

from kvplan.errors import KvplanError
from kvplan.gpus import GPUS, find

MEMORY = {  # NVML's total in bytes; B200 and B300 nominal; GB10 and Thor as CUDA reports it
    "A100 40GB": 42_949_672_960,
    "A100 80GB": 85_899_345_920,
    "A10": 24_146_608_128,
    "L4": 24_152_899_584,
    "L40S": 48_305_799_168,
    "RTX 3090": 25_769_803_776,
    "RTX 4090": 25_757_220_864,
    "RTX 5090": 34_190_917_632,
    "RTX PRO 6000": 102_641_958_912,
    "H100 PCIe": 85_520_809_984,
    "H100 SXM": 85_520_809_984,
    "H100 NVL": 100_485_038_080,
    "H200": 150_754_820_096,
    "GH200": 102_625_181_696,
    "B200": 192_000_000_000,
    "B300": 288_000_000_000,
    "GB200": 198_674_743_296,
    "GB300": 298_013_687_808,
    "GB10": 130_664_103_936,
    "Thor": 131_877_306_368,
}


def test_the_bundled_gpus_and_their_memory() -> None:
    assert {gpu.name: gpu.total_memory_bytes for gpu in GPUS} == MEMORY


def test_usable_memory_is_less_than_what_the_driver_reports() -> None:
    for gpu in GPUS:
        assert gpu.usable_memory_bytes is not None
        assert 0.97 * gpu.total_memory_bytes < gpu.usable_memory_bytes < gpu.total_memory_bytes


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("h100", "H100 SXM"),
        ("H100", "H100 SXM"),
        ("h100-pcie", "H100 PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("a100-80gb", "A100 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("b300", "B300"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("rtx-4090", "RTX 4090"),
        ("GeForce RTX 5090", "RTX 5090"),
        ("rtx_pro_6000", "RTX PRO 6000"),
        ("gb10", "GB10"),
        ("DGX Spark", "GB10"),
        ("jetson agx thor", "Thor"),
        ("12.1", "GB10"),
        ("11.0", "Thor"),
    ],
)
def test_common_spellings(spelling: str, name: str) -> None:
    assert find(spelling).name == name


def test_a_capability_with_memory_is_any_gpu_of_it() -> None:
    gpu = find("8.6:48")
    assert (gpu.capability, gpu.total_memory_bytes) == ((8, 6), 51_539_607_552)


@pytest.mark.parametrize(
    ("spelling", "sentence"),
    [
        ("a100", "--gpu a100 is not a GPU that kvplan knows; did you mean A100 40GB or A100 80GB?"),
        ("H20", "--gpu H20 is not a GPU that kvplan knows; did you mean H200?"),
        ("9.9", "--gpu 9.9 is no compute capability that kvplan knows; choose one of 8.0, 8.6, 8.9, 9.0, 10.0, "),
        ("8.6", "--gpu 8.6 is the capability of several GPUs; name A10 or RTX 3090, or give the memory too, as in "),
        ("8.6:0", "--gpu 8.6:0: the memory after the colon must be 1 to 4096 GiB."),
        ("8.6:x", "--gpu 8.6:x: the memory after the colon must be 1 to 4096 GiB."),
        ("8.", "--gpu 8. is no compute capability that kvplan knows; choose one of "),
        ("", "--gpu '' is not a GPU that kvplan knows; did you mean A100 40GB, A100 80GB, A10, "),
    ],
)
def test_what_is_no_gpu(spelling: str, sentence: str) -> None:
    with pytest.raises(KvplanError) as error:
        find(spelling)
    assert str(error.value).startswith(sentence)
