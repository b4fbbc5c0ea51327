"""harness inside lmms-eval: `tasks` for the folders of `harness lmms export`, and `models` for
`--model harness`.

Both run in lmms-eval's process; see docs/lmms-eval.md.
"""


def manifests() -> object:
    """Return what lmms-eval's registry wants to know of `--model harness`, without loading it."""
    from lmms_eval.models.registry_v2 import ModelManifest

    manifest: object = ModelManifest(
        model_id="harness",
        simple_class_path="harness.lmms.models.SimpleModel",
        chat_class_path="harness.lmms.models.ChatModel",
    )
    return manifest
