"""MindCube: questions on a space that a few views show in part."""
