"""Sandboxes, which run code that a model wrote without access to files, network or processes.

`pool.open_sandbox` returns one whose isolation was tested.
"""
