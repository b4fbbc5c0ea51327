"""Refuse places that the words around them give to something else, or that no known word gives.

In English and Chinese, words that place the object beside what the numbers are of. In other
languages every word around the places has to be one of the question, or known to lead to a place:
of any other nobody knows whether it denies the place.
"""

import re

from harness.errors import ParseError
from harness.models.places import is_beside
from harness.responses import MAX_TEXT, tag_text
from harness.stated.languages import is_foreign, unmarked

PLACE = "\0"
_NAMED = re.compile(
    r"<(ref|\|?\w{0,20}ref\w{0,20}\|)>.{0,500}?</?\|?\w{0,20}ref\w{0,20}\|?>"
    r"|\"[^\"\n]{0,500}\"|```\w{0,20}",
    re.DOTALL,
)
"""Names in tags and texts in quotes: they may hold any words."""
_NAME = re.compile(
    r"<(ref|\|?\w{0,20}ref\w{0,20}\|)>(?P<name>[^<>]{0,500})</?\|?\w{0,20}ref\w{0,20}\|?>"
)
_NUMBERED = re.compile(r"<[^<>]{0,200}\d[^<>]{0,200}>")
_TAG = re.compile(r"<[^<>]{0,80}>")
_BRACKETS = re.compile(r"\[[^\[\]{}()]*\]|\{[^\[\]{}()]*\}|\([^\[\]{}()]*\)")
_DEPTH = 8
"""Levels of brackets of a place."""
LAST = 600
"""Characters before a place in which words that relate it to another are looked for."""
_ASIDE = (
    r"(?:(?:to|on|at|in|right|directly|just|located|standing|sitting)\s+){0,2}(?:the\s+)?"
    r"(?:(?:left|right|front|top|side|bottom)\s+(?:(?:side|corner|part|half)\s+)?of\b"
    r"(?!\s(?:the|this) (?:image|picture|photo|frame|scene|video)\b)"
    r"|(?:next|close|adjacent)\s+to\b|beside\b|behind\b|above\b|below\b|under\b|opposite\b"
    r"|near\b(?!\s(?:the )?(?:cent|middle|top|bottom|left|right|edge|corner))"
    r"|between\b|outside\b|across\b)"
)
_VERB = r"\b(?:is|are|was|were|stands?|sits?|lies|lie|appears?)\s+"
_RELATION = re.compile(
    rf"(?i:{_VERB}{_ASIDE}(?:(?!\b(?:is|are|was|were)\b)[^.!?\n\0])*\Z)", re.DOTALL
)
_RELATED = re.compile(rf"(?i:\W*{_VERB}{_ASIDE})")
_CHINESE = re.compile(
    r"\W*的?(?:[左右上下前后後旁][边邊侧側方面]|旁|附近|对面|對面|之间|之間|[里外]面|以外|之外)"
)
_CHINESE_BEFORE = re.compile(
    r"(?:[左右上下前后後旁][边邊侧側方面]|附近|旁|除了?|挨着|靠近|邻近)[是为的]?\W*\Z"
)

