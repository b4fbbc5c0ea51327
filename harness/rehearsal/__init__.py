"""Published configurations, run as they are written: only named parts are replaced.

`standins` puts checkpoints of tiny random networks into a cache of the hub's layout, under the
published names; `responses` lets them write what the methods' grammars allow, with errors mixed in;
`server` answers for the models that are reached over HTTP. Nothing below this package knows of it.
"""
