"""COCO detection: box every object of a category that is in the image."""
