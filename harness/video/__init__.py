"""Video files as `Media`: random access to frames, and the time at which each is shown."""

from harness.video.media import VideoFile, video_file, video_or_lost

__all__ = ["VideoFile", "video_file", "video_or_lost"]
