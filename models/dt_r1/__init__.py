"""DT-R1: digital twins that a language model plans, and reasons over."""
