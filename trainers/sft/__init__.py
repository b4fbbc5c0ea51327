"""Supervised fine-tuning on what a perfect reply would say."""
