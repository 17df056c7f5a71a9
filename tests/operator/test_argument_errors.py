"""Every mistake in an argument has its error, whose text names the argument, and runs nothing."""

import math

import pytest
import torch
from ragged_attention import native, portable
from ragged_attention.checks import HEAD_DIM, MAX_HEADS
from support import make_problem, run

NO_MASK = "needed is False, a causal mask is not supported"
NO_WINDOW = "needed is -1, windows are not supported"
CAP = "needed is a finite float32, at least 0 (0 is no cap)"
FINITE = "needed is a finite float32"
REAL = "needed is a real number"
TENSOR = "needed is a torch.Tensor"
WIDTH = f"the compiled kernels have {HEAD_DIM}"
OTHER_DEVICE = "device meta; needed is cpu, the device of q"


def zeros(*shape, dtype=torch.float16, device="cpu"):
    return torch.zeros(shape, dtype=dtype, device=device)


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


# A problem of 32 tokens of q, 48 of k, 3 heads, 2 sequences, in float16:
# argument, wrong value, error, text after the argument's name
WRONG = [
    ("causal", True, ValueError, f"True; {NO_MASK}"),
    ("window_left", 5, ValueError, f"5; {NO_WINDOW}"),
    ("window_right", 0, ValueError, f"0; {NO_WINDOW}"),
    ("softcap", -5.0, ValueError, f"-5.0; {CAP}"),
    ("softcap", math.nan, ValueError, f"nan; {CAP}"),
    ("softcap", math.inf, ValueError, f"inf; {CAP}"),
    ("softcap", None, TypeError, f"a NoneType; {REAL}"),
    ("softcap", zeros(), TypeError, f"a Tensor; {REAL}"),
    ("scale_multiplier", math.nan, ValueError, f"nan; {FINITE}"),
    ("scale_multiplier", -math.inf, ValueError, f"-inf; {FINITE}"),
    ("scale_multiplier", 1e39, ValueError, f"1e+39; {FINITE}"),
    ("scale_multiplier", "1", TypeError, f"a str; {REAL}"),
    ("q", [1.0], TypeError, f"a list; {TENSOR}"),
    ("q", zeros(32, 3, 160, dtype=torch.float32), TypeError,
     "dtype float32; needed is float16 or bfloat16"),
    ("q", zeros(32, 160), ValueError, "shape (32, 160); needed is [total_q, heads, 160]"),
    ("q", zeros(32, 3, 96), ValueError, f"head_dim 96; {WIDTH}"),
    ("q", zeros(32, 0, 160), ValueError, f"0 heads; needed is 1 to {MAX_HEADS}"),
    ("q", zeros(32, 129, 160), ValueError, f"129 heads; needed is 1 to {MAX_HEADS}"),
    ("k", None, TypeError, f"a NoneType; {TENSOR}"),
    ("k", zeros(48, 1, 160, dtype=torch.bfloat16), TypeError,
     "dtype bfloat16; needed is float16, the same as q"),
    ("k", zeros(48, 1, 160, device="meta"), ValueError, OTHER_DEVICE),
    ("k", zeros(48, 160), ValueError, "shape (48, 160); needed is [total_k, 1, 160]"),
    ("k", zeros(48, 2, 160), ValueError, "2 heads; needed is 1 K/V head, shared by all of q's"),
    ("k", zeros(48, 0, 160), ValueError, "0 heads; needed is 1 K/V head, shared by all of q's"),
    ("k", zeros(48, 1, 64), ValueError, f"head_dim 64; {WIDTH}"),
    ("v", 1, TypeError, f"a int; {TENSOR}"),
    ("v", zeros(48, 1, 160, dtype=torch.float32), TypeError,
     "dtype float32; needed is float16, the same as q"),
    ("v", zeros(48, 1, 160, device="meta"), ValueError, OTHER_DEVICE),
    ("v", zeros(47, 1, 160), ValueError,
     "shape (47, 1, 160); needed is (48, 1, 160), that of k"),
    ("dout", None, TypeError, f"a NoneType; {TENSOR}"),
    ("dout", zeros(32, 3, 160, dtype=torch.float32), TypeError,
     "dtype float32; needed is float16, the same as q"),
    ("dout", zeros(32, 3, 160, device="meta"), ValueError, OTHER_DEVICE),
    ("dout", zeros(32, 1, 160), ValueError,
     "shape (32, 1, 160); needed is (32, 3, 160), that of q"),
    ("cu_q", [0, 20, 32], TypeError, f"a list; {TENSOR}"),
    ("cu_q", torch.tensor([0, 20, 32]), TypeError, "dtype int64; needed is int32"),
    ("cu_q", torch.tensor([0.0, 20.0, 32.0]), TypeError, "dtype float32; needed is int32"),
    ("cu_q", int32(0, 20, 32).to("meta"), ValueError, OTHER_DEVICE),
    ("cu_q", int32(0, 20, 32)[None], ValueError, "shape (1, 3); needed is [batch + 1]"),
    ("cu_q", int32(), ValueError, "shape (0,); needed is [batch + 1]"),
    ("cu_k", torch.tensor([0, 18, 48]), TypeError, "dtype int64; needed is int32"),
    ("cu_k", int32(0, 18, 48).to("meta"), ValueError, OTHER_DEVICE),
    ("cu_k", int32(0, 48), ValueError, "2 offsets; needed are 3, as many as cu_q has"),
    ("alibi_slopes", 0.5, TypeError, f"a float; {TENSOR}"),
    ("alibi_slopes", zeros(2, 3), TypeError, "dtype float16; needed is float32"),
    ("alibi_slopes", zeros(2, 3, dtype=torch.float32, device="meta"), ValueError, OTHER_DEVICE),
    ("alibi_slopes", zeros(3, dtype=torch.float32), ValueError,
     "shape (3,); needed is (2, 3), [batch, heads]"),
    ("alibi_slopes", zeros(1, 3, dtype=torch.float32), ValueError,
     "shape (1, 3); needed is (2, 3), [batch, heads]"),
    ("cu_q", int32(4, 20, 32), ValueError, "starts at 4; needed is 0"),
    ("cu_q", int32(-3, 20, 32), ValueError, "starts at -3; needed is 0"),
    ("cu_q", int32(0, 25, 20), ValueError,
     "falls from 25 to 20 after sequence 1; needed are offsets that never fall"),
    ("cu_k", int32(7, 18, 48), ValueError, "starts at 7; needed is 0"),
    ("cu_k", int32(0, 50, 48), ValueError,
     "falls from 50 to 48 after sequence 1; needed are offsets that never fall"),
]  # fmt: skip


