"""TempCompass: temporal aspects of short videos, asked in four formats."""
