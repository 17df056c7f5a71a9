"""The build backend asks pip for a compiler exactly where the build needs one from packages."""

import build_backend
import cuda_toolkit
import pytest

PINNED = [f"{name}=={v}" for name, v in cuda_toolkit.package_requirements().items()]


@pytest.fixture
def machine_has(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_toolkit(source: str = "auto") -> None:
        if source == "packages" or not request.param:
            raise cuda_toolkit.ToolkitError("none")

    monkeypatch.setattr(cuda_toolkit, "find_toolkit", find_toolkit)


@pytest.mark.parametrize(
    ("machine_has", "settings", "wanted"),
    [
        (True, None, []),
        (False, None, PINNED),
        (True, {"cmake.define.RAGGED_ATTENTION_CUDA": "packages"}, PINNED),
        (False, {"cmake.define.RAGGED_ATTENTION_PREBUILT_KERNELS": "/x.a"}, []),
    ],
    indirect=["machine_has"],
)
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_compiler_packages(
    machine_has: None, settings: dict[str, str] | None, wanted: list[str], kind: str
) -> None:
    hook = getattr(build_backend, f"get_requires_for_build_{kind}")
    assert [name for name in hook(settings) if name.startswith("nvidia-")] == wanted
