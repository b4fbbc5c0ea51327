"""SPAR-Bench: twenty spatial tasks in one picture or several views."""
