"""A folder with Word documents: built, searched, and rejected with the reason."""

from pathlib import Path

from samples import Program
from sources.formats.docx.word_files import cell, p, r, t, table, word_file


def test_a_folder_of_word_documents_is_built_and_answers(retrieve: Program) -> None:
    Path("docs").mkdir()
    heading = p("", '<w:outlineLvl w:val="0"/>', inner=r("<w:lastRenderedPageBreak/>" + t("Doses")))
    body = p("Mice sleep.") + heading + table(cell(p("drug")) + cell(p("dose")), cell(p("melatonin")) + cell(p("3 mg")))
    Path("docs/mice.docx").write_bytes(word_file(body, core="<dc:title>Sleep of mice</dc:title>"))
    Path("docs/renamed.bin").write_bytes(word_file(p("A camel walks.")))
    secret = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")
    Path("docs/secret.docx").write_bytes(secret)
    done = retrieve("build", "--docs-dir", "docs", "--max-fail", "5")
    assert done.code == 8
    assert "rejected secret.docx:1: it is encrypted; save it without a password" in done.err
    first = retrieve("query", "melatonin", "--mode", "bm25", "--chunks", "--json").json["results"][0]
    assert (first["doc_id"], first["name"], first["section"]) == ("mice.docx", "Sleep of mice", "Doses")
    assert first["content"] == "Doses\n\n| drug | dose |\n|---|---|\n| melatonin | 3 mg |"
    assert first["metadata"]["pages_as"] == "as last saved"
    assert retrieve("query", "camel", "--mode", "bm25", "--json").json["results"][0]["doc_id"] == "renamed.bin"
