"""Lets the programs import transformers' classes, as `harness train` does before it begins."""

from harness.models.backends.torchvision_cpu import ensure_torchvision

ensure_torchvision()
