"""Detection of words after a number that change it: "3 mille" is 3000.

For Latin scripts and Chinese the words that change a number are listed; for other scripts those
that do not (counters such as Korean 개): any other word may deny or multiply the number.
"""

import re

from harness.stated.languages import DENIES, OTHER, unmarked

_MULTIPLIES = re.compile(
    r"[\s-]*(?i:mil|mila|mille|millions|milliards?|millones|millón|milhões|milhão|bilhões|milion[ei]"
    r"|miliard[ioey]|tausend\w*|millionen|milliarden?|hundert\w*|mio|mrd|dutzend\w*|paare?"
    r"|dizaines?|douzaines?|vingtaines?|centaines?|milliers?|paires|couples"
    r"|decenas?|docenas?|centenar(?:es)?|cientos|cien|millar(?:es)?|pares|parejas?"
    r"|dezenas?|d[úu]zias?|centenas?|milhar(?:es)?"
    r"|decin[ae]|dozzin[ae]|centinai[ao]|migliai[ao]|coppi[ae]|pai[ao]"
    r"|honderd\w*|duizend\w*|miljoen\w*|miljard\w*|dozijn\w*|paren|stel"
    r"|bin|yüz|milyon|milyar|düzine|çift|ribu|ratus|juta|miliar|lusin|pasang|puluh"
    r"|nghìn|ngàn|triệu|trăm|chục|tỷ|tỉ|tá|cặp|đôi"
    r"|tysi\w*|milion\w*|miliard\w*|tuzin\w*|par[ay]?|set(?:ki|ek)|tusen|miljon\w*|miljard\w*|dussin"
    r"|hundra|hundre(?:de)?|tisíc\w*|ezer|mii|mie|tuhat|tuhatta|libo|elfu|dusin"
    r"|tusin\w*|tuct\w*|tucat\w*|duzin\w*|dosen\w*"
    r"|demi\w*|halb\w*|kvart\w*|quarti|terzi|drittel|viertel|tercios?|terços?|cuartos|buçuk|yarım"
    r"|setengah|rưỡi|pół"
    r"|(?:et|y|e|und|en|i|og|och)\s+(?:un[ea]?\s+)?"
    r"(?:demie?|medi[oa]|mezz[oa]|meia|hal[bfv]\w*|pół)"
    r"|χιλιάδ\w*|εκατομμύρι\w*|ντουζίν\w*|ζευγάρι\w*)\b"
    r"|\s*[打双對对雙倍成折]"
)
"""Words after a number that multiply it, in languages of Latin script and in Chinese: " mille"."""
_COMPARED = re.compile(
    r"[^.;:!?\n]{0,40}\b(?i:weniger|mehr|so viele?|menos|más|moins|autant|meno|più|minder|meer"
    r"|mniej|więcej|zu (?:wenige?|viele?)|de trop|de más|fazla|eksik|lebih|kurang|hơn"
    r"|färre|fler)\b|\s(?i:a mais|de plus|de trop)\b"
)
"""Words with which a number is a difference, a factor or a bound: " chaises de plus"."""
_CLAUSE = re.compile(r"[^.,;:!?…()\[\]{}<>|/\"“”«»、。，；：！？।،؛؟\n*$_`=~+\d]*")
# Counters and units of Korean, Japanese and Thai, which touch the number.
_COUNTERS = (
    "개 명 마리 대 권 장 병 잔 그루 송이 벌 자루 번 회 가지 초 분 시간 일 년 살 세 원 층 미터"
    " 센티미터 킬로미터 제곱미터 도 퍼센트 점 곳 줄 칸 사람 정도 つ 個 人 匹 台 本 枚 冊 頭 羽"
    " 脚 杯 回 歳 円 秒 秒間 分 時間 日 年 メートル センチ センチメートル キロメートル"
    " 平方メートル 度 階 件 名 軒 点 皿 か所 箇所 種類 ほど くらい の間 間 คน ตัว อัน คัน ใบ เล่ม ชิ้น"
    " ลูก ครั้ง เมตร เซนติเมตร บาท วินาที นาที"
)
# Endings and verbs of statements in these languages.
_STATE = (
    "이 가 입니다 이에요 예요 이다 있습니다 있어요 있다 보입니다 보여요 が は です だ である"
    " でした あります ある います いる 見えます 写っています 映っています ครับ ค่ะ"
)
# Counters and units of Hindi, Arabic and Russian, which are words of their own.
_WORDS = (
    "है हैं मीटर सेंटीमीटर सेकंड लोग व्यक्ति बार रुपये متر أمتار مترا متر مربع سنتيمتر ثانية ثوان ثواني"
    " مرات مرة أشخاص شخصا شخص человек человека людей штук штуки штука раз раза метр метра метров"
    " м см км секунд секунды секунда рублей рубля рубль"
)


def _known() -> re.Pattern[str]:
    """Return the pattern of a clause after a number that does not change it."""
    joined, apart = (
        "|".join(sorted({unmarked(word) for word in words.split()}, key=len, reverse=True))
        for words in (f"{_COUNTERS} {_STATE}", _WORDS)
    )
    return re.compile(
        rf"(?:\s*(?:%|°|(?:[ckm]?m|kg|g|s|ft)[²³]?(?![A-Za-z])|{joined}|(?:{apart})(?!{OTHER})))*+[\s-]*"
    )


_KNOWN = _known()


def is_changed(rest: str) -> bool:
    """Return True if the words after a number change its value, or may do so.

    Args:
        rest: The text after the number, as `unmarked` returns it.

    >>> [is_changed(rest) for rest in ("개입니다.", "개는 없다.", " mille", " chairs", "把椅子")]
    [False, True, True, False, False]
    """
    if _MULTIPLIES.match(rest) or _COMPARED.match(rest):
        return True
    clause = _CLAUSE.match(rest)
    words = clause[0] if clause else ""
    return re.search(OTHER, words) is not None and _KNOWN.fullmatch(words) is None


def without_asked(text: str, question: str) -> str:
    """Return a text without words of the question that stand right after numbers.

    They name the counted things, so they do not change the number. For scripts as in `OTHER`.

    >>> without_asked("12 яблок", "Сколько яблок на столе?")
    '12 '
    """
    words = {word for word in re.findall(rf"{OTHER}{{2,}}", question) if not DENIES.search(word)}
    if not words:
        return text
    named = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.sub(rf"(?<=\d)(\s?)(?:{named})(?!{OTHER})", r"\1", text)
