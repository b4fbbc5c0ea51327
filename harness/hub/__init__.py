"""The Hugging Face hub: runs, checkpoints, cards and data sets, there and back."""
