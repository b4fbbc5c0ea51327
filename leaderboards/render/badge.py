"""Write badges for a README (label, text, colour), as an SVG or as JSON for shields.io."""

from html import escape

GOOD, BAD, UNKNOWN = "#009e73", "#d55e00", "#777"
"""Colours that colour-blind readers can distinguish (Okabe and Ito 2008)."""


def svg(label: str, text: str, colour: str) -> str:
    """Return a badge of 20 pixels' height: the label on grey, the text on a colour."""
    # A letter is about 6.4 pixels wide in the label, 7 in the text; two margins of 7 make 14.
    label_width, text_width = 14 + round(6.4 * len(label)), 14 + 7 * len(text)
    width = label_width + text_width
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" '
        f'aria-label="{escape(label)}: {escape(text)}" font-family="Verdana,sans-serif" '
        f'font-size="11" fill="#fff"><rect width="{label_width}" height="20" fill="#444"/>'
        f'<rect x="{label_width}" width="{text_width}" height="20" fill="{colour}"/>'
        f'<text x="7" y="14">{escape(label)}</text>'
        f'<text x="{label_width + 7}" y="14">{escape(text)}</text></svg>\n'
    )


def shields(label: str, text: str, colour: str) -> dict[str, object]:
    """Return the JSON that shields.io reads from an address (`/endpoint?url=…`)."""
    return {"schemaVersion": 1, "label": label, "message": text, "color": colour.lstrip("#")}
