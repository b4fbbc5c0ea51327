"""The training program of `pocket`, from random weights to the checkpoint that ships."""
