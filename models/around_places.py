"""Refuse boxes and points if the words around them say that they belong to something else.

In English and Chinese these are words by which the question's object is beside the place, such as
"the dog is to the left of [1, 2, 3, 4]". In other languages each word around the places must be one
of the question or of a list, because an unknown word might deny the place.
"""

import re

from harness.errors import ParseError
from harness.models.places import is_beside
from harness.responses import MAX_TEXT, tag_text
from harness.stated.kinds_of_things import is_another_label
from harness.stated.languages import is_foreign, unmarked

PLACE = "\0"
"""Replaces each box or point in a text, which is then split at it."""
_NAMES_AND_QUOTES = re.compile(
    r"<(ref|\|?\w{0,20}ref\w{0,20}\|)>.{0,500}?</?\|?\w{0,20}ref\w{0,20}\|?>"
    r"|\"[^\"\n]{0,500}\"|```\w{0,20}",
    re.DOTALL,
)
"""Names in tags (`<ref>dog</ref>`) and texts in quotes, which may hold any words."""
_NAME_IN_TAG = re.compile(
    r"<(ref|\|?\w{0,20}ref\w{0,20}\|)>(?P<name>[^<>]{0,500})</?\|?\w{0,20}ref\w{0,20}\|?>"
)
"""A name in a tag: `<ref>dog</ref>`."""
_TAG_WITH_NUMBER = re.compile(r"<[^<>]{0,200}\d[^<>]{0,200}>")  # '<point x="61" y="40">'
_TAG = re.compile(r"<[^<>]{0,80}>")  # "</box>"
_BRACKETS = re.compile(r"\[[^\[\]{}()]*\]|\{[^\[\]{}()]*\}|\([^\[\]{}()]*\)")  # innermost ones
_MAX_DEPTH = 8
"""Largest number of levels of nested brackets that are reduced to a place."""
MAX_REACH = 600
"""Number of characters before a place in which words of a relation are searched."""
_ASIDE = (
    r"(?:(?:to|on|at|in|right|directly|just|located|standing|sitting)\s+){0,2}(?:the\s+)?"
    r"(?:(?:left|right|front|top|side|bottom)\s+(?:(?:side|corner|part|half)\s+)?of\b"
    r"(?!\s(?:the|this) (?:image|picture|photo|frame|scene|video)\b)"
    r"|(?:next|close|adjacent)\s+to\b|beside\b|behind\b|above\b|below\b|under\b|opposite\b"
    r"|near\b(?!\s(?:the )?(?:cent|middle|top|bottom|left|right|edge|corner))"
    r"|between\b|outside\b|across\b)"
)
"""Matches "to the left of" and "next to", but not "on the left of the image"."""
_VERB = r"\b(?:is|are|was|were|stands?|sits?|lies|lie|appears?)\s+"
_RELATION_BEFORE = re.compile(
    rf"(?i:{_VERB}{_ASIDE}(?:(?!\b(?:is|are|was|were)\b)[^.!?\n\0])*\Z)", re.DOTALL
)
"""Matches the end of a text before a place: "the dog is to the left of "."""
_RELATION_AFTER = re.compile(rf"(?i:\W*{_VERB}{_ASIDE})")
"""Matches the beginning of a text after a place: " is to the left of the dog"."""
_CHINESE_RELATION_AFTER = re.compile(
    r"\W*的?(?:[左右上下前后後旁][边邊侧側方面]|旁|附近|对面|對面|之间|之間|[里外]面|以外|之外)"
)
"""Matches "的左边" (to the left of it), "附近" (near it) after a place."""
_CHINESE_RELATION_BEFORE = re.compile(
    r"(?:[左右上下前后後旁][边邊侧側方面]|附近|旁|除了?|挨着|靠近|邻近)[是为的]?\W*\Z"
)
"""Matches "左边是" (on the left is), "靠近" (close to) before a place."""

