"""The agent of the SAM 3 repository: a VLM that calls SAM 3 with phrases and judges its masks."""
