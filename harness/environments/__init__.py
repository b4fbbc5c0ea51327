"""Tasks as environments of reinforcement learning, for verifiers, OpenEnv and TRL.

`session` is common to them: a unit of a task's samples is an episode, a model of harness makes the
requests to the policy and reads its responses, and the protocol or a method rewards them. Each
framework's module is a thin adapter; none is imported unless it is used. See docs/environments.md.
"""
