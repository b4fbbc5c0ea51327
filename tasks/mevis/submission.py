"""The zip that MeViS's server takes: `video/expression/frame.png`, 8-bit grey, 0 or 255."""

from harness.tasks.rvos.submission import png, write_submission

__all__ = ["png", "write_submission"]
