"""The `harness` command: arguments in, one Python function called, a table or JSON out."""
