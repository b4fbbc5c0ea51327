"""Requests to a server of OpenAI's form."""

import sys
from dataclasses import replace
from pathlib import Path

from harness.models.backends.openai import openai

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))
import contract


def reached(served, **settings):
    """The backend that asks a test server."""
    plain = {"model": served.model, "base_url": served.url, "coordinates": "pixels", "wait": 0.01}
    return openai(**(plain | settings))


def one(**changes):
    return replace(contract.requests()["first"], **changes)
