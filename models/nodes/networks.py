"""Find the checkpoint that a node's SPEC names; for nodes that run networks by transformers."""

from harness.errors import UsageError
from harness.models.backends.checkpoint_part import CheckpointFiles, find_checkpoint


def find_weights(
    node: str, checkpoint: str | None, *, model_type: str, example: str, instead: str
) -> CheckpointFiles:
    """Return the checkpoint that a node's SPEC names.

    Args:
        node: The node's name.
        checkpoint: A folder, or a name that the Hugging Face cache holds.
        model_type: The `model_type` in its configuration that the node can run.
        example: A name on the hub.
        instead: A similar node that needs no weights.

    Raises:
        UsageError: no checkpoint is named.
        ModelError: the checkpoint is missing, incomplete, unsafe to load, or another network.
    """
    if checkpoint is None:
        raise UsageError(
            f"node {node}",
            expected="checkpoint=, the weights of its network",
            found="none",
            fix=f"For example {node}(checkpoint={example}) or a folder. Without a download, "
            f"there is the node {instead}.",
        )
    return find_checkpoint(checkpoint, (model_type,), fix=f"Give a checkpoint such as {example}.")
