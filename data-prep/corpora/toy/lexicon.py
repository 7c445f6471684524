"""Words of the toy corpus: nouns, verbs, adjectives, adverbs, each with its German and its English side.

The tables are plain text, one entry a line, so that they can be read and extended without reading code. A noun belongs
to classes, and a verb names the classes that its object may have: this is what makes an ambiguous German word ("Bank",
"Schloss", "Hahn") unambiguous in its sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

from corpora.toy.nouns import NOUNS

# frame ; particle ; infinitive 3sg-present 3sg-past participle auxiliary ; English base past participle ;
# English particle ("up") or preposition ("@for") ; German object (acc, dat, "auf+acc") ; classes of object or place
VERBS = """
i;;schlafen schläft schlief geschlafen h;sleep slept slept;;;area surface
i;;sitzen sitzt saß gesessen h;sit sat sat;;;area surface
i;;stehen steht stand gestanden h;stand stood stood;;;surface building shore
i;auf;stehen steht stand aufgestanden s;get got got;up;;
i;;warten wartet wartete gewartet h;wait;;;building shore area
i;;arbeiten arbeitet arbeitete gearbeitet h;work;;;area building
i;;lachen lacht lachte gelacht h;laugh;;;
i;;singen singt sang gesungen h;sing sang sung;;;area building
i;;tanzen tanzt tanzte getanzt h;dance;;;area building surface
i;;schwimmen schwimmt schwamm geschwommen s;swim swam swum;;;shore
i;;wohnen wohnt wohnte gewohnt h;live;;;area building
i;;rufen ruft rief gerufen h;shout;;;area
i;ein;schlafen schläft schlief eingeschlafen s;fall fell fallen;asleep;;area surface
i;auf;wachen wacht wachte aufgewacht s;wake woke woken;up;;
i;an;kommen kommt kam angekommen s;arrive;;;
i;auf;geben gibt gab aufgegeben h;give gave given;up;;
i;weg;laufen läuft lief weggelaufen s;run ran run;away;;
i;zurück;kommen kommt kam zurückgekommen s;come came come;back;;
m;;gehen geht ging gegangen s;go went gone;;;
m;;laufen läuft lief gelaufen s;run ran run;;;
m;;fahren fährt fuhr gefahren s;drive drove driven;;;
m;;kommen kommt kam gekommen s;come came come;;;
m;zurück;gehen geht ging zurückgegangen s;go went gone;back;;
t;;lesen liest las gelesen h;read read read;;acc;text
t;vor;lesen liest las vorgelesen h;recite;;acc;text
t;;schreiben schreibt schrieb geschrieben h;write wrote written;;acc;text
t;ab;schreiben schreibt schrieb abgeschrieben h;copy;;acc;text
t;;verstehen versteht verstand verstanden h;understand understood understood;;acc;text
t;;essen isst aß gegessen h;eat ate eaten;;acc;food
t;;kochen kocht kochte gekocht h;cook;;acc;food
t;;probieren probiert probierte probiert h;taste;;acc;food
t;;trinken trinkt trank getrunken h;drink drank drunk;;acc;drink
t;;bestellen bestellt bestellte bestellt h;order;;acc;drink food
t;;kaufen kauft kaufte gekauft h;buy bought bought;;acc;ware clothes text
t;;verkaufen verkauft verkaufte verkauft h;sell sold sold;;acc;ware clothes
t;;finden findet fand gefunden h;find found found;;acc;ware clothes person
t;;suchen sucht suchte gesucht h;look;@for;acc;ware clothes person
t;aus;suchen sucht suchte ausgesucht h;choose chose chosen;;acc;ware clothes
t;;besuchen besucht besuchte besucht h;visit;;acc;person building
t;;reparieren repariert reparierte repariert h;repair;;acc;device vehicle
t;auf;machen macht machte aufgemacht h;open;;acc;device
t;zu;machen macht machte zugemacht h;close;;acc;device
t;;wechseln wechselt wechselte gewechselt h;replace;;acc;lightbulb
t;;streichen streicht strich gestrichen h;paint;;acc;painted
t;;bauen baut baute gebaut h;build built built;;acc;building vehicle
t;ab;reißen reißt riss abgerissen h;tear tore torn;down;acc;building
t;;sehen sieht sah gesehen h;see saw seen;;acc;person building area
t;an;sehen sieht sah angesehen h;look;@at;acc;building area
t;;tragen trägt trug getragen h;wear wore worn;;acc;clothes
t;an;ziehen zieht zog angezogen h;put put put;on;acc;clothes
t;aus;ziehen zieht zog ausgezogen h;take took taken;off;acc;clothes
t;;waschen wäscht wusch gewaschen h;wash;;acc;clothes vehicle
t;;fangen fängt fing gefangen h;catch caught caught;;acc;animal
t;;füttern füttert fütterte gefüttert h;feed fed fed;;acc;animal
t;;lieben liebt liebte geliebt h;love;;acc;person animal
t;;kennen kennt kannte gekannt h;know knew known;;acc;person
t;an;rufen ruft rief angerufen h;call;;acc;person
t;ein;laden lädt lud eingeladen h;invite;;acc;person
t;ab;holen holt holte abgeholt h;pick;up;acc;person
t;;fragen fragt fragte gefragt h;ask;;acc;person
t;mit;nehmen nimmt nahm mitgenommen h;take took taken;along;acc;ware gift
t;;nehmen nimmt nahm genommen h;take took taken;;acc;ware
t;mit;bringen bringt brachte mitgebracht h;bring brought brought;along;acc;gift drink
t;;vergessen vergisst vergaß vergessen h;forget forgot forgotten;;acc;ware clothes
t;weg;werfen wirft warf weggeworfen h;throw threw thrown;away;acc;clothes text
t;;spielen spielt spielte gespielt h;play;;acc;instrument
t;;üben übt übte geübt h;practise;;acc;instrument
d;;helfen hilft half geholfen h;help;;dat;person
d;;danken dankt dankte gedankt h;thank;;dat;person
d;;folgen folgt folgte gefolgt s;follow;;dat;person animal
d;zu;hören hört hörte zugehört h;listen;@to;dat;person
p;;warten wartet wartete gewartet h;wait;@for;auf+acc;person
p;;denken denkt dachte gedacht h;think thought thought;@of;an+acc;person
p;;sprechen spricht sprach gesprochen h;speak spoke spoken;@with;mit+dat;person
p;auf;passen passt passte aufgepasst h;look;@after;auf+acc;person animal
p;;träumen träumt träumte geträumt h;dream;@of;von+dat;person building
x;;geben gibt gab gegeben h;give gave given;;acc;ware text gift
x;;zeigen zeigt zeigte gezeigt h;show showed shown;;acc;ware text clothes
x;;schicken schickt schickte geschickt h;send sent sent;;acc;text gift
x;;leihen leiht lieh geliehen h;lend lent lent;;acc;ware text
x;zurück;geben gibt gab zurückgegeben h;return;;acc;ware text
c;;sagen sagt sagte gesagt h;say said said;;;
c;;glauben glaubt glaubte geglaubt h;believe;;;
c;;wissen weiß wusste gewusst h;know knew known;;;
c;;hören hört hörte gehört h;hear heard heard;;;
c;;hoffen hofft hoffte gehofft h;hope;;;
z;;versuchen versucht versuchte versucht h;try;;;
z;;beschließen beschließt beschloss beschlossen h;decide;;;
z;an;fangen fängt fing angefangen h;begin began begun;;;
z;;hoffen hofft hoffte gehofft h;hope;;;
w;;regnen regnet regnete geregnet h;rain;;;
w;;schneien schneit schneite geschneit h;snow;;;
s;;sein ist war gewesen s;be was been;;;
"""

# German (attributive stem if it differs) | English | classes of the noun; an adjective may have two lines: "schwer" is
# heavy of a thing and difficult of a text
ADJECTIVES = """
alt | old | person animal ware clothes text building area vehicle device
jung | young | person animal
klein | small | person animal ware building area gift
groß | big | animal ware building area gift painted
müde müd | tired | person animal
klug | clever | person animal
hungrig | hungry | person animal
glücklich | happy | person
traurig | sad | person text
krank | sick | person animal
freundlich | friendly | person
reich | rich | person
arm | poor | person
neu | new | ware clothes text vehicle device lightbulb instrument
teuer teur | expensive | ware clothes gift
billig | cheap | ware clothes food
schön | beautiful | ware clothes building area gift shore
rot | red | ware clothes vehicle painted
blau | blue | ware clothes vehicle
grün | green | ware clothes vehicle painted
schwarz | black | ware clothes animal
weiß | white | clothes animal painted
schwer | heavy | ware gift
schwer | difficult | text
leicht | light | clothes
leicht | easy | text
scharf | sharp | sharp
scharf | spicy | spicy
frisch | fresh | food
süß | sweet | food
kalt | cold | drink food shore
warm | warm | drink clothes
kaputt | broken | device lightbulb vehicle
lang | long | text clothes
dunkel dunkl | dark | area building
leer | empty | building area
"""

# German | English with tags | tenses that it goes with
TIMES = """
heute | today/NN | present future modal
gestern | yesterday/NN | perfect-past
letzte Woche | last/JJ week/NN | perfect-past
morgen | tomorrow/NN | future modal
nächste Woche | next/JJ week/NN | future modal
jetzt | now/RB | present modal
jeden Tag | every/DT day/NN | present past
am Abend | in/IN the/DT evening/NN | present past future modal
am Morgen | in/IN the/DT morning/NN | present past future modal
am Montag | on/IN Monday/NNP | past future modal
im Sommer | in/IN summer/NN | present past future
"""

MID_ADVERBS = [("oft", "often"), ("immer", "always"), ("nie", "never"), ("selten", "rarely"), ("bald", "soon")]
MODALS = [  # German infinitive, ich/er form, past; English ("want" takes an infinitive with "to")
    ("können", "kann", "can"),
    ("müssen", "muss", "must"),
    ("sollen", "soll", "should"),
    ("dürfen", "darf", "may"),
    ("wollen", "will", "want"),
]
MEN = ["Peter", "Paul", "Martin", "Jan", "David", "Stefan"]
WOMEN = ["Anna", "Maria", "Julia", "Laura", "Eva", "Sophie"]
CITIES = [("Berlin", "Berlin"), ("Wien", "Vienna"), ("München", "Munich"), ("Köln", "Cologne"), ("Hamburg", "Hamburg")]


@dataclass(frozen=True)
class Noun:
    gender: str  # m, f or n
    singular: str
    plural: str  # empty for mass nouns
    weak: bool  # n-declension: every singular form but the nominative equals the plural
    english: str
    english_plural: str
    classes: frozenset[str]


@dataclass(frozen=True)
class Verb:
    frame: str  # i t d p x c z m w s, see VERBS
    particle: str  # separable prefix, or empty
    infinitive: str  # without the particle
    present: str  # third person singular, without the particle
    past: str
    participle: str  # with the particle
    auxiliary: str  # "haben" or "sein"
    english: str
    english_past: str
    english_participle: str
    english_particle: str  # "up", or empty
    english_preposition: str  # "for", or empty
    object_case: str  # acc, dat, "auf+acc", or empty
    classes: frozenset[str]


@dataclass(frozen=True)
class Adjective:
    german: str
    stem: str  # of the attributive form, without ending
    english: str
    classes: frozenset[str]


@dataclass(frozen=True)
class TimeAdverb:
    german: str
    english: tuple[tuple[str, str], ...]  # (word, tag)
    tenses: frozenset[str]


def _rows(table: str, separator: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split(separator)] for line in table.strip().splitlines()]


def _nouns() -> list[Noun]:
    nouns = []
    for german, english, classes in _rows(NOUNS, "|"):
        article, singular, plural = german.split()
        words = english.split()
        nouns.append(
            Noun(
                gender={"der": "m", "die": "f", "das": "n"}[article],
                singular=singular,
                plural="" if plural == "-" else plural.rstrip("*"),
                weak=plural.endswith("*"),
                english=words[0],
                english_plural=words[1] if len(words) > 1 else words[0] + "s",
                classes=frozenset(classes.split()),
            )
        )
    return nouns


def _verbs() -> list[Verb]:
    verbs = []
    for frame, particle, german, english, extra, case, classes in _rows(VERBS, ";"):
        infinitive, present, past, participle, auxiliary = german.split()
        words = english.split()
        regular = words[0] + "d" if words[0].endswith("e") else words[0] + "ed"
        if words[0] in ("copy", "try"):
            regular = words[0][:-1] + "ied"
        verbs.append(
            Verb(
                frame=frame,
                particle=particle,
                infinitive=infinitive,
                present=present,
                past=past,
                participle=participle,
                auxiliary={"h": "haben", "s": "sein"}[auxiliary],
                english=words[0],
                english_past=words[1] if len(words) > 1 else regular,
                english_participle=words[2] if len(words) > 1 else regular,
                english_particle="" if extra.startswith("@") else extra,
                english_preposition=extra[1:] if extra.startswith("@") else "",
                object_case=case,
                classes=frozenset(classes.split()),
            )
        )
    return verbs


def _adjectives() -> list[Adjective]:
    adjectives = []
    for german, english, classes in _rows(ADJECTIVES, "|"):
        words = german.split()
        adjectives.append(Adjective(words[0], words[-1], english, frozenset(classes.split())))
    return adjectives


def _times() -> list[TimeAdverb]:
    times = []
    for german, english, tenses in _rows(TIMES, "|"):
        pairs = tuple((word, tag) for word, tag in (item.split("/") for item in english.split()))
        times.append(TimeAdverb(german, pairs, frozenset(tenses.split())))
    return times


ALL_NOUNS, ALL_VERBS, ALL_ADJECTIVES, ALL_TIMES = _nouns(), _verbs(), _adjectives(), _times()
