"""Runs for other programs: tables, Every Eval Ever, the Hugging Face hub, W&B, MLflow."""
