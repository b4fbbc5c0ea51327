"""Result files in several parts, each of which is measured by itself."""

from pathlib import Path


def save(path: Path, title: str, text: str) -> None:
    """Put a part (markdown) into a result file, in the place of an older one of the same title."""
    old = path.read_text("utf-8") if path.is_file() else ""
    parts = dict(part.split("\n", 1) for part in old.split("## ")[1:])
    parts[title] = f"\n{text}\n\n"
    whole = "".join(f"## {name}\n{parts[name]}" for name in sorted(parts))
    path.write_text(f"{whole.rstrip()}\n", encoding="utf-8")
