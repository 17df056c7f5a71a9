"""Finding the compiled module, choosing tiles, and what the module is handed."""

import importlib.util
import platform
import re
from importlib.machinery import EXTENSION_SUFFIXES
from types import SimpleNamespace

import pytest
import torch
from ragged_attention import build_info, native, ops, torch_shortcuts
from support import make_problem, strided_copy

SUFFIX = EXTENSION_SUFFIXES[0]
ORDER = [
    "q", "k", "v", "dout", "cu_q", "cu_k", "slopes", "out", "dq", "dk", "dv", "workspace",
    "q_strides", "k_strides", "v_strides", "dout_strides", "slope_strides", "total_q", "total_k",
    "batch", "heads", "softcap", "scale", "dtype", "tiles", "device", "stream",
]  # fmt: skip


@pytest.fixture
def beside(tmp_path, monkeypatch):
    """A folder in place of those where the module is looked for."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(native, "_FOLDERS", (tmp_path,))
    native.load.cache_clear()
    yield tmp_path
    native.load.cache_clear()


class FakeModule:
    """Stands for the compiled module: remembers what it was handed."""

    def __init__(self):
        self.call, self.asked = None, []

    def full_vjp(self, *arguments):
        self.call = SimpleNamespace(**dict(zip(ORDER, arguments, strict=True)))

    def workspace_bytes(self, *arguments):
        self.asked.append(("workspace_bytes", arguments))
        return 512

    def choose_tiles(self, device):
        self.asked.append(("choose_tiles", device))
        return "sm90"

    def check_tiles(self, tiles, device):
        self.asked.append(("check_tiles", tiles, device))
        if tiles == "sm86":
            raise RuntimeError("tiles: sm86; the card Stub has none")


@pytest.fixture
def module(monkeypatch):
    monkeypatch.delenv(native.TILES_VARIABLE, raising=False)
    monkeypatch.setattr(torch_shortcuts, "current_stream", {None: 77}.get)
    return FakeModule()


def module_text(**facts):
    """A module in Python that says this of its build."""
    return f"def build_info():\n    return {facts}\n"


def enqueue(module, problem):
    names = ("q", "k", "v", "cu_q", "cu_k", "alibi_slopes", "dout", "softcap", "scale_multiplier")
    return native.full_vjp(module, *(problem[n] for n in names))


def test_missing_module(beside):
    assert native.load() is None
    missing = f"ragged_attention._native: none for Python {platform.python_version()}"
    assert native.why_missing() == missing
    info = build_info()
    assert info["backend"] == "portable"
    assert info["commit"] is None
    ops._say_portable.cache_clear()
    with pytest.warns(RuntimeWarning) as said:
        ops._say_portable("cuda")
    assert str(said[0].message) == f"ragged_attention takes its portable path: {missing}"


def test_module_for_another_python_is_named(beside):
    (beside / "_native.cpython-399-x86_64-linux-gnu.so").touch()
    assert native.load() is None
    assert native.why_missing().startswith(
        "ragged_attention._native: only _native.cpython-399-x86_64-linux-gnu.so for Python 3."
    )


def test_module_beside_the_package(beside):
    (beside / "_native.py").write_text(module_text(commit="abc", sm=[86]))
    assert native.load().__file__ == str(beside / "_native.py")
    assert native.load() is native.load()
    info = build_info()
    assert list(info) == [
        "backend", "torch", "python", "compiler", "architectures", "cutlass", "commit", "sm",
        "mma_repeat", "python_module",
    ]  # fmt: skip
    assert info["backend"] == "native"
    assert (info["commit"], info["sm"], info["cutlass"]) == ("abc", [86], None)
    assert info["torch"] == torch.__version__
    assert info["python"] == platform.python_version()


def test_module_found_by_the_import_system_comes_first(beside, tmp_path_factory, monkeypatch):
    """As in an editable install, where it lies in neither folder."""
    (beside / "_native.py").touch()
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "_native.py"
    elsewhere.write_text(module_text())
    spec = importlib.util.spec_from_file_location(native.MODULE, elsewhere)
    monkeypatch.setattr(importlib.util, "find_spec", {native.MODULE: spec}.get)
    assert native.load().__file__ == str(elsewhere)


@pytest.mark.parametrize("repeat", [1, 2])
def test_a_timing_build_is_told(beside, recwarn, repeat):
    path = beside / "_native.py"
    path.write_text(module_text(mma_repeat=repeat))
    for _ in range(2):
        assert native.load().__file__ == str(path)
    told = (
        f"ragged_attention._native: {path} issues every tensor instruction {repeat} times, so its "
        "results are wrong; needed is a build with RAGGED_ATTENTION_MMA_REPEAT=1"
    )
    assert [str(w.message) for w in recwarn] == ([told] if repeat > 1 else [])
    assert build_info()["mma_repeat"] == repeat


def test_broken_module(beside):
    path = beside / f"_native{SUFFIX}"
    path.write_bytes(b"not a shared library")
    with pytest.raises(ImportError) as caught:
        native.load()
    text, cause = str(caught.value), caught.value.__cause__
    assert isinstance(cause, ImportError)
    assert text == (
        f"ragged_attention._native: {path} does not load ({cause}); needed is a module built for "
        f"Python {platform.python_version()} on this machine"
    )


def test_tiles_are_chosen_once_per_device(module):
    problem = make_problem([(3, 4)])
    for _ in range(3):
        enqueue(module, problem)
    assert [a for a in module.asked if a[0] == "choose_tiles"] == [("choose_tiles", None)]
    assert module.call.tiles == "sm90"


def test_tiles_can_be_forced(module, monkeypatch):
    monkeypatch.setenv(native.TILES_VARIABLE, "sm90")
    enqueue(module, make_problem([(3, 4)]))
    assert ("check_tiles", "sm90", None) in module.asked
    assert module.call.tiles == "sm90"


def test_unknown_tiles(module, monkeypatch):
    monkeypatch.setenv(native.TILES_VARIABLE, "sm75")
    with pytest.raises(ValueError) as caught:
        enqueue(module, make_problem([(3, 4)]))
    text = "RAGGED_ATTENTION_TILES: sm75; needed is sm86 or sm90, or unset"
    assert str(caught.value) == text
    assert module.call is None


def test_tiles_that_the_card_cannot_run(module, monkeypatch):
    """The module's own error, every time, and nothing launched."""
    monkeypatch.setenv(native.TILES_VARIABLE, "sm86")
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"^tiles: sm86; the card Stub has none$"):
            enqueue(module, make_problem([(3, 4)]))
    assert module.call is None


