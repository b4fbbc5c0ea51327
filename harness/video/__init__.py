"""Video files as media: any frame at random, and the true time at which each is shown."""

from harness.video.media import VideoFile, video_file, video_or_lost

__all__ = ["VideoFile", "video_file", "video_or_lost"]
