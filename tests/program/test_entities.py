"""Names that an installed spaCy pipeline finds in the text: metadata to filter by, and nodes of the graph."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from samples import Program, write_catalog

spacy = pytest.importorskip("spacy")

TEXTS = [
    {
        "id": "repair",
        "name": "Repair",
        "description": "The gene BRCA1 mends breaks. BRCA1 works with RAD51 since 1994.",
    },
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


def configured(place: Path, **chunking: object) -> Path:
    path = place / "config.yaml"
    path.write_text(
        yaml.safe_dump({"encoder": {"kind": "hashed"}, "chunking": chunking, "graph": {"entities": ["entities"]}})
    )
    return path


@pytest.fixture
def built(tmp_path: Path, retrieve: Program, pipeline: Path) -> Path:
    config = configured(tmp_path, entities=True, entities_model=str(pipeline))
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "genes.jsonl", TEXTS), "--config", config)
    assert done.code == 0, done.err
    return config


def test_names_in_the_text_are_metadata_that_can_be_filtered(built: Path, retrieve: Program) -> None:
    done = retrieve("query", "what mends the strand", "--filter", "entities=brca1", "--json", "--config", built)
    (result,) = done.json["results"]
    assert result["doc_id"] == "repair"
    assert result["metadata"]["entities"] == ["BRCA1", "RAD51"]  # the more frequent first, and no number or date


def test_entities_that_a_record_names_itself_stay_in_front(built: Path, retrieve: Program) -> None:
    done = retrieve("query", "cell", "--filter", "entities=TP53", "--json", "--config", built)
    (result,) = done.json["results"]
    assert result["metadata"]["entities"] == ["Guardian", "tp53"]


def test_records_without_a_name_have_no_entities(built: Path, retrieve: Program) -> None:
    record = retrieve("inspect", "record", "other", "--json", "--config", built).json
    assert "entities" not in record["metadata"]


def test_names_that_records_share_lead_from_one_to_the_other(built: Path, retrieve: Program) -> None:
    done = retrieve("inspect", "graph", "entities:RAD51", "--json", "--config", built)
    assert sorted(each["node"] for each in done.json["neighbours"]) == ["partner", "repair"]


def test_another_pipeline_of_the_same_name_is_another_recipe(
    built: Path, tmp_path: Path, retrieve: Program, pipeline: Path
) -> None:
    assert retrieve("sync", "--dry-run", "--json", "--config", built).json["status"] == "unchanged"
    other = spacy.blank("en")
    other.add_pipe("entity_ruler").add_patterns([{"label": "GENE", "pattern": "strand"}])
    other.to_disk(tmp_path / pipeline.name)
    config = configured(tmp_path, entities=True, entities_model=f"./{pipeline.name}")  # relative to the file
    plan = retrieve("sync", "--dry-run", "--json", "--config", config).json
    assert list(plan["recipe"]) == ["chunking.catalog.entities.sha1"]
    assert retrieve("sync", "--config", config).code == 0
    found = retrieve("query", "x", "--filter", "entities=strand", "--json", "--config", config).json["results"]
    assert [result["doc_id"] for result in found] == ["partner"]


@pytest.mark.parametrize(
    ("keys", "message", "hint"),
    [
        ({"language": "lt"}, "language `lt`", "spacy download lt_core_news_sm"),
        ({"entities_model": "en_core_web_none"}, "'en_core_web_none'", "spacy download en_core_web_none"),
        ({"entities_model": "./nowhere"}, "nowhere", "chunking.entities_model"),
        ({"entities_model": "json"}, "no config.cfg", "chunking.entities_model"),
    ],
)
def test_a_pipeline_that_is_not_here_is_an_error_that_names_the_next_step(
    tmp_path: Path, retrieve: Program, keys: dict[str, str], message: str, hint: str
) -> None:
    config = configured(tmp_path, entities=True, **keys)
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "genes.jsonl", TEXTS), "--config", config)
    assert done.code == 6
    assert message in done.err
    assert hint in done.err


def test_a_pipeline_that_finds_no_names_is_an_error(tmp_path: Path, retrieve: Program) -> None:
    made = spacy.blank("en")
    made.add_pipe("sentencizer")
    made.to_disk(tmp_path / "sentences")
    config = configured(tmp_path, entities=True, entities_model="./sentences")
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "genes.jsonl", TEXTS), "--config", config)
    assert done.code == 2
    assert "finds no entities: it has sentencizer" in done.err


def test_a_pipeline_that_cannot_be_loaded_is_an_error(tmp_path: Path, retrieve: Program, pipeline: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.cfg").write_text("[nlp]\nlang = 3")
    config = configured(tmp_path, entities=True, entities_model="./broken")
    done = retrieve("build", "--catalog", write_catalog(tmp_path / "genes.jsonl", TEXTS), "--config", config)
    assert done.code == 6
    assert "cannot be loaded" in done.err


def test_a_pipeline_of_rules_does_not_import_torch(pipeline: Path) -> None:
    program = f"""
import sys
from retrieve_cli.chunking.entities import Entities
from retrieve_cli.chunking.sentences import sentence_starts
print(Entities({str(pipeline)!r}, "en").names(["BRCA1 works."], most=3), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "['BRCA1'] False\n", done.stderr


def test_of_a_pipeline_of_networks_torch_is_imported_before_any_sentence_is_found(
    pipeline: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "networks"
    shutil.copytree(pipeline, folder)
    with (folder / "config.cfg").open("a") as config:
        config.write("# spacy-transformers")
    program = f"""
import sys
from retrieve_cli.chunking.entities import Entities
from retrieve_cli.chunking.sentences import sentence_starts
Entities({str(folder)!r}, "en")
sentence_starts("One. Two.")
print(sys.modules["thinc.compat"].has_torch)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_a_sync_of_changed_records_ends_where_a_build_would(built: Path, tmp_path: Path, retrieve: Program) -> None:
    path = write_catalog(
        tmp_path / "genes.jsonl", [*TEXTS, {"id": "new", "name": "New", "description": "BRCA1 again."}]
    )
    synced = retrieve("sync", "--json", "--config", built).json["generation"]
    fresh = retrieve("build", "--catalog", path, "--artifacts", tmp_path / "fresh", "--config", built, "--json")
    assert fresh.json["generation"] == synced
    done = retrieve("query", "x", "--filter", "entities=BRCA1", "--json", "--config", built)
    assert sorted(result["doc_id"] for result in done.json["results"]) == ["new", "repair"]
