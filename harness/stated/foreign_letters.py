"""Statements of a letter in languages other than English and Chinese: "La réponse est B".

A letter counts only if all words before it, and those that touch it, are known words of statements:
any other word may deny it. `harness.stated.letters` calls `is_unknown` for each statement.
"""

import re

from harness.stated.languages import DENIES, OTHER, is_foreign, unmarked

_BEFORE = frozenset(
    "la le les l el il lo o a as os die der das den de het un une una ein eine bonne correcte"
    " seule richtige korrekte einzige correcta única certa giusta corretta juiste final finale"
    " définitive endgültige meine ma mi minha mia my the answer donc ainsi alors also daher"
    " somit folglich deshalb entonces luego quindi dunque portanto então assim dus c est ist es"
    " é è jest là adalah ce qui que dass che ich je yo eu io denke glaube meine pense crois creo"
    " penso acho doğru yani jadi vậy więc zatem значит следовательно итак поэтому правильный"
    " верный мой думаю что это 따라서 그러므로 그래서 즉 올바른 옳은 최종 가장 적절한 제 생각에"
    " 생각에는 문제의 이 질문의 したがって よって 正しい 最終的な 最も適切な この問題の 私の إذن"
    " لذلك وبالتالي فإن अत इसलिए सह ดังนั้น".split()
)
_UNMARKED_BEFORE = frozenset(map(unmarked, _BEFORE))
_TOUCHES = re.compile(
    rf"[\s*_`\"')\]}}»”$.]*(?:입니다|이다|이에요|예요|이며|이고|です|だ|である|でした|となります|になります"
    rf"|{'|'.join(unmarked(word) + f'(?!{OTHER})' for word in ('है', 'हैं', 'होगा'))})?"
    r"[\s*_`\"')\]}»”$।]*(?=\Z|[^\w\s])"
)
"""Marks that may follow a letter, and words that end a statement, as in "B입니다."."""
_IS_FALSE = re.compile(
    r"(?i:faux|fausse|falsch|fals[oa]|incorrect[ao]|incorrecte|errad[oa]|sbagliat[oa]|fout|onjuist"
    r"|yanlış|salah|sai|błędn\w*)\b"
)
_SENTENCE = re.compile(r"[^.!?\n。！？।]{0,300}")
_PREDICATE = re.compile(
    r"(?:[:=：]|\b(?:ist|est|es|é|è|là|adalah|jest)\b|[は은])\W*[A-Z]\W*[)\]]\W*\Z"
)
"""A statement whose letter is in brackets ("ist (B)"): its option's text may follow."""
_NOT_ANOTHER = re.compile(
    r"\b(?i:no|pas|non|nicht|não|niet|не|nie|değil|bukan|không)\s(?:(?i:la|die|der|a|de)\s)?[A-Z](?!\w)"
)
"""Another letter that is denied ("pas A"), which does not deny the stated one."""
_SOON = re.compile(rf"\W*(?:[^\W\d_]+\W+){{0,4}}?(?:{DENIES.pattern})")


def is_unknown(before: str, said: str, rest: str) -> bool:
    """Return True if a statement in another language has unknown words, or is denied after it.

    Args:
        before: The clause before the statement.
        said: The statement, up to its letter.
        rest: The text after its letter.

    >>> is_unknown("La bonne", "réponse est B", "."), is_unknown("La", "réponse B", " est fausse.")
    (False, True)
    """
    sentence = _SENTENCE.match(rest)
    after = sentence[0] if sentence else ""
    if not is_foreign(f"{before} {said} {after}"):
        return False
    words = re.findall(r"[^\W\d_]+", before.casefold())
    touches = _TOUCHES.match(after)
    if touches is None and not _PREDICATE.search(said):
        return True
    if not _UNMARKED_BEFORE.issuperset(words):
        return True
    following = after[touches.end() if touches else 0 :]
    return DENIES.search(_NOT_ANOTHER.sub("", following)) is not None


def denies_soon(rest: str) -> bool:
    """Return True if one of the first five words of a sentence in another language denies.

    >>> denies_soon(". C'est faux."), denies_soon(". Le chien aboie.")
    (True, False)
    """
    sentence = _SENTENCE.match(rest.lstrip(" .:)*_"))
    said = sentence[0] if sentence else ""
    soon = _SOON.match(said)
    return soon is not None and (is_foreign(said) or _IS_FALSE.match(said) is not None)
