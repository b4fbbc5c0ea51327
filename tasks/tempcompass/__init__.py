"""TempCompass: temporal aspects of short videos, in four formats of questions."""