@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.float16, "float16"), (torch.bfloat16, "bfloat16")]
)
def test_what_the_module_is_handed(module, dtype, name):
    problem = make_problem([(3, 4), (5, 6)], dtype=dtype, softcap=2.5, scale_multiplier=4.0)
    out, dq, dk, dv = enqueue(module, problem)
    call = module.call
    for tensor in ("q", "k", "v", "dout", "cu_q", "cu_k"):
        assert getattr(call, tensor) == problem[tensor].data_ptr(), tensor
    for tensor in ("q", "k", "v", "dout"):
        assert getattr(call, f"{tensor}_strides") == problem[tensor].stride()[:2], tensor
    addresses = {"out": out, "dq": dq, "dk": dk, "dv": dv, "slopes": problem["alibi_slopes"]}
    for tensor, value in addresses.items():
        assert getattr(call, tensor) == value.data_ptr(), tensor
    assert call.slope_strides == problem["alibi_slopes"].stride()
    assert (call.total_q, call.total_k, call.batch, call.heads) == (8, 10, 2, 3)
    assert (call.softcap, call.scale, call.dtype) == (2.5, 4.0 / 160**0.5, name)
    assert (call.device, call.stream) == (None, 77)
    assert ("workspace_bytes", (8, 10, 2, 3, "sm90", None)) in module.asked
    assert out.shape == dq.shape == (8, 3, 160)
    assert dk.shape == dv.shape == (10, 1, 160)
    assert {t.dtype for t in (out, dq, dk, dv)} == {dtype}


@pytest.mark.skipif(native.load() is None, reason=native.why_missing())
def test_the_compiled_module_takes_its_arguments_in_this_order():
    signature = native.load().full_vjp.__doc__.splitlines()[0]
    assert re.findall(r"(\w+): ", signature) == ORDER


def test_no_slopes(module):
    enqueue(module, make_problem([(3, 4)], slope_sign=0.0))
    assert (module.call.slopes, module.call.slope_strides) == (0, (0, 0))


@pytest.mark.parametrize(
    ("step", "pad", "lead", "copied"),
    [(1, 0, 0, False), (2, 8, 0, False), (3, 16, 8, False), (1, 0, 1, True), (1, 0, 4, True),
     (1, 3, 0, True), (1, 4, 0, True)],
)  # fmt: skip
@pytest.mark.parametrize("name", ["q", "k", "v", "dout"])
def test_only_what_16_byte_copies_cannot_read_is_copied(module, name, step, pad, lead, copied):
    problem = make_problem([(3, 4), (5, 6)], heads=2, strided=False)
    view = problem[name] = strided_copy(problem[name], step, pad, lead)
    enqueue(module, problem)
    address, strides = getattr(module.call, name), getattr(module.call, f"{name}_strides")
    assert (address != view.data_ptr()) == copied
    assert strides == ((view.shape[1] * 160, 160) if copied else view.stride()[:2])


@pytest.mark.parametrize("name", ["q", "k", "v", "dout"])
def test_a_last_axis_with_gaps_is_copied(module, name):
    """Aligned in every other respect."""
    problem = make_problem([(3, 4)], strided=False)
    view = problem[name] = problem[name].repeat_interleave(2, dim=2)[..., ::2]
    assert view.stride()[2] == 2
    enqueue(module, problem)
    assert getattr(module.call, name) != view.data_ptr()
    assert getattr(module.call, f"{name}_strides") == (view.shape[1] * 160, 160)


def test_an_expanded_axis_is_passed_as_it_is(module):
    problem = make_problem([(3, 4)], strided=False)
    expanded = problem["dout"][:1].expand_as(problem["dout"])
    enqueue(module, {**problem, "dout": expanded})
    assert (module.call.dout, module.call.dout_strides) == (expanded.data_ptr(), (0, 160))


def test_results_are_dense_where_inputs_are_not(module):
    """With heads before tokens in memory nothing is copied, and the results stay as documented."""
    problem = make_problem([(3, 4), (5, 6)], strided=False)
    q = problem["q"].transpose(0, 1).contiguous().transpose(0, 1)
    results = enqueue(module, {**problem, "q": q})
    assert (module.call.q, module.call.q_strides) == (q.data_ptr(), (160, 8 * 160))
    assert all(x.is_contiguous() for x in results)
    assert len({x.untyped_storage().data_ptr() for x in results}) == 4


@pytest.mark.parametrize("name", ["cu_q", "cu_k"])
def test_offsets_with_gaps_are_copied(module, name):
    problem = make_problem([(3, 4), (5, 6)])
    view = problem[name].repeat_interleave(2)[::2]
    enqueue(module, {**problem, name: view})
    assert getattr(module.call, name) != view.data_ptr()
