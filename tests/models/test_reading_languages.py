"""Values in other languages: read between words that are known to state them, and not else."""

import importlib

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness import media, plugins
from harness.errors import ParseError
from harness.models.around_places import refuse_other_subject
from harness.models.grammar import Item, label_of
from harness.models.places import refuse_other_objects
from harness.spec import parse
from harness.stated.counters import is_changed
from harness.stated.intervals import stated_interval
from harness.stated.languages import certain, is_foreign, unmarked
from harness.stated.letters import stated_letter
from harness.stated.numbers import stated_number
from harness.types import AnswerForm, Query, query_id

ANIMALS = ("the cat", "the dog", "the cow", "the pig")
BOX = "[120, 60, 340, 300]"
HANGUL, CYRILLIC = "가각간갈감나낙난날다단달마만말바반발사산살", "бвгджзклмнпрстфхцчшщ"


def letter(text):
    return stated_letter(text, "ABCD", ANIMALS)


def value(read, *given):
    """Return the value that a reader gives; None for a failure."""
    try:
        return read(*given)
    except ParseError:
        return None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("따라서 정답은 C입니다.", "C"),
        ("正解はDです。犬が吠えています。", "D"),
        ("La réponse est B.", "B"),
        ("Die richtige Antwort ist C, weil der Hund bellt.", "C"),
        ("La respuesta correcta es A.", "A"),
        ("A resposta correta é C.", "C"),
        ("La risposta corretta è D.", "D"),
        ("Ответ: C.", "C"),
        ("Cevap: B", "B"),
        ("Réponse : D. Le cochon grogne.", "D"),
        ("La réponse B est fausse. La réponse est C.", "C"),
        ("정답이 C일 리 없습니다.", None),
        ("정답은 A나 B 중 하나입니다.", None),
        ("정답은 B를 제외한 모두입니다.", None),
        ("正解はAとは限りません。", None),
        ("正解はBかCです。", None),
        ("La réponse A ne peut être retenue.", None),
        ("Aucune chance que la réponse soit C.", None),
        ("Jede Antwort B wäre verkehrt.", None),
        ("Antwort B kommt nicht in Frage.", None),
        ("La respuesta B queda descartada.", None),
        ("La risposta C va esclusa.", None),
        ("A alternativa B está incorreta.", None),
        ("Ответ B маловероятен.", None),
        ("Antwort A klopt niet.", None),
        ("Đáp án B sai.", None),
        ("Option D à éliminer.", None),
        ("La réponse est B. Non, plutôt C.", None),
        ("B: incorrecta", None),
        ("答案不可能是C。", None),
        ("选B无疑", "B"),
    ],
)
def test_letters(text, said):
    assert value(letter, text) == said


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("몇 명입니까?", "모두 4명입니다.", 4),
        ("何匹いますか？", "全部で6匹います。", 6),
        ("Wie viele?", "Es gibt 7 Stühle.", 7),
        ("Combien ?", "Il y a 12 chaises.", 12),
        ("Quantos?", "Há 5 cadeiras.", 5),
        ("Сколько стульев?", "5 стульев", 5),
        ("कितनी कुर्सियाँ हैं?", "4 कुर्सियाँ हैं।", 4),
        ("Wie hoch?", "2,75 m", 2.75),
        ("얼마입니까?", "3,500원입니다.", 3500),
        ("How far?", "It is 1.250 m.", 1.25),
        ("Combien ?", "3 mille", None),
        ("Quantos?", "2 dúzias", None),
        ("Kaç kişi?", "6 bin kişi", None),
        ("Berapa?", "7 ribu orang", None),
        ("Ile?", "3 tuziny jajek", None),
        ("Сколько?", "3,5 тыс.", None),
        ("กี่คน", "3 แสนคน", None),
        ("何本？", "2ダースあります。", None),
        ("몇 켤레?", "5다스입니다.", None),
        ("有多少双？", "有3对鞋", None),
        ("¿Cuántos?", "3 y medio", None),
        ("¿Cuántas?", "3 sillas menos que mesas", None),
        ("Wie viele Einwohner?", "12.500", None),
        ("Combien de mètres ?", "La distance est 1,250 m.", None),
        ("몇 개?", "5개도 안 됩니다.", None),
        ("いくつ？", "3個とは言えない。", None),
        ("كم؟", "3 غير صحيح", None),
        ("कितने सेब हैं?", "3 सेब नहीं हैं।", None),
    ],
)
def test_numbers(question, text, said):
    assert value(stated_number, text, question) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("3초~7초", (3, 7)),
        ("3秒から7秒です。", (3, 7)),
        ("第3秒到第7秒", (3, 7)),
        ("de 3 à 7 secondes", (3, 7)),
        ("Walking: 3-7", (3, 7)),
        ("3~7프레임", None),
        ("3-7話", None),
        ("3시~7시", None),
        ("เฟรมที่ 3-7", None),
        ("Pages: 3-7", None),
        ("フレーム番号：3-7", None),
        ("1.250 bis 3.500 Sekunden", None),
    ],
)
def test_intervals(text, said):
    assert value(stated_interval, text) == said


