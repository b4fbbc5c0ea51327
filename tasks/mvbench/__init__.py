"""MVBench: twenty tasks on short videos, some of them on a part of a video."""
