"""What benchmarks of masks in pictures share: phrases with their masks to samples and checks."""
