"""Calls of networks as `harness explain` prints them: prompts, responses, updates of weights.

The functions return texts by the names under which they are printed.
"""

from collections.abc import Mapping, Sequence

from harness.leaderboards.request_log import request_log
from harness.models.vendors.settings import names, vendor_settings
from harness.types import Prediction, Sample


def vendor_note(description: Mapping[str, object]) -> dict[str, object]:
    """Return a recorded model's vendor settings with their source, under "vendor"; {} for none."""
    vendor = description.get("vendor")
    if not isinstance(vendor, Mapping) or vendor.get("name") not in names():
        return {}
    return {"vendor": vendor_settings(str(vendor["name"])).note()}


def asked_and_answered(sample: Sample, prediction: Prediction) -> dict[str, str]:
    """Return a prediction's requests by `request_log`'s names, and responses as `response N`."""
    if not prediction.calls:
        log = {"prompt": "none in the record: no network was called, or it failed"}
        texts: Sequence[str | None] = prediction.responses
    else:
        log = request_log(sample.query, prediction.calls)
        texts = [call.response for call in prediction.calls]
    return log | {
        f"response {number}": "none: the network failed" if text is None else text
        for number, text in enumerate(texts, start=1)
    }


def adapted(prediction: Prediction) -> dict[str, list[str]]:
    """Return a line for each step of test-time training on the sample, under "adaptation".

    Lines name responses by their numbers in `asked_and_answered`; {} without test-time training.
    """
    if prediction.adaptation is None:
        return {}
    numbers = {call.key: number for number, call in enumerate(prediction.calls, start=1)}
    lines = []
    # Keys of calls: `@step0#2` is rollout 2 before step 0, `@after1#0` the response after step 1.
    for index, step in enumerate(prediction.adaptation.steps):
        parts = []
        if step.label is not None:
            number = numbers.get(f"@step{index}#{step.label}", numbers.get(f"@step0#{step.label}"))
            parts.append(f"label is response {number}, agreement {step.agreement:.2f}")
        if step.parsed is not None:
            parts.append(f"{step.parsed} can be read")
        if step.rewards:
            parts.append(f"rewards {', '.join(f'{reward:.2f}' for reward in step.rewards)}")
        if step.entropy is not None:
            parts.append(f"entropy {step.entropy:.3f} nats a token")
        if step.rolled_back:
            parts.append("the update was NaN or infinite and was not made")
        if (after := numbers.get(f"@after{index + 1}#0")) is not None:
            parts.append(f"then response {after}")
        lines.append(f"step {index + 1}: {'; '.join(parts)}")
    return {"adaptation": [prediction.adaptation.method, *lines]}
