"""The Chinese README has the commands, output, pictures, links and facts of the English one."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```\w+\n.*?^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)]+)\)")
CODE = re.compile(r"`([^`\n]+)`")


def readme(name):
    return (REPOSITORY / name).read_text(encoding="utf-8")


def test_the_chinese_readme_has_the_parts_of_the_english_one():
    english, chinese = readme("README.md"), readme("README.zh.md")
    assert BLOCK.findall(chinese) == BLOCK.findall(english)
    assert len(re.findall("^## ", chinese, re.M)) == len(re.findall("^## ", english, re.M))
    other = {"README.md", "README.zh.md"}
    assert set(LINK.findall(chinese)) - other == set(LINK.findall(english)) - other
    plain = [BLOCK.sub("", text) for text in (chinese, english)]
    assert len({frozenset(CODE.findall(text)) for text in plain}) == 1
    rows = [[line.count("|") for line in text.splitlines() if line[:1] == "|"] for text in plain]
    assert rows[0] == rows[1]
    numbers = [sorted(set(re.findall(r"\b\d{2,4}\b", text))) for text in plain]
    assert set(numbers[0]) - set(numbers[1]) <= {"260", "2026"}
