"""PyTorch's private functions where it has them and they suit, public ones in their place."""

from types import SimpleNamespace

import pytest
import torch
from ragged_attention import torch_shortcuts

SHAPE, STRIDES, DTYPE = (5, 2, 160), (320, 160, 1), torch.bfloat16
CARD = torch.device("cuda", 1)


@pytest.fixture
def cards(monkeypatch):
    """Names what makes a tensor instead of making it; card 1 is current, unless told otherwise."""
    private = "_empty_strided_cuda"
    monkeypatch.setattr(torch_shortcuts, private, lambda *asked: ("private", *asked))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch, "empty_strided", lambda *asked, **named: ("public", *asked, named))
    return monkeypatch


def test_stream(monkeypatch):
    monkeypatch.setattr(torch_shortcuts, "_raw_stream", {1: 77}.get)
    assert torch_shortcuts.current_stream(1) == 77


def test_stream_without_the_private_function(monkeypatch):
    monkeypatch.setattr(torch_shortcuts, "_raw_stream", None)
    monkeypatch.setattr(torch.cuda, "current_stream", {1: SimpleNamespace(cuda_stream=78)}.get)
    assert torch_shortcuts.current_stream(1) == 78


def test_allocator_of_the_current_card(cards):
    made = torch_shortcuts.allocator(CARD)(SHAPE, STRIDES, DTYPE)
    assert made == ("private", SHAPE, STRIDES, DTYPE)


@pytest.mark.parametrize("reason", ["another card is current", "no private function"])
def test_allocator_takes_the_public_function(cards, reason):
    if reason == "another card is current":
        cards.setattr(torch.cuda, "current_device", lambda: 0)
    else:
        cards.setattr(torch_shortcuts, "_empty_strided_cuda", None)
    made = torch_shortcuts.allocator(CARD)(SHAPE, STRIDES, DTYPE)
    assert made == ("public", SHAPE, STRIDES, {"dtype": DTYPE, "device": CARD})


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)], ids=["cpu", "gpu"]
)
def test_allocated_tensors(device):
    device = torch.zeros(0, device=device).device
    made = torch_shortcuts.allocator(device)(SHAPE, STRIDES, DTYPE)
    assert (tuple(made.shape), made.stride(), made.dtype) == (SHAPE, STRIDES, DTYPE)
    assert made.device == device
    assert not made.requires_grad


@pytest.mark.gpu
def test_private_functions_are_there():
    """On a PyTorch without them the operator is right and takes longer: worth knowing."""
    assert torch_shortcuts._raw_stream is not None
    assert torch_shortcuts._empty_strided_cuda is not None
