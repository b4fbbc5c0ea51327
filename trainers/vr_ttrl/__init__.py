"""VR-TTRL's objective on unlabelled training samples."""