_SHOWS = re.compile(
    r"\W*(?:shows|is|contains|marks|corresponds to|belongs to|encloses)"
    r"\s(?P<what>(?:the|an?)\s.{1,60})"
)
"""Matches the beginning of a text after a place that names its object: " shows the cat"."""
_DOUBTED = re.compile(r"\b(?:might|may|could) be (?:an?|the|your)\b|\bnot (?:sure|certain)\b")
_NEUTRAL_WORDS = frozenset(
    "le la les l un une des de du d pour der die das den dem ein eine einen von für el los las"
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
"""Words of other languages that may stand around places, whatever the object."""
_NEUTRAL_PIECES = (
    "은 는 이 가 을 를 의 에 에서 로 으로 있습니다 있어요 있다 입니다 이다 위치 위치합니다"
    " 위치해 하고 좌표 좌표는 바운딩 박스 다음 같습니다 다음과 여기 이미지 이미지에서 경계 상자"
    " 개체 객체 は が を に の で です だ である あります ある います いる 位置 座標 以下 次"
    " 通り とおり します 示します バウンディングボックス 検出 結果 こちら 画像 内 中 物体 領域 में"
    " पर है हैं का की के यहाँ स्थित निर्देशांक बॉक्स बाउंडिंग चित्र في عند هو هي إحداثيات الإحداثيات مربع"
    " المربع يقع تقع موجود موجودة الصورة هنا อยู่ ที่ คือ ใน ภาพ พิกัด ตำแหน่ง ของ กรอบ"
)
"""Such words in scripts without blanks or with joined endings: a word may be a run of them."""
_NEUTRAL_PIECE = "|".join(sorted(map(unmarked, _NEUTRAL_PIECES.split()), key=len, reverse=True))


def refuse_other_subject(question: str, text: str) -> None:
    """Raise if words around places say, or may say, that these are of another object.

    Args:
        question: The words for the object.
        text: The response after its thought; if it has an `<answer>`, only its content counts.

    Raises:
        ParseError: they do.
    """
    answer = tag_text(text, "answer")
    pieces = _texts_around_places(text if answer is None else answer)
    if len(pieces) < 2:
        return
    for tag in _NAME_IN_TAG.finditer(text):
        if is_beside(tag["name"], question):
            raise ParseError(
                "places", expected="places of the object", found=repr(tag["name"][:60])
            )
    after = re.split(r"\n|[.!?。！？।]\s?", pieces[-1], maxsplit=1)[0]
    asked_object = unmarked(question).casefold().strip(" .?")
    words_around = " ".join((*pieces[:-1], after))
    before = pieces[0].casefold()
    before = before.replace(asked_object, " ") if asked_object else before
    relation = (
        _RELATION_BEFORE.search(before[-MAX_REACH:])
        or _RELATION_AFTER.match(after)
        or _CHINESE_RELATION_AFTER.match(after)
        or _CHINESE_RELATION_BEFORE.search(before[-MAX_REACH:])
    )
    # the clause that leads to each place, and what is said after the last one that it shows
    leads = [
        re.split(r"[.!?;\n]\s|,\s", piece[-MAX_REACH:].rstrip(" :\n"))[-1] for piece in pieces[:-1]
    ]
    if shown := _SHOWS.match(after):
        leads.append(shown["what"])
    names_another = any(
        is_another_label(lead, question) or _DOUBTED.search(lead.casefold()) for lead in leads
    )
    unknown = _first_unknown_word(words_around, asked_object) if is_foreign(words_around) else ""
    if relation or names_another or unknown:
        raise ParseError(
            "places",
            expected="places of the object, with words that say so",
            found=repr(unknown or words_around.strip()[:60]),
        )


def _texts_around_places(response: str) -> list[str]:
    """Return the texts before, between and after the places of a response."""
    text = _NAMES_AND_QUOTES.sub(" ", unmarked(response[:MAX_TEXT]))
    text = _TAG.sub(" ", _TAG_WITH_NUMBER.sub(PLACE, text))
    for _ in range(_MAX_DEPTH):
        text, n_replaced = _BRACKETS.subn(_place_or_words, text)
        if not n_replaced:
            break
    return text.split(PLACE)


def _place_or_words(bracket: re.Match[str]) -> str:
    """Return `PLACE` for a bracket with numbers, and the words inside any other bracket."""
    return PLACE if re.search(r"[\d\0]", bracket[0]) else f" {bracket[0][1:-1]} "


def _first_unknown_word(text: str, question: str) -> str:
    """Return the first word that is neither in the question nor a neutral word; "" without one."""
    question_words = sorted(set(re.findall(r"[^\W\d_]+", question)), key=len, reverse=True)
    of_question = "".join(f"{re.escape(word)}|" for word in question_words if not word.isascii())
    joined_words = re.compile(rf"(?:{of_question}{_NEUTRAL_PIECE})*+")
    text_words: list[str] = re.findall(r"[^\W\d_]+", text.casefold())
    for word in text_words:
        is_known = word in _NEUTRAL_WORDS or word in question_words
        if not is_known and not joined_words.fullmatch(word):
            return word
    return ""
