"""ReVSI: VSI-Bench asked anew, with ground truth of what the shown frames can tell."""
