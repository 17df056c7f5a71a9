"""The binding over a library without CUDA: every argument arrives, errors and the GIL are right."""

import ctypes
import threading
import time
from types import ModuleType

import pytest

# In the order of full_vjp's positions.
ARGUMENTS = {
    **{"q": 0x7F0000000010, "k": 102, "v": 103, "dout": 104},
    **{"cu_q": 105, "cu_k": 106, "slopes": 107},
    **{"out": 108, "dq": 109, "dk": 110, "dv": 111, "workspace": 112},
    **{"q_strides": (1 << 40, 168), "k_strides": (20, 21), "v_strides": (22, 23)},
    **{"dout_strides": (0, 25), "slope_strides": (26, 27)},
    **{"total_q": 1 << 33, "total_k": 31, "batch": 100_000, "heads": 33},
    **{"softcap": 0.5, "scale": 0.25, "dtype": "bfloat16", "tiles": "sm90"},
    **{"device": 0, "stream": 0x7F0000000020},
}
POSITIONS = {name: i for i, name in enumerate(ARGUMENTS)}


def seen(module: ModuleType, *args: object, **kwargs: object) -> list[float]:
    """Calls full_vjp and returns the numbers that the library saw."""
    with pytest.raises(RuntimeError) as error:
        module.full_vjp(*args, **kwargs)
    return [float(number) for number in str(error.value).split()]


def test_every_argument_arrives(fake_module: ModuleType) -> None:
    a = ARGUMENTS
    expected = [
        *(a["q"], *a["q_strides"], a["k"], *a["k_strides"], a["v"], *a["v_strides"]),
        *(a["dout"], *a["dout_strides"], a["cu_q"], a["cu_k"], a["slopes"], *a["slope_strides"]),
        *(a["out"], a["dq"], a["dk"], a["dv"], a["workspace"]),
        *(a["total_q"], a["total_k"], a["batch"], a["heads"], a["softcap"], a["scale"]),
        *(1, 1),  # bfloat16, sm90
        *(a["device"], 101, a["device"]),  # asked for, first one queried, current in the call
        a["stream"],
    ]
    assert seen(fake_module, **a) == expected
    assert seen(fake_module, *a.values()) == expected


def test_names_of_choices(fake_module: ModuleType) -> None:
    changed = ARGUMENTS | {"dtype": "float16", "tiles": "sm86"}
    assert seen(fake_module, **changed)[-6:-4] == [0, 0]


def test_device_is_set_and_restored(fake_module: ModuleType) -> None:
    for _ in range(2):  # the second time from what is known of the card
        *_, asked, _, current, _ = seen(fake_module, **(ARGUMENTS | {"device": 1}))
        assert (asked, current) == (1, 1)
        assert fake_module.workspace_bytes(0, 0, 0, 0, "sm86", 0) == 0  # 1,000,000 x current


def test_card_is_asked_once(fake_module: ModuleType) -> None:
    multiprocessors = {seen(fake_module, **ARGUMENTS)[-3] for _ in range(3)}
    assert len(multiprocessors) == 1


def test_missing_device(fake_module: ModuleType) -> None:
    with pytest.raises(RuntimeError) as error:
        fake_module.full_vjp(**(ARGUMENTS | {"device": 7}))
    assert str(error.value) == "device: 7; cudaSetDevice failed: invalid device ordinal"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("dtype", "dtype: 'float32'; 'float16' or 'bfloat16' is needed"),
        ("tiles", "tiles: 'float32'; 'sm86' or 'sm90' is needed"),
    ],
)
def test_unknown_choice(argument: str, message: str, fake_module: ModuleType) -> None:
    with pytest.raises(ValueError) as error:
        fake_module.full_vjp(**(ARGUMENTS | {argument: "float32"}))
    assert str(error.value) == message


def test_tiles(fake_module: ModuleType) -> None:
    assert fake_module.choose_tiles(0) == "sm90"
    assert fake_module.choose_tiles(1) == "sm86"
    assert fake_module.check_tiles("sm86", 0) is None
    with pytest.raises(RuntimeError, match=r"^tiles: sm90 on fake card$"):
        fake_module.check_tiles("sm90", 0)
    with pytest.raises(ValueError, match=r"^tiles: 'sm80'; 'sm86' or 'sm90' is needed$"):
        fake_module.check_tiles("sm80", 0)


def test_workspace_bytes(fake_module: ModuleType) -> None:
    arguments = {"total_q": 1 << 40, "total_k": 2, "batch": 3, "heads": 4}
    expected = (1 << 40) + 2 * 10 + 3 * 100 + 4 * 1000 + 10_000 + 100_000
    assert fake_module.workspace_bytes(**arguments, tiles="sm90", device=1) == expected


def test_mma_rate_is_in_teraflops_and_of_the_device(fake_module: ModuleType) -> None:
    assert fake_module.mma_rate(device=1, milliseconds=0.5) == pytest.approx(110.5)


@pytest.mark.parametrize("milliseconds", [0.0, -1.0, 1e6, float("nan")])
def test_mma_rate_takes_a_sensible_time(milliseconds: float, fake_module: ModuleType) -> None:
    with pytest.raises(
        ValueError, match=r"^milliseconds: \S+; above 0 and at most 10000 is needed$"
    ):
        fake_module.mma_rate(0, milliseconds)


def test_build_info(fake_module: ModuleType) -> None:
    info = fake_module.build_info()
    assert info.pop("python_module").startswith("cp3")
    assert info == {
        "compiler": "none",
        "architectures": "86;90",
        "cutlass": "0.0.0",
        "commit": "0123456789",
        "sm": [86, 90],
        "mma_repeat": 3,
    }


def test_gil_is_released(fake_module: ModuleType) -> None:
    flag = ctypes.c_int(0)

    def set_flag() -> None:
        time.sleep(0.05)  # until the call below is under way
        flag.value = 1

    threading.Thread(target=set_flag).start()
    waiting = ARGUMENTS | {"stream": 0, "workspace": ctypes.addressof(flag)}
    assert fake_module.full_vjp(**waiting) is None


def test_positions_are_cheap(fake_module: ModuleType) -> None:
    """Binding overhead, without any work behind it, stays far below a kernel launch."""
    flag = ctypes.c_int(1)
    arguments = (ARGUMENTS | {"stream": 0, "workspace": ctypes.addressof(flag)}).values()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(100):
            fake_module.full_vjp(*arguments)
        times.append((time.perf_counter() - start) / 100)
    assert min(times) < 5e-6  # seconds a call; under 1 us on a 2020s desktop
