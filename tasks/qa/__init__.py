"""Shared code of benchmarks of questions: fields to questions, questions to samples and checks."""
