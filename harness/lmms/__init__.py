"""Interoperation with lmms-eval (docs/lmms-eval.md).

Inside lmms-eval's process run `tasks`, for the folders of `harness lmms export`, and `models`, for
`--model harness`. Inside ours runs `benchmarks`: lmms-eval's tasks as `--tasks lmms:NAME`.
"""


def manifests() -> object:
    """Return the manifest of `--model harness` for lmms-eval's registry; nothing is loaded."""
    from lmms_eval.models.registry_v2 import ModelManifest

    manifest: object = ModelManifest(
        model_id="harness",
        simple_class_path="harness.lmms.models.SimpleModel",
        chat_class_path="harness.lmms.models.ChatModel",
    )
    return manifest
