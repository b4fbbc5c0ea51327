"""SumMe: summaries of videos, where a user has them."""
