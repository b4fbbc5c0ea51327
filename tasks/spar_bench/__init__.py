"""SPAR-Bench: twenty spatial tasks in one image or several views."""
