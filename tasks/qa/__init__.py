"""What benchmarks of questions share: fields to questions, questions to samples and checks."""
