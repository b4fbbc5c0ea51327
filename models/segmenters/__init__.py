"""Segmenters: prompts in, one mask an object out."""
