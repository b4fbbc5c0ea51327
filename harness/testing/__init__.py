"""Help for tests of plugins: worlds in official layouts, perfect answers, and stand-ins.

`docs/plugins.md` has a test that uses each. None of it is part of an evaluation.
"""

from harness.run.verify import CeilingCheck, verify
from harness.testing.chat import ScriptedChat
from harness.testing.networks import tiny_checkpoint
from harness.testing.shapes import make_shapes

__all__ = ["CeilingCheck", "ScriptedChat", "make_shapes", "tiny_checkpoint", "verify"]
