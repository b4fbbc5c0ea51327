"""Score models on tasks, train them with trainers, publish leaderboards: visual reasoning."""

__version__ = "0.1.0"
