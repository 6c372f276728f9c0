"""Names that an installed spaCy pipeline finds in the text: metadata to filter by, and nodes of the graph."""

from pathlib import Path

import pytest
import yaml
from program.asking import answered, indexed, refused
from samples import Program

spacy = pytest.importorskip("spacy")

TEXTS = [
    {"id": "repair", "name": "Repair", "description": "BRCA1 mends breaks. BRCA1 works with RAD51 since 1994."},
    {"id": "partner", "name": "Partner", "description": "RAD51 lays itself around the strand."},
    {"id": "cycle", "name": "Cycle", "description": "TP53 stops the cell.", "entities": ["Guardian", "tp53"]},
    {"id": "other", "name": "Other", "description": "Nothing is named here."},
]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline of rules, as `spacy.Language.to_disk` saves one."""
    made = spacy.blank("en")
    names = [{"label": "GENE", "pattern": name} for name in ("BRCA1", "RAD51", "TP53")]
    made.add_pipe("entity_ruler").add_patterns([*names, {"label": "DATE", "pattern": "1994"}])
    folder = tmp_path_factory.mktemp("pipelines") / "genes"
    made.to_disk(folder)
    return folder


def configured(**chunking: object) -> None:
    """Let names be found, and be nodes of the graph."""
    sections = {"chunking": {"entities": True, **chunking}, "graph": {"entities": ["entities"]}}
    Path("config.yaml").write_text(yaml.safe_dump(sections))


@pytest.fixture
def built(retrieve: Program, pipeline: Path) -> Path:
    """The catalog of those texts, indexed with their names."""
    configured(entities_model=str(pipeline))
    return indexed(retrieve, TEXTS)


def found(retrieve: Program, name: str) -> dict[str, list[str]]:
    """The entities of each record that has this one."""
    results = answered(retrieve, "what mends the strand", "--filter", f"entities={name}")["results"]
    return {result["doc_id"]: result["metadata"]["entities"] for result in results}


def test_names_in_the_text_are_metadata_behind_those_that_a_record_gives_itself(built: Path, retrieve: Program) -> None:
    assert found(retrieve, "brca1") == {"repair": ["BRCA1", "RAD51"]}  # the more frequent first, no number or date
    assert found(retrieve, "TP53") == {"cycle": ["Guardian", "tp53"]}
    assert "entities" not in retrieve("inspect", "record", "other", "--json").json["metadata"]


def test_names_that_records_share_lead_from_one_to_the_other(built: Path, retrieve: Program) -> None:
    done = retrieve("inspect", "graph", "entities:RAD51", "--json")
    assert sorted(each["node"] for each in done.json["neighbours"]) == ["partner", "repair"]


def test_another_pipeline_of_the_same_name_is_another_recipe(built: Path, retrieve: Program, pipeline: Path) -> None:
    assert retrieve("sync", "--dry-run", "--json").json["status"] == "unchanged"
    other = spacy.blank("en")
    other.add_pipe("entity_ruler").add_patterns([{"label": "GENE", "pattern": "strand"}])
    other.to_disk(built.parent / pipeline.name)
    configured(entities_model=f"./{pipeline.name}")  # relative to the file
    plan = retrieve("sync", "--dry-run", "--json").json
    assert list(plan["recipe"]) == ["chunking.catalog.entities.sha1"]
    assert retrieve("sync").code == 0
    assert list(found(retrieve, "strand")) == ["partner"]


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ({"entities_model": "./nowhere"}, "nowhere", "chunking.entities_model"),
        ({"entities_model": "./broken"}, "cannot be loaded", ""),
    ],
)
def test_a_pipeline_that_is_not_here_is_an_error_that_names_the_next_step(
    catalog: Path, retrieve: Program, keys: dict[str, str], message: str, hint: str
) -> None:
    Path("broken").mkdir()
    Path("broken/config.cfg").write_text("[nlp]\nlang = 3")
    configured(**keys)
    said = refused(retrieve, "build", "--catalog", catalog, code=6)
    assert message in said
    assert hint in said


def test_a_pipeline_that_finds_no_names_is_an_error(catalog: Path, retrieve: Program) -> None:
    made = spacy.blank("en")
    made.add_pipe("sentencizer")
    made.to_disk("sentences")
    configured(entities_model="./sentences")
    assert "finds no entities: it has sentencizer" in refused(retrieve, "build", "--catalog", catalog)