@pytest.mark.parametrize(
    ("question", "said", "is_read"),
    [
        ("der Hund", f"Der Hund ist bei {BOX}.", True),
        ("el perro", f"El perro se encuentra en las coordenadas {BOX}.", True),
        ("개", f"개의 위치는 {BOX}입니다.", True),
        ("猫", f"猫は {BOX} にいます。", True),
        ("собака", f"Собака находится в {BOX}.", True),
        ("狗", f"狗的位置是{BOX}。", True),
        ("der Hund", f'Hier ist die Bounding Box:\n```json\n[{{"bbox_2d": {BOX}}}]\n```', True),
        ("the man next to the car", f"The man next to the car is at {BOX}.", True),
        ("the dog", f"The dog is on the left side of the image at {BOX}.", True),
        ("the dog", f"The dog is near the center of the image at {BOX}.", True),
        ("the dog", f"The dog is near the car at {BOX}.", False),
        ("le chien", f"Le chien se trouve à gauche de la voiture {BOX}.", False),
        ("il cane", f"Il cane è accanto a {BOX}.", False),
        ("개", f"개는 {BOX} 왼쪽에 있습니다.", False),
        ("개", f"개가 아니라 고양이가 {BOX}에 있습니다.", False),
        ("犬", f"{BOX} は犬ではありません。", False),
        ("الكلب", f"الكلب غير موجود في {BOX}.", False),
        ("कुत्ता", f"कुत्ता {BOX} में नहीं है।", False),
        ("狗", f"除了{BOX}以外都是狗。", False),
        ("the dog", f"The dog stands behind the fence {BOX}.", False),
        ("the dog", f"{BOX} is next to the dog.", False),
    ],
)
def test_words_around_a_box(question, said, is_read):
    image = media.pixels([np.zeros((800, 1000, 3), np.uint8)], times=[0.0], is_video=False, id="q")
    query = Query(id=query_id("q"), text=question, media=(image,), forms=(AnswerForm.BOXES,))
    for spelled in (
        "qwen_vl(backend=stored,prompt=locate)",
        "vlm(dialect=internvl3_5,backend=stored)",
    ):
        if "```" not in said or spelled.startswith("qwen"):
            answer = plugins.build("models", parse(spelled)).read(query, [said]).answer
            assert (answer is not None) == is_read, spelled


def rows(**texts):
    """Two boxes as JSON: one with a red cup, one with something else, under one key."""
    (key, (first, second)) = next(iter(texts.items()))
    return [{"bbox_2d": [1, 2, 3, 4], key: first}, {"bbox_2d": [5, 6, 7, 8], key: second}]


@pytest.mark.parametrize(
    ("question", "objects"),
    [
        ("the red cup", rows(title=("red cup", "blue plate"))),
        ("the red cup", rows(labels=(["red cup"], ["spoon"]))),
        (
            "the red cup",
            rows(names=({"zh": "杯子", "en": "red cup"}, {"zh": "盘子", "en": "plate"})),
        ),
        ("红色的杯子", rows(label=("杯子", "盘子"))),
        ("빨간 컵을 찾아 주세요", rows(label=("컵", "접시"))),
        ("लाल कप", rows(label=("लाल कप", "नीली प्लेट"))),
    ],
)
def test_a_text_beside_a_box_is_its_label(question, objects):
    items = [Item(label=label_of(fields)) for fields in objects]
    with pytest.raises(ParseError, match="one object"):
        refuse_other_objects(question, items)
    refuse_other_objects(question, items[:1])
    dialect = importlib.import_module("harness.models.vlm.dialect").dialect("internvl3_5")
    read = dialect.parse(str(objects).replace("'", '"')).items
    assert [item.label for item in read] == [item.label for item in items]


hangul = st.text(HANGUL, min_size=1, max_size=5)
cyrillic = st.text(CYRILLIC, min_size=2, max_size=8)


@given(st.sampled_from("ABCD"), hangul, st.sampled_from(["", " "]))
def test_a_letter_with_an_unknown_word_is_none(said, word, gap):
    assume(gap or word not in ("다",))
    assert letter(f"정답은 {said}입니다.") == said
    assert value(letter, f"정답은 {said}{gap}{word}.") is None
    assert value(letter, f"La réponse {said} {word} est.") is None


@given(st.integers(0, 900), cyrillic, st.sampled_from(["", " "]))
def test_a_number_with_an_unknown_word_is_none(number, word, gap):
    assume(not is_changed("") and is_changed(f" {word}"))
    assert stated_number(f"{number}") == number
    assert value(stated_number, f"{number}{gap}{word}") is None
    assert stated_number(f"{number} {word}", f"Сколько {word}?") == number
    assert value(stated_interval, f"{number}-{number + 1}{gap}{word}") is None


@given(cyrillic, st.sampled_from(["{} [1, 2, 3, 4]", "[1, 2, 3, 4] {}", "{}: [1, 2, 3, 4]"]))
def test_a_place_with_an_unknown_word_is_none(word, text):
    assume(word not in ("в", "вот", "на"))
    refuse_other_subject(word, text.format(word))
    with pytest.raises(ParseError, match="words that say so"):
        refuse_other_subject("кот", text.format(word))


@given(st.text(max_size=60))
def test_english_ends_at_words_and_nothing_else_changes(text):
    assert unmarked(unmarked(text)) == unmarked(text)
    if text.isascii():
        assert unmarked(text) == text
    if not is_foreign(text):
        assert certain(text) == text
