"""The build backend of `pip install .`: scikit-build-core, plus a CUDA compiler where none is."""

from __future__ import annotations

import cuda_toolkit
from scikit_build_core import build as _build
from scikit_build_core.build import (  # noqa: F401  the hooks that pip looks up here
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

Settings = dict[str, str | list[str]]


def _compiler_packages(settings: Settings | None) -> list[str]:
    """Returns the compiler's packages, or nothing where the build can do without them."""
    settings = settings or {}
    if "cmake.define.RAGGED_ATTENTION_PREBUILT_KERNELS" in settings:
        return []
    try:
        cuda_toolkit.find_toolkit(str(settings.get("cmake.define.RAGGED_ATTENTION_CUDA", "auto")))
    except cuda_toolkit.ToolkitError:
        return [f"{name}=={v}" for name, v in cuda_toolkit.package_requirements().items()]
    return []


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    """Returns what has to be installed before a wheel can be built."""
    requires = _build.get_requires_for_build_wheel(config_settings)
    return [*requires, *_compiler_packages(config_settings)]


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    """Returns what has to be installed before an editable install can be built."""
    requires = _build.get_requires_for_build_editable(config_settings)
    return [*requires, *_compiler_packages(config_settings)]
