"""OneThinker: one grammar of answers for questions, grounding, tracking and segmentation."""
