r"""Detection of languages other than English and Chinese, and their words of denial.

In these languages a value counts only if the words that touch it are known: an unknown one may deny
it, multiply it or say that it is something else. All texts here are `unmarked`: without the
combining marks of scripts whose vowels are marks, because `\w` does not match them.
"""

import re
import unicodedata

OTHER = (
    r"(?:(?![\W\d_])[\u0400-\u1cff\u3041-\u30ff\u3130-\u318f\uac00-\ud7af\ufb50-\ufeff"
    r"\uff66-\uff9f])"
)
"""A letter of a script other than those of English and Chinese."""
_MARKS = re.compile(r"(?<=\w)[\u0591-\u1cff\u200c\u200d]+")
_WORD = re.compile(r"[^\W\d_]+")
_LATIN_MARK = re.compile(r"[à-öø-ɏḁ-ỿ]")
_ENGLISH = frozenset(
    "the is are of and to there it this that these with on at by for not was were be been as"
    " which from has have their they you can in an so i my we its or if would answer option"
    " she her his him who into while".split()
)
_FOREIGN = frozenset(
    "est sont la le les des une du dans pas avec il elle ne qui sur et au aux je ce cette ou où"
    " donc réponse der das den dem ist sind nicht und ein eine einen mit es gibt kein keine auf"
    " im zu bei sich hier antwort wie viele el los las está son hay una un que con por del al"
    " respuesta cuántos cuántas es y não há uma são os na ao resposta quantos quantas lo gli che"
    " di ci risposta della nel quanti quante combien het een niet zijn er hoeveel antwoord ve"
    " bir var cevap kaç adalah ada tidak dan yang berapa jawaban là có jest są nie to ile det"
    " inte och är ikke og sind à é è aus wird kann von vom zum zur für als bis noch nur sehr"
    " dies diese dieser passt cette ces sa ses leur mais très peut plus muy pero como este esta"
    " para mais muito mas por questo questa sono anche più maar ook deze dit zeer ama bu çok"
    " tapi sangat hasta até sekunden secondes segundos secondi de".split()
)
_COMMA_OF_THOUSANDS = re.compile(
    r"[\u0590-\u05ff\u0900-\u109f\u1100-\u11ff\u1780-\u17ff\u3041-\u30ff\uac00-\ud7af]"
)
"""Scripts of languages that write numbers as English does: thousands with a comma."""
_AMBIGUOUS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}[.,]\d{3}(?![\d]|[.,]\d)")
NOT_KNOWN = "0/0"
"""Text in place of a number that is not certain; `numerals` reads it as NaN."""


def unmarked(text: str) -> str:
    """Return a text without the combining marks of Arabic, Hebrew and the scripts of South Asia.

    >>> unmarked("३ कुर्सी, à 3 m")
    '३ करस, à 3 m'
    """
    return _MARKS.sub(
        lambda run: "".join(char for char in run[0] if unicodedata.category(char)[0] not in "MC"),
        text,
    )


DENIES = re.compile(
    r"(?i:\b(?:nicht|kein\w*|weder|falsch\w*|au(?:ß|ss)er|ausgeschlossen|verkehrt|oder|entweder"
    r"|ne|pas|non|jamais|ni|ou|faux|fausse|incorrecte?|sauf|exclue?"
    r"|no|nunca|fals[oa]|incorrect[oa]|excepto|menos|salvo|descartad[oa]"
    r"|não|nem|errad[oa]|exceto|sbagliat[oa]|errat[oa]|esclus[oa]|tranne|oppure"
    r"|niet|geen|fout|onjuist|behalve|не|нет|ни|неверн\w*|неправильн\w*|кроме|или|либо"
    r"|değil|yanlış|hariç|veya|bukan|tidak|salah|kecuali|atau|không|sai|trừ|hoặc"
    r"|nie|błędn\w*|oprócz|lub|inte|fel|utom|eller|ikke"
    r"|ليس\w*|غير|لا|خطأ|خاطئ\w*|عدا|أو)\b|n['’](?=\w))"
    r"|아니|아닌|아님|아닙|않|없|못|안\s|틀|제외|또는|ない|なく|ません|違|誤|以外"
    + "".join(
        f"|{unmarked(word)}" for word in ("नहीं", "गलत", "ग़लत", "छोड़", "अलावा", "ไม่", "ผิด", "ยกเว้น")
    )
)
"""Words that deny, exclude or leave open what stands near them, as `unmarked` writes them."""


def is_foreign(text: str) -> bool:
    """Return True if the words of a text show another language than English or Chinese.

    That is if words of other scripts, words with accents and small words of other languages
    together are at least as many as small words of English.

    >>> [is_foreign(text) for text in ("Es gibt 3.", "3개", "The café is open.", "3 m", "有3个")]
    [True, True, False, False, False]
    """
    words = _WORD.findall(unmarked(text[:4000]).casefold())
    english = sum(word in _ENGLISH for word in words)
    foreign = sum(
        word in _FOREIGN or bool(_LATIN_MARK.search(word) or re.search(OTHER, word))
        for word in words
    )
    return foreign > 0 and foreign >= english


def certain(text: str, question: str = "") -> str:
    """Return a text with `NOT_KNOWN` for numbers whose mark may be of thousands or of decimals.

    English texts and languages that write thousands as English does are not changed.

    >>> certain("Es gibt 1.250 Personen."), certain("It is 1.250 m."), certain("3,500원")
    ('Es gibt 0/0 Personen.', 'It is 1.250 m.', '3,500원')
    """
    both = f"{question} {text}"
    if not (is_foreign(text) or is_foreign(question)) or _COMMA_OF_THOUSANDS.search(both):
        return text
    return _AMBIGUOUS.sub(NOT_KNOWN, text)
