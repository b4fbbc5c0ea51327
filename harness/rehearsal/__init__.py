"""Rehearsals (`--rehearse`): published configurations run as written, on stand-ins of networks.

`standins` puts checkpoints of tiny random networks into a cache of the hub's layout, under the
published names; `responses` makes them write texts of the methods' grammars, some with errors;
`server` answers for models that are reached over HTTP. Nothing outside this package depends on it.
"""
