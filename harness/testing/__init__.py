"""Helpers for tests of plugins: generated data, the check of perfect answers, and stand-ins.

`docs/plugins.md` has a test that uses each. No evaluation uses them.
"""

from harness.run.verify import CeilingCheck, verify
from harness.testing.chat import ScriptedChat
from harness.testing.networks import tiny_checkpoint
from harness.testing.shapes import make_shapes

__all__ = ["CeilingCheck", "ScriptedChat", "make_shapes", "tiny_checkpoint", "verify"]
