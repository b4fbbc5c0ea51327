"""The training program of `pocket-sam`, from random weights to the checkpoint that ships."""