_KNOWN = frozenset(
    "le la les l un une des de du d pour der die das den dem ein eine einen von für el los las"  # noqa: SIM905
    " una del al para o a os as um uma do da dos e é há em no na il lo gli i uno per het een van"
    " voor in si est sont situé située se trouve trouvent situe à aux au ici voici c ce cette ist"
    " sind befindet sich liegt liegen bei an hier dies está están es son hay en ubicado ubicada"
    " encuentra aquí localizado localizada são aqui è sono trova trovano ecco staat bevindt zich"
    " op is zijn den finns står ligger jest są znajduje się w na bulunur bulunuyor konumu işte"
    " adalah ada di berada terletak là ở nằm tại vị trí boîte cadre rectangle englobante"
    " délimitation coordonnées position positions bbox box boxes bounding koordinaten"
    " begrenzungsrahmen rahmen rechteck lautet lauten objekt objet objeto oggetto coordenadas"
    " cuadro caja delimitador delimitadora caixa posición posição posizione coordinate riquadro"
    " coördinaten kader koordinat koordinatları kutusu kotak pembatas współrzędne json coordinates"
    " image bild imagen imagem immagine im nell dans obrazie görüntüde gambar afbeelding answer"
    " вот это здесь находится находятся расположен расположена расположено расположены в на"
    " координаты рамка рамки объекта объект изображении ограничивающая".split()
)
_PIECES = (
    "은 는 이 가 을 를 의 에 에서 로 으로 있습니다 있어요 있다 입니다 이다 위치 위치합니다"
    " 위치해 하고 좌표 좌표는 바운딩 박스 다음 같습니다 다음과 여기 이미지 이미지에서 경계 상자"
    " 개체 객체 は が を に の で です だ である あります ある います いる 位置 座標 以下 次"
    " 通り とおり します 示します バウンディングボックス 検出 結果 こちら 画像 内 中 物体 領域 में"
    " पर है हैं का की के यहाँ स्थित निर्देशांक बॉक्स बाउंडिंग चित्र في عند هو هي إحداثيات الإحداثيات مربع"
    " المربع يقع تقع موجود موجودة الصورة هنا อยู่ ที่ คือ ใน ภาพ พิกัด ตำแหน่ง ของ กรอบ"
)
_JOINED = "|".join(sorted(map(unmarked, _PIECES.split()), key=len, reverse=True))


def refuse_other_subject(question: str, said: str) -> None:
    """Raise where words around places say that they are not those of the object, or may say so.

    Args:
        question: The words for the object.
        said: The response after its thought; of an `<answer>` its inside alone is looked at.

    Raises:
        ParseError: they do.
    """
    answer = tag_text(said, "answer")
    pieces = _around(said if answer is None else answer)
    if len(pieces) < 2:
        return
    if names := [
        name["name"] for name in _NAME.finditer(said) if is_beside(name["name"], question)
    ]:
        raise ParseError("places", expected="places of the object", found=repr(names[0][:60]))
    after = re.split(r"\n|[.!?。！？।]\s?", pieces[-1], maxsplit=1)[0]
    named = unmarked(question).casefold().strip(" .?")
    words = " ".join((*pieces[:-1], after))
    before = pieces[0].casefold()
    before = before.replace(named, " ") if named else before
    beside = (
        _RELATION.search(before[-LAST:])
        or _RELATED.match(after)
        or _CHINESE.match(after)
        or _CHINESE_BEFORE.search(before[-LAST:])
    )
    unknown = _unknown(words, named) if is_foreign(words) else ""
    if beside or unknown:
        raise ParseError(
            "places",
            expected="places of the object, with words that say so",
            found=repr(unknown or words.strip()[:60]),
        )


def _around(said: str) -> list[str]:
    """Return the texts before, between and behind the places of a response."""
    text = _NAMED.sub(" ", unmarked(said[:MAX_TEXT]))
    text = _TAG.sub(" ", _NUMBERED.sub(PLACE, text))
    for _ in range(_DEPTH):
        text, count = _BRACKETS.subn(_emptied, text)
        if not count:
            break
    return text.split(PLACE)


def _emptied(bracket: re.Match[str]) -> str:
    """Return the mark of a place for a bracket with numbers; the words of any other."""
    return PLACE if re.search(r"[\d\0]", bracket[0]) else f" {bracket[0][1:-1]} "


def _unknown(text: str, question: str) -> str:
    """Return the first word of a text that is neither of the question nor known; "" without one."""
    asked = sorted(set(re.findall(r"[^\W\d_]+", question)), key=len, reverse=True)
    of_question = "".join(f"{re.escape(word)}|" for word in asked if not word.isascii())
    joined = re.compile(rf"(?:{of_question}{_JOINED})*+")
    words: list[str] = re.findall(r"[^\W\d_]+", text.casefold())
    for word in words:
        if word not in _KNOWN and word not in asked and not joined.fullmatch(word):
            return word
    return ""
