"""The engine: predictions from a model, scores from a task, a record of both."""
