"""Detection of the language of a query in Latin script, by its function words. Pure.

A query is too short for statistics over letters, and py3langid takes half a second to load. Words
such as *wie*, *cómo* or *quelle* are in nearly every question, and in no English one. The result is
None unless it is certain: taking an English query for a foreign one does more harm than the
detection does good.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W\d_]+")
_MIN_WORDS = 4
_MIN_SHARE = 0.25  # of the words of a query
_MIN_SHARE_OF_PASSAGE = 0.15  # of all words, since quotations and names contain none

_ENGLISH = frozenset(
    "a about after all am an and any are as at be been before between both but by can could did do "
    "does during each for from get had has have he her his how i if in into is it its many me most "
    "much my no not of off on one only or other our out over she should so some such than that the "
    "their them then there these they this those through to under up use used using was we were "
    "what when where which while who whose why will with would you your".split()
)
# Frequent in names, or words of English too: they support a decision, but do not make one.
_WEAK = frozenset(
    "a al am an as at bin bis car care cine come comment con cum da dal dan dans das de del della "
    "dem den der des di die dies din do dos du e een el en era es et for fra full gli go had han "
    "hat hem het hoe i il in is la las le les lo los ma man mas me met mit more mot na no non o "
    "of om on or os par para pas per plus pod pour sans se si sig sin so son su sur tak te ten "
    "till to tot tu un una und une ut van var via vid voor von war was we wie y zu".split()
)
_FUNCTION_WORDS = {
    "de": "aber als am an auf aus bei beim bin bis das dass dem den der des die dies diese diesem "
    "diesen dieser dieses doch du durch ein eine einem einen einer eines er es für gegen gibt habe "
    "haben hat hatte ich ihr ihre im in ist kann kein keine können mich mir mit muss nach nicht "
    "oder ohne sein seine sich sie sind so über um und unter viel viele vom von vor wann war "
    "waren warum was welche welchem welchen welcher welches wenn wer werden wie wieso wird wo "
    "wurde wurden zu zum zur zwischen",
    "es": "a al cómo como con cuál cuáles cuando cuándo cuántas cuánto cuántos cuánta de del desde "
    "donde dónde durante el ella en entre era es esta está este esto estos fue fueron ha había han "
    "hace hasta hay la las lo los más me muy no o para pero por porque puede pueden puedo qué que "
    "quién quiénes se según ser si sin sobre son su sus también tiene tienen un una uno usar y",
    "fr": "à au aux avec ce ces cette combien comment d dans de depuis des dont du elle en entre "
    "est et était été être faire fait il ils je l la le les leur lors mais n ne nous on ont ou où "
    "par pas pendant peut plus pour pourquoi qu quand que quel quelle quelles quels qui quoi s sa "
    "sans se ses si son sont sur un une utiliser vous y",
    "it": "a al alla alle anche che chi ci come con cosa da dal dalla degli dei del della delle "
    "devo di dove dopo e è era essere fare gli ha hanno i il in la le lo ma nei nel nella nelle "
    "non o per perché più posso può qual quale quali quando quanti quanto quante questa questo se "
    "si sono stata stato su sul sulla un una uno usare viene",
    "nl": "aan als bij dan dat de deze die dit door dus een en er gaat geen had heb hebben heeft "
    "hem het hoe hoeveel hun ik in is je kan kunnen maar me met mijn naar niet nog of om onder ook "
    "op over te tegen tot tussen uit van voor waar waarom wanneer waren was wat welk welke werd "
    "werden wie wordt worden zich zijn zonder zou",
    "pl": "a ale być co czego czy dla do gdy gdzie go i ich ile jak jaka jaki jakie jakim jako "
    "jego jej jest już kiedy kto która które którego której który których którzy lub ma mam mnie "
    "może można na nad nie o od oraz po pod ponieważ przed przez przy się są tak tego tej ten to "
    "tylko tym w we z za ze że żeby",
    "pt": "a ao aos as até com como da das de do dos e é ela ele eles em entre era essa esse esta "
    "está este eu faço foi foram há isso lhe mais mas me meu muito na não nas no nos o onde os ou "
    "para pela pelo pode podem por porque posso qual quais quando quanto quantos quantas que quem "
    "se sem ser seu sobre sua são também tem têm um uma usar você",
    "ro": "a acest această al ale am are au ca când care către cât câți câte ce cea cei cele cine "
    "cu cum de despre din dintre după este e eu fi fost în între la lor mai nu o pe pentru poate "
    "prin sau se sunt s-a și ți un una unde unei unui vor fără căror cărui",
    "sv": "att av blev bli den denna det detta där efter eller en ett från för genom ha hade han "
    "har hon hur i inte jag kan man med mellan mig mot mycket många måste när och om på sig ska "
    "skall som så till under ut utan vad var varför vem vid vilka vilken vilket är",
    "tr": "ama bir bu çok daha de değil en gibi göre hangi için ile ise kaç kadar kim ki mi mı mu "
    "mü nasıl ne neden nedir nerede nereye niçin o olan olarak olduğu oldu sonra şey şu var ve "
    "veya ya yok",
    "vi": "là của và các có được cho không một người những trong với này đã để khi từ ở đến như về "
    "gì nào ai đâu bao nhiêu thế làm tại sao bị bởi cái tôi ra vào năm sẽ đó",
}  # fmt: skip
_WORDS = {code: frozenset(words.split()) for code, words in _FUNCTION_WORDS.items()}
NAMES = {
    "ar": "Arabic", "cs": "Czech", "de": "German", "el": "Greek", "en": "English", "es": "Spanish",
    "fr": "French", "he": "Hebrew", "hi": "Hindi", "hy": "Armenian", "id": "Indonesian",
    "it": "Italian", "ja": "Japanese", "ka": "Georgian", "km": "Khmer", "ko": "Korean", "lo": "Lao",
    "my": "Burmese", "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian",
    "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


def detect_by_words(text: str) -> str | None:
    """The ISO 639-1 code of the language of `text` if its function words leave no doubt; None for
    English, for texts of fewer than four words, and in all other cases."""
    words = _WORD.findall(text.lower())
    if len(words) < _MIN_WORDS:
        return None
    distinct = frozenset(words)
    matches = {code: distinct & each for code, each in _WORDS.items()}
    code = max(matches, key=lambda each: len(matches[each]))
    best = matches[code]
    if any(len(each) == len(best) for other, each in matches.items() if other != code):
        return None
    strong = {word for word in best - _WEAK - _ENGLISH if len(word) > 2 or not word.isascii()}
    certain = len(strong) >= 2 or (len(strong) == 1 and len(best) >= 2)
    if not certain or len(best) < _MIN_SHARE * len(distinct):
        return None
    return None if (distinct & _ENGLISH) - best else code


def is_written_in(text: str, code: str) -> bool:
    """Whether a passage is in the language with this code: its function words outnumber the English
    ones. False for languages without a word list."""
    own = _WORDS.get(code, frozenset())
    words = _WORD.findall(text.lower())
    count = sum(word in own for word in words)
    english = sum(word in _ENGLISH and word not in own for word in words)
    return count >= _MIN_SHARE_OF_PASSAGE * len(words) and count > 2 * english


def is_function_word(word: str) -> bool:
    """Whether a lower-case word is a function word of any language here."""
    return word in _ENGLISH or any(word in words for words in _WORDS.values())
