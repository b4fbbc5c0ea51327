"""Supervised fine-tuning on perfect responses."""
