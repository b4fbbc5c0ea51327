"""Detect responses of a network whose logits are NaN, where the logits themselves are not seen.

Of logits that are NaN, vLLM and SGLang take token 0, which is "!" in the vocabularies of Qwen and
Llama, up to the limit of new tokens; half precision that overflows is what mostly brings it about.
Such a response is not an unreadable answer: the network has failed.
"""

from harness.chat import ChatRequest
from harness.errors import ModelError

MARK = "!"
MIN_RUN = 32


def refuse_broken(text: str, *, cut: bool, request: ChatRequest) -> None:
    """Raise ModelError if what was written ran on in `MARK` to its limit, without an answer before.

    >>> refuse_broken("Yes" + "!" * 99, cut=False, request=ChatRequest(key="a", text=""))
    """
    run = len(text) - len(text.rstrip(MARK))
    if cut and run >= min(MIN_RUN, request.max_new_tokens) and "</answer>" not in text:
        raise ModelError(
            f"response to request {request.key}",
            expected="a response from logits that are numbers",
            found=f"{MARK * 8}… up to the limit of new tokens",
            fix="Servers write that for NaN: serve in bfloat16 or float32 instead of float16.",
        )
