"""Streams, graphs, devices: the call is enqueued where the caller works, and never waits."""

import pytest
import torch
from ragged_attention import native
from support import (
    FEATURES,
    RAGGED,
    assert_correct,
    assert_same_bits,
    make_problem,
    offsets,
    poison,
    run,
    strided_copy,
)

pytestmark = pytest.mark.gpu

CYCLES = 200_000_000  # about 0.1 s of a busy stream

two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


@pytest.fixture
def problem(gpu):
    return make_problem([(60, 90), (70, 40)], heads=8, dtype=torch.bfloat16, device=gpu)


@pytest.fixture
def loud_synchronisation():
    """Every synchronisation that PyTorch knows of raises."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def test_waits_for_nothing(problem, loud_synchronisation):
    run(problem)
    torch.cuda._sleep(CYCLES)
    results = run(problem)
    still_busy = not torch.cuda.current_stream().query()
    torch.cuda.set_sync_debug_mode("default")
    assert still_busy, "the call returned only after the stream had run dry"
    assert_correct(results, problem)


def test_validate_waits(problem, loud_synchronisation):
    with pytest.raises(RuntimeError, match="synchroniz"):
        run(problem, validate=True)


def test_inputs_still_to_be_written_on_a_side_stream(problem):
    """On the default stream the call would read what q held before."""
    want, values = run(problem), problem["q"].clone()
    side = torch.cuda.Stream()
    problem["q"].zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        problem["q"].copy_(values)
        got = run(problem)
    assert not side.query()
    side.synchronize()
    assert_same_bits(got, want)


@pytest.mark.parametrize("lead", [0, 1], ids=["aligned", "misaligned"])
def test_a_replayed_graph_follows_values_and_lengths(gpu, lead):
    lengths = [(60, 90), (70, 40), (0, 5)]
    problem = make_problem(lengths, heads=8, device=gpu, strided=False)
    problem["q"] = strided_copy(problem["q"], 1, 0, lead)
    run(problem)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run(problem)
    for result in results:
        result.fill_(torch.nan)
    graph.replay()
    assert_correct(results, problem)

    fresh = make_problem(lengths, heads=8, device=gpu, strided=False, seed=1)
    for name in (*FEATURES, "alibi_slopes"):
        problem[name].copy_(fresh[name])
    for q_lengths, k_lengths in (([100, 0, 30], [5, 90, 40]), ([1, 1, 128], [134, 1, 0])):
        problem["cu_q"].copy_(offsets(q_lengths))
        problem["cu_k"].copy_(offsets(k_lengths))
        for result in results:
            result.fill_(torch.nan)
        graph.replay()
        assert_correct(results, problem)
        want = [r.clone() for r in results]
        graph.replay()
        assert_same_bits(results, want)


def test_two_streams_at_once(gpu):
    """Calls that overlap share no scratch."""
    problems = [make_problem([(200, 300)] * 3, heads=8, device=gpu, seed=seed) for seed in range(2)]
    want = [run(p) for p in problems]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in problems]
    for _ in range(20):
        got = []
        for stream, problem in zip(streams, problems, strict=True):
            with torch.cuda.stream(stream):
                got.append(run(problem))
        torch.cuda.synchronize()
        for a, b in zip(got, want, strict=True):
            assert_same_bits(a, b)


def test_without_the_variable_the_card_chooses(monkeypatch):
    monkeypatch.delenv(native.TILES_VARIABLE, raising=False)
    problem = make_problem(RAGGED["very_uneven"], heads=6, device="cuda")
    poison(problem)
    assert_correct(run(problem), problem)


def test_unknown_tiles(problem, monkeypatch):
    monkeypatch.setenv(native.TILES_VARIABLE, "sm75")
    with pytest.raises(ValueError, match=r"^RAGGED_ATTENTION_TILES: sm75; needed"):
        run(problem)


@two_gpus
@pytest.mark.parametrize("current", [0, 1])
def test_second_gpu(gpu, current):
    """Whatever device is current, the call runs on that of q and leaves the current one alone."""
    problem = make_problem([(60, 90), (70, 40)], heads=8, device="cuda:1")
    poison(problem)
    with torch.cuda.device(current):
        got = run(problem)
        assert torch.cuda.current_device() == current
    assert_correct(got, problem)
