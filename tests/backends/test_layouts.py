"""Layouts: candidates of a worker, agreement of stages, narrowing, the environment and the KV connector."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.connectors import parts, preferred_layout, uses
from kvplan.errors import Refused
from kvplan.layout import LAYOUTS, agree, candidates, from_name, is_block_compact, narrow, resolve, validate
from kvplan.spec import AttentionSpec, StateSpec

ALL = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
HEADS_FIRST = ("LBHNC", "BLHNC")
PLAIN = AttentionSpec("full_attention", 16, 8, 128, 128, "bfloat16")
WIDE = AttentionSpec("full_attention", 16, 8, 256, 256, "bfloat16")
declarations = st.lists(st.none() | st.permutations(LAYOUTS).map(lambda names: tuple(names[:3])), max_size=4)


def test_nothing_declared_is_vllms_own_order() -> None:
    assert candidates([None, None]) == ALL
    assert candidates([]) == ALL


def test_equal_declarations_keep_their_order() -> None:
    assert candidates([("BLNHC", "LBNHC"), None, ("BLNHC", "LBNHC")]) == ("BLNHC", "LBNHC")


def test_the_layout_that_most_put_first_wins_and_ties_keep_vllms_order() -> None:
    assert candidates([("BLHNC", "BLNHC"), ("BLNHC", "BLHNC"), ("BLNHC", "LBHNC", "BLHNC")]) == ("BLNHC", "BLHNC")
    assert candidates([("BLHNC", "BLNHC"), ("BLNHC", "BLHNC")]) == ("BLHNC", "BLNHC")


def test_backends_without_a_shared_layout_are_refused() -> None:
    with pytest.raises(Refused, match=r"share no KV cache layout \(LBNHC; LBHNC, BLHNC\)"):
        candidates([("LBNHC",), HEADS_FIRST, ("LBNHC",)])


@given(declarations)
def test_a_candidate_is_in_every_declaration(declared: list[tuple[str, ...] | None]) -> None:
    wanted = [layouts for layouts in declared if layouts is not None]
    try:
        found = candidates(declared)
    except Refused:
        assert not set.intersection(*map(set, wanted))
    else:
        assert set(found) == (set.intersection(*map(set, wanted)) if wanted else set(ALL))


def test_stages_that_agree() -> None:
    assert agree([HEADS_FIRST, HEADS_FIRST]) == HEADS_FIRST
    assert agree([HEADS_FIRST, HEADS_FIRST], intersect=True) == HEADS_FIRST


def test_stages_in_another_order_kill_the_engine_and_intersect_under_the_proposed_rule() -> None:
    stages = [("LBHNC", "BLHNC"), ("BLHNC", "LBHNC")]
    with pytest.raises(Refused, match="stage 0: LBHNC, BLHNC; stage 1: BLHNC, LBHNC") as error:
        agree(stages)
    assert "the pipeline stages disagree on KV cache layouts" in str(error.value)
    assert agree(stages, intersect=True) == ("LBHNC", "BLHNC")
    assert agree([("BLHNC", "LBHNC", "BLNHC"), ("LBNHC", "BLNHC", "BLHNC")], intersect=True) == ("BLHNC", "BLNHC")


def test_stages_without_a_shared_layout_are_refused_under_both_rules() -> None:
    for intersect in (False, True):
        with pytest.raises(Refused):
            agree([("LBNHC",), ("LBHNC",)], intersect=intersect)
    with pytest.raises(Refused):
        agree([])


def test_mixed_shapes_need_a_block_compact_layout() -> None:
    left, gone = narrow(ALL, [PLAIN, WIDE, PLAIN])
    assert left == ("LBNHC", "LBHNC", "BLNHC", "BLHNC")
    assert gone == (("BHLNC", "mixed_shapes"), ("LHBNC", "mixed_shapes"))
    with pytest.raises(Refused, match="need a block-compact KV cache layout"):
        narrow(("BHLNC", "LHBNC"), [PLAIN, WIDE])


def test_equal_shapes_take_any_layout() -> None:
    assert narrow(ALL, [PLAIN, PLAIN._replace(sliding_window=128, kind="sliding_window")]) == (ALL, ())


def test_a_sharded_target_with_a_replicated_drafter_needs_blocks_outermost() -> None:
    drafter = WIDE._replace(dcp_sharded=False)
    assert narrow(ALL, [PLAIN, drafter])[0] == ("BLNHC", "BLHNC")
    assert narrow(ALL, [PLAIN, PLAIN._replace(dcp_sharded=False)])[0] == ALL
    with pytest.raises(Refused, match="--decode-context-parallel-size"):
        narrow(("LBNHC",), [PLAIN, drafter])


def test_rings_and_states_do_not_count_as_replicated_drafters() -> None:
    ring = WIDE._replace(kind="circular_buffer", dcp_sharded=False)
    state = StateSpec(((64, 64),), ("bfloat16",), 16)
    assert narrow(ALL, [PLAIN, ring, state])[0] == ("LBNHC", "LBHNC", "BLNHC", "BLHNC")


def test_the_first_candidate_is_taken_where_nothing_else_decides() -> None:
    found = resolve(HEADS_FIRST, [PLAIN])
    assert (found.layout, found.decided_by, found.warning) == ("LBHNC", "preference", None)


@pytest.mark.parametrize(("requested", "layout"), [("BLHNC", "BLHNC"), ("HND", "LBHNC")])
def test_the_environment_wins_with_its_legacy_names(requested: str, layout: str) -> None:
    found = resolve(HEADS_FIRST, [PLAIN], requested=requested, connector="LBHNC")
    assert (found.layout, found.decided_by) == (layout, "environment")


def test_an_environment_that_is_no_candidate_is_refused() -> None:
    with pytest.raises(Refused) as error:
        resolve(HEADS_FIRST, [PLAIN], requested="NHD")
    assert str(error.value) == (
        "VLLM_KV_CACHE_LAYOUT=NHD (--kv-cache-layout) is not a layout that this deployment can use; choose one of "
        "LBHNC, BLHNC or leave it out."
    )


def test_a_name_that_is_no_layout_is_refused() -> None:
    with pytest.raises(
        Refused, match=r"VLLM_KV_CACHE_LAYOUT=hnd \(--kv-cache-layout\) is no KV cache layout; choose one of LBHNC, "
    ):
        from_name("hnd")


def test_a_connector_is_followed_where_it_can_be_and_dropped_with_a_warning_else() -> None:
    assert resolve(ALL, [PLAIN], connector="LBHNC").layout == "LBHNC"
    dropped = resolve(("BLHNC", "BLNHC"), [PLAIN], connector="LBHNC")
    assert dropped.layout == "BLHNC"
    assert dropped.warning == (
        "the KV connector asks for layout LBHNC, which this deployment cannot use; vLLM takes BLHNC "
        "(possible: BLHNC, BLNHC)."
    )


def test_mixed_pages_of_several_groups_need_blocks_outermost() -> None:
    validate("LBNHC", [4096, 4096], 3)
    validate("LBNHC", [4096, 8192], 1)
    validate("BLNHC", [4096, 8192], 3)
    for layout in ("LBNHC", "BHLNC", "LHBNC"):
        with pytest.raises(Refused, match=r"4096, 8192 bytes\) side by side; set VLLM_KV_CACHE_LAYOUT=BLHNC"):
            validate(layout, [8192, 4096], 2)


def test_four_layouts_keep_a_page_in_one_run() -> None:
    assert [name for name in LAYOUTS if is_block_compact(name)] == ["LBHNC", "LBNHC", "BLHNC", "BLNHC"]


def connector(name: str, **more: object) -> dict[str, object]:
    return {"kv_connector": name, "kv_role": "kv_both", **more}


def multi(*names: str) -> dict[str, object]:
    return connector("MultiConnector", kv_connector_extra_config={"connectors": [connector(name) for name in names]})


@pytest.mark.parametrize(
    ("config", "layout", "mla_layout"),
    [
        (None, None, None),
        (connector("NixlConnector"), "LBHNC", None),
        (connector("NixlPushConnector"), "LBHNC", None),
        (connector("MooncakeConnector"), "LBHNC", None),
        (connector("MooncakeStoreConnector"), None, None),
        (connector("LMCacheConnectorV1"), None, None),
        (connector("LMCacheMPConnector"), None, None),
        (connector("OffloadingConnector"), "LBHNC", "LBHNC"),
        (connector("HiSparseConnector"), "BLHNC", "BLHNC"),
        (connector("ExampleHiddenStatesConnector"), "LBNHC", "LBNHC"),
        (multi("NixlConnector", "OffloadingConnector"), "LBHNC", "LBHNC"),
        (multi("NixlConnector", "LMCacheConnectorV1"), "LBHNC", None),
    ],
)
def test_what_each_connector_wants(config: dict[str, object] | None, layout: str, mla_layout: str) -> None:
    assert preferred_layout(config, use_mla=False) == layout
    assert preferred_layout(config, use_mla=True) == mla_layout


def test_offloading_with_hisparse_wants_blocks_outermost() -> None:
    assert preferred_layout(connector("OffloadingConnector"), use_mla=True, use_hisparse=True) == "BLHNC"


def test_parts_that_disagree_are_refused() -> None:
    config = multi("NixlConnector", "ExampleHiddenStatesConnector")
    with pytest.raises(Refused, match="NixlConnector wants LBHNC, ExampleHiddenStatesConnector wants LBNHC"):
        preferred_layout(config, use_mla=False)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({}, "--kv-transfer-config: kv_connector is missing; name a connector or leave the flag out."),
        (connector("P2pNcclConnector"), "--kv-transfer-config: vLLM has no kv_connector P2pNcclConnector; choose "),
        (connector("Own", kv_connector_module_path="own"), "--kv-transfer-config: kv_connector Own comes from a "),
        (
            connector("MultiConnector"),
            "--kv-transfer-config: MultiConnector needs kv_connector_extra_config.connectors",
        ),
        (
            connector("MultiConnector", kv_connector_extra_config={"connectors": [1]}),
            "--kv-transfer-config: MultiConnector needs kv_connector_extra_config.connectors, a list of JSON objects.",
        ),
        ({"kv_connector": 3}, "--kv-transfer-config: kv_connector is missing"),
    ],
)
def test_transfer_configs_that_mean_nothing(config: dict[str, object], sentence: str) -> None:
    with pytest.raises(Refused) as error:
        preferred_layout(config, use_mla=False)
    assert str(error.value).startswith(sentence)


def test_a_connector_nested_without_end_is_refused() -> None:
    config: dict[str, object] = connector("NixlConnector")
    for _ in range(20):
        config = connector("MultiConnector", kv_connector_extra_config={"connectors": [config]})
    with pytest.raises(Refused, match="nested more than 8 deep"):
        preferred_layout(config, use_mla=False)


def test_a_connector_is_found_inside_multi() -> None:
    assert uses(multi("NixlConnector", "HiSparseConnector"), "HiSparseConnector")
    assert not uses(multi("NixlConnector"), "HiSparseConnector")
    assert not uses(None, "HiSparseConnector")
    assert len(parts(multi("NixlConnector", "OffloadingConnector"))) == 2
