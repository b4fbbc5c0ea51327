"""LongVideoBench: questions that refer to a moment of a long video and its subtitles."""