@pytest.fixture
def problem():
    return make_problem([(20, 18), (12, 30)], heads=3)


@pytest.fixture
def nothing_runs(monkeypatch):
    """Fails the test if a path is reached."""

    def reached(*args, **kwargs):
        pytest.fail("a path ran on wrong arguments")

    monkeypatch.setattr(portable, "full_vjp", reached)
    monkeypatch.setattr(native, "full_vjp", reached)


@pytest.mark.parametrize(("name", "value", "error", "text"), WRONG)
def test_wrong_argument(problem, nothing_runs, name, value, error, text):
    with pytest.raises(error) as caught:
        run({**problem, name: value})
    assert str(caught.value) == f"{name}: {text}"
    assert type(caught.value) is error


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cu_q", int32(0, 20, 30), "q: 32 rows, but cu_q ends at 30; the two must be equal"),
        ("cu_q", int32(0, 20, 96), "q: 32 rows, but cu_q ends at 96; the two must be equal"),
        ("cu_k", int32(0, 18, 64), "k: 48 rows, but cu_k ends at 64; the two must be equal"),
    ],
)
def test_offsets_that_end_elsewhere(problem, nothing_runs, name, value, text):
    with pytest.raises(ValueError) as caught:
        run({**problem, name: value})
    assert str(caught.value) == text


def test_unsupported_device(problem, nothing_runs, monkeypatch):
    monkeypatch.setattr("ragged_attention.checks.DEVICES", ("cuda",))
    with pytest.raises(ValueError) as caught:
        run(problem)
    assert str(caught.value) == "q: device cpu; needed is cuda"


@pytest.mark.parametrize("heads", [1, MAX_HEADS])
def test_least_and_most_heads_are_accepted(heads):
    run(make_problem([(2, 3)], heads=heads))


def test_numbers_of_any_real_type(problem):
    numpy = pytest.importorskip("numpy")
    want = run({**problem, "softcap": 3.0, "scale_multiplier": 2.0})
    for kind in (int, numpy.float32, numpy.float64):
        got = run({**problem, "softcap": kind(3), "scale_multiplier": kind(2)})
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["k", "v", "dout", "cu_q", "cu_k", "alibi_slopes"])
def test_one_tensor_left_on_the_cpu(name, nothing_runs):
    problem = make_problem([(20, 18), (12, 30)], device="cuda")
    with pytest.raises(ValueError) as caught:
        run({**problem, name: problem[name].cpu()})
    assert str(caught.value) == f"{name}: device cpu; needed is cuda:0, the device of q"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cu_q", int32(4, 20, 32), "cu_q: starts at 4; needed is 0"),
        ("cu_k", int32(0, 50, 48), "cu_k: falls from 50 to 48 after sequence 1; "
         "needed are offsets that never fall"),
        ("cu_q", int32(0, 20, 96), "q: 32 rows, but cu_q ends at 96; the two must be equal"),
    ],
)  # fmt: skip
def test_validate_on_a_gpu(name, value, text, nothing_runs):
    problem = make_problem([(20, 18), (12, 30)], device="cuda")
    with pytest.raises(ValueError) as caught:
        run({**problem, name: value.cuda()}, validate=True)
    assert str(caught.value) == text
