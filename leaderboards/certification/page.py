"""Show a certificate (`certify`) as an HTML page, and as rows of a table for the terminal."""

from harness.leaderboards.certification.certify import Certificate
from harness.leaderboards.render.pages import fill

SYMBOLS = {True: "✓", False: "✗", None: "?"}  # None: not decided


def rows(certificate: Certificate) -> list[tuple[str, str, str, str]]:
    """Return (symbol, aspect, number of questions, finding) of each comparison."""
    return [
        (SYMBOLS[check.equal], check.aspect, str(check.questions or ""), check.words)
        for check in certificate.checks
    ]


def page(certificate: Certificate) -> str:
    """Return the page: the verdict, what was compared, and the recorded settings that differ."""
    models = zip("AB", (certificate.a, certificate.b), certificate.dtypes, strict=True)
    return fill(
        "certificate.html",
        "page.css",
        title=f"Two ways of calling one network: {certificate.verdict}",
        summary=certificate.summary,
        sides=list(models),
        checks=rows(certificate),
        settings="\n".join(certificate.settings),
    )
