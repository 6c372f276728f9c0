"""Records of a tenant among many of others, and requests made from the grammar of every operator: for the law that the
records of others change no match, count, sentence, suggestion or error.
"""

from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]
MOST = 50
"""Results of an answer: more than the tenant has records, so that scores cut none."""
_GERMAN = "Der Zug fährt heute nach Passau, und die Reise dauert nicht länger als eine Stunde mit dem Bus."
_FRENCH = "Les longs jours de la saison sont chauds dans le sud, et la lumière est plus belle que l'hiver."
_SPANISH = "El hombre que vive en la casa grande no tiene tiempo para ir al mercado con su hermano mayor."


def row(key: str, text: str, tenant: str = "acme", **more: Any) -> Row:
    return {"id": key, "name": f"Tool {key}", "description": text, "tenant": tenant, **more}


OWN: list[Row] = [
    row("lung1", "A light sheet microscope for lungs.", license="MIT", size=3, released="2024-01-31"),
    row("lung2", "The sheet is light, and the microscope heavy.", license="MIT", size=12, released="2023-05-02"),
    row("heart", "Segmentation of the heart in light-sheet pictures.", license="GPL-3.0", size="large"),
    row("who", "Guidance by the who on salt and it is long.", shade="dark", code="c-own"),
    row("codes", "A map of each openstreet in the town.", name="codes", shade="Dark", spec={"volt": 12}),
    row("lungs", "Extract archives: tar -xzf archive.tar, or gunzip.", name="lungs", license="apache-2.0"),
    row("zug", _GERMAN, group="train", released="2024"),
    row("bus", "Die Busse sind nicht günstig, und der Fahrer wartet nach der Stunde.", group="train"),
    row("cyt", "Levels of IL-6 and of TNFalpha in blood.", name="Cyto", size=7),
    row("both", "Shared notes on lungs.", tenant=["acme", "beta"], license="MIT", shared="yes"),
]
OTHERS: list[Row] = [
    row("lung3", "A light sheet microscope for lungs, die cast.", "beta", license="BSD-3-Clause", size="3 m"),
    row("ZQ1", "WHO and IT: openstreetmap and lightsheet, gunzip -xzf -heart.", "beta", shade="2024-05-05"),
    row("zq2", _FRENCH, "beta", zqfield=5, Shade="pale", released="not yet", volt=3),
    row("zq3", _SPANISH, "beta", name="Cyto", group="zqgroup", zq={"volt": 7, "shade": "x"}),
    row("zq4", "segmentaton lungz microscop haert hert", "beta", license="MIT License", tenant_note="beta"),
    row("zq5", "Die Reisen: el hombre, la maison, il tempo", "beta", section="zqsection", kind="zqkind"),
    *(row(f"lung{n:04d}", f"Lungs {n}.", "beta", license=f"lic-{n:04d}", size=n) for n in range(2100)),
    *(row(f"zqc{n}", "codes", "beta", code=[f"c-{n:02d}{at:02d}" for at in range(99)]) for n in range(25)),
    *(row(f"zqd{n}", "lungs", "beta", shade="dark", group="zqgroup", code="c-own") for n in range(30)),
]
for number, each in enumerate(OWN):  # a field of few values, and one of many that are equally frequent
    each |= {"platform": ["linux", "mac"][number % 2], "parts": [f"part-{7 * part % 31:02d}" for part in range(20)]}
for number, each in enumerate(OTHERS):
    each |= {"platform": f"os-{number}", "parts": [f"part-{part:02d}z" for part in range(number % 40)]}
ROWS = [*OTHERS[:3], *OWN[:4], *OTHERS[3:1000], *OWN[4:], *OTHERS[1000:]]

