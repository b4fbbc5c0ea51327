"""The training programs of pocket and pocket-sam, the small networks that ship with harness."""
