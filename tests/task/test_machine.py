"""What is written beside the figures."""

import pytest
import torch
from vjp_task import machine

CPU = torch.device("cpu")


def test_cpu_is_described():
    facts = machine.describe(CPU)
    assert facts["device"] == "cpu"
    assert facts["card"]
    assert facts["torch"] == torch.__version__
    assert facts["driver"] is None
    assert facts["threads"] >= 1
    assert machine.backend(CPU) == {"backend": "portable", "tiles": None}


@pytest.mark.parametrize(
    ("forced", "tiles"), [(None, "sm90"), ("sm86", "sm86")], ids=["chosen", "forced"]
)
def test_backend_names_the_tiles(monkeypatch, forced, tiles):
    class Module:
        def choose_tiles(self, device):
            return "sm90"

    monkeypatch.setattr(machine.native, "load", Module)
    monkeypatch.delenv(machine.native.TILES_VARIABLE, raising=False)
    if forced:
        monkeypatch.setenv(machine.native.TILES_VARIABLE, forced)
    found = machine.backend(torch.device("cuda", 0))
    assert found == {"backend": "native", "tiles": tiles}


def test_backend_that_does_not_load(monkeypatch):
    def broken():
        raise ImportError("module")

    monkeypatch.setattr(machine.native, "load", broken)
    assert machine.backend(torch.device("cuda", 0)) == {"backend": "broken", "tiles": None}


@pytest.mark.gpu
def test_gpu_is_described():
    facts = machine.describe(torch.device("cuda", 0))
    assert facts["card"] == torch.cuda.get_device_name(0)
    assert facts["driver"]
    assert facts["sm_clock"].endswith("MHz")
