"""pocket-sam: a small SAM 2 that this project trained on the generated world, and ships."""

from pathlib import Path

NAME = "pocket-sam"
FOLDER = Path(__file__).parent
"""What `from_pretrained` is given."""