_WORDS = (
    "lung lungs light sheet lightsheet light-sheet microscope heart segmentation salt map openstreetmap tar -xzf "
    "gunzip Zug nach Passau Busse Fahrer IL-6 IL6 TNFalpha lungz lungg microscop segmentaton hert Pasau gunzp "
    "hombre saison lumière lumiere casa codes the a is who WHO IT it die der nicht le la les que para Notes Cyto"
).split()
_PAIRS = ["light sheet", "sheet light", "the heart", "nach Passau", "die cast", "open street", "the who", "el hombre",
          "in blood", "zq nothing"]  # fmt: skip
_NAMES = ["lung1", "heart", "both", "lung3", "zq1", "ZQ1", "lung0007", "lungs1", "Cyto", "codes", "lungs", "Tool zq2",
          "hart", "zqc3"]  # fmt: skip
_FIELDS = ["license", "shade", "Shade", "size", "released", "code", "group", "tenant", "zqfield", "shared", "volt",
           "platform", "parts", "spec.volt", "name", "id", "section", "kind", "path", "licence", "shad", "zqfild",
           "tenant_note", "format", "facets.x"]  # fmt: skip
_VALUES = ["MIT", "mit", "GPL-3.0", "gpl", "BSD-3-Clause", "apache", "dark", "pale", "3", "12", "5", "large", "2024",
           "2024-01", "2023-01..2024-02", "2..9", "c-own", "c-0101", "c-010", "train", "zqgroup", "beta", "acme", "M*",
           "lic-*", "lic-0100", "zq*", "yes", "catalog", "zqsection", "lung*", "linux", "lnux", "part-07"]  # fmt: skip

_word, _pair, names = st.sampled_from(_WORDS), st.sampled_from(_PAIRS), st.sampled_from(_NAMES)
fields, _value = st.sampled_from(_FIELDS), st.sampled_from(_VALUES)
conditions = st.builds(
    "{}{}{}{}".format, st.sampled_from(["", "", "", "!"]), fields, st.sampled_from("= = != >= <= > <".split()), _value
) | st.builds("{}={},{}".format, fields, _value, _value)
_atoms = st.one_of(
    _word,
    _word,
    st.builds('"{}"'.format, _pair),
    st.builds("-{}".format, _word),
    st.builds('-"{}"'.format, _pair),
    st.builds("{} NOT {}".format, _word, _word),
    st.builds('{} NOT "{}"'.format, _word, _pair),
    st.builds("{}:{}".format, fields, _value),
    st.builds("-{}:{}".format, fields, _value),
    st.builds("[{}:{}]".format, st.sampled_from(["EXCLUDE", "INCLUDE"]), names),
    st.builds("[FILTER:{}]".format, conditions),
    st.lists(names, min_size=2, max_size=4).map(", ".join),
    st.lists(names, min_size=3, max_size=4).map(" ".join),
)
texts = st.lists(_atoms, min_size=1, max_size=5).map(" ".join)
_choices: dict[str, st.SearchStrategy[Any]] = {
    "filters": st.lists(conditions, min_size=1, max_size=2),
    "doc_ids": st.lists(names, min_size=1, max_size=2),
    "like": st.lists(names, min_size=1, max_size=1),
    "not_like": st.lists(names, min_size=1, max_size=1),
    "facets": st.lists(fields, min_size=1, max_size=3, unique=True),
    "offset": st.integers(1, 4),
    "sort": st.builds("{}{}".format, fields, st.sampled_from(["", ":desc"])),
    "boosts": st.builds("{}={}:2".format, fields, _value).map(lambda boost: [boost]),
    "also": texts.map(lambda text: [text]),
    "exact_words": st.booleans(),
    "mode": st.sampled_from(["bm25", "dense"]),
    "chunks": st.sampled_from([True]),
}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request of any kind, without the tenant."""
    keys = draw(st.lists(st.sampled_from(sorted(_choices)), max_size=3, unique=True))
    text = draw(texts) if draw(st.integers(0, 9)) else ""
    return {"query": text, "limit": MOST, **{key: draw(_choices[key]) for key in keys}}
