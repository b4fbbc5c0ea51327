"""Supervised fine-tuning (SFT) on perfect responses, written from the ground truth of samples."""
