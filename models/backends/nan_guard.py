"""Detect responses of a server whose logits are NaN: "!!!!!…" up to the token limit.

If logits are NaN, vLLM and SGLang choose token 0, which is "!" in the vocabularies of Qwen and
Llama. The usual cause is overflow in half precision. Such a response is a failure of the network,
not an unreadable answer.
"""

from harness.chat import ChatRequest
from harness.errors import ModelError

MARK = "!"  # the text of token 0
MIN_RUN = 32
"""Smallest number of marks at the end of a response that counts as a failure."""


def refuse_broken(text: str, *, cut: bool, request: ChatRequest) -> None:
    """Raise ModelError if a response ends in many `MARK`s, was cut, and has no `</answer>`.

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
