"""Tasks as environments of reinforcement learning, for verifiers, OpenEnv and TRL.

`session` has what they share: a unit of a task's samples is an episode, a model of ours says what
the policy is asked and reads its responses, and the protocol or a method rewards them. Each
framework's module is a thin adapter; none is imported unless it is used. See docs/environments.md.
"""
