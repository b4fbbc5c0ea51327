"""SumMe: summaries of videos, with references of the user's own."""
