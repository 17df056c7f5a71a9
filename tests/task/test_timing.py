"""The clock: whole calls, no set-up, interleaved, and no CUDA call on a CPU."""

import gc
import time

import pytest
import torch
from vjp_task import timing
from vjp_task.timing import Job, bench, interleaved, time_jobs

CPU = torch.device("cpu")


@pytest.fixture
def no_cuda(monkeypatch):
    """Any use of torch.cuda raises."""

    class Forbidden:
        def __getattr__(self, name):
            raise AssertionError(f"torch.cuda.{name} used on a CPU")

    monkeypatch.setattr(torch, "cuda", Forbidden())


def test_whole_call_is_timed_on_a_cpu(no_cuda):
    assert 10.0 <= bench(lambda: time.sleep(0.01), CPU) < 20.0


def test_set_up_is_in_no_sample():
    calls = []

    def lazy():
        if not calls:
            time.sleep(0.3)
        calls.append(0)
        time.sleep(0.002)

    timed = time_jobs([Job(lazy, 5)], CPU)[0]
    assert max(timed.samples_ms) < 100.0
    assert timed.warm_up_calls == timing.WARM_UP_CALLS
    assert len(calls) == 5 + timing.WARM_UP_CALLS


def test_time_grows_with_the_work():
    large = bench(lambda: time.sleep(0.016), CPU, 5)
    assert large > 4 * bench(lambda: time.sleep(0.001), CPU, 5)


def test_samples_are_interleaved_and_their_last_results_kept():
    order, steps = [], []

    def job(name):
        return lambda: order.append(name) or len(order)

    timings = time_jobs([Job(job("a"), 2), Job(job("b"), 6)], CPU, lambda: steps.append(0))
    sampled = order[2 * timing.WARM_UP_CALLS :]
    assert "".join(sampled) == "babbbabb"[: len(sampled)]
    assert [len(t.samples_ms) for t in timings] == [2, 6]
    assert [t.last_result for t in timings] == [len(order) - 2, len(order)]
    assert len(steps) == 8


@pytest.mark.parametrize("counts", [(5, 20), (1, 3), (7,), (4, 4, 4)])
def test_interleaving_spreads_each_job_evenly(counts):
    order = list(interleaved(counts))
    assert [order.count(i) for i in range(len(counts))] == list(counts)
    half = order[: len(order) // 2]
    assert all(abs(half.count(i) - n / 2) <= 1 for i, n in enumerate(counts))


def test_median_and_range():
    timed = timing.Timing((5.0, 1.0, 3.0), 4, None)
    assert timed.to_json() == {
        "median_ms": 3.0,
        "min_ms": 1.0,
        "max_ms": 5.0,
        "samples": 3,
        "warm_up_calls": 4,
    }


def test_garbage_collection_is_off_during_samples_only():
    states = []
    time_jobs([Job(lambda: states.append(gc.isenabled()), 2)], CPU)
    assert states == [True] * timing.WARM_UP_CALLS + [False] * 2
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        time_jobs([Job(lambda: gc.isenabled() or 1 / 0, 2)], CPU)
    assert gc.isenabled()


def test_a_job_without_samples_is_refused():
    with pytest.raises(ValueError, match=r"^samples: 0; at least 1 is needed$"):
        bench(lambda: None, CPU, 0)


def gpu_sleep_ms(cycles):
    """The sleep's own duration, by events, on an awake card."""
    torch.cuda._sleep(cycles)
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.cuda._sleep(cycles)
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


@pytest.mark.gpu
def test_gpu_work_is_timed_and_not_its_launch():
    wanted = gpu_sleep_ms(20_000_000)
    got = bench(lambda: torch.cuda._sleep(20_000_000), torch.device("cuda", 0))
    assert got == pytest.approx(wanted, rel=0.1)


@pytest.mark.gpu
def test_gpu_work_on_another_stream_is_timed_too():
    side = torch.cuda.Stream()

    def hidden():
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)

    wanted = gpu_sleep_ms(20_000_000)
    assert bench(hidden, torch.device("cuda", 0)) == pytest.approx(wanted, rel=0.1)


@pytest.mark.gpu
def test_gpu_set_up_is_in_no_sample():
    calls = []

    def lazy():
        if not calls:
            time.sleep(2.0)
        calls.append(0)
        torch.cuda._sleep(2_000_000)

    assert bench(lazy, torch.device("cuda", 0)) < 10.0


@pytest.mark.gpu
def test_gpu_time_grows_with_the_work():
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.float16)
    device = torch.device("cuda", 0)
    assert bench(lambda: a @ a, device) > 4 * bench(lambda: a[:512] @ a, device)


@pytest.mark.gpu
def test_gpu_cache_is_flushed_before_every_call(monkeypatch):
    device, real, seen = torch.device("cuda", 0), timing._cuda_sample, []

    def sample(call, device, flush):
        l2_bytes = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)
        assert flush.numel() * flush.element_size() >= 2 * l2_bytes
        flush.fill_(1)
        return real(lambda: seen.append(int(flush.max())) or call(), device, flush)

    monkeypatch.setattr(timing, "_cuda_sample", sample)
    bench(lambda: None, device, 5)
    assert len(seen) > 5
    assert set(seen) == {0}  # written over between the ones and the call
