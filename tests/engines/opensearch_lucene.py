"""Lucene itself, from the jar of pyserini: rows of term weights as OpenSearch indexes them, and searches in them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

if TYPE_CHECKING:
    from retrieve_cli.contracts.values import Rows, Vectors

_PROGRAM = """
import java.io.*;
import java.nio.file.*;
import java.util.*;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.search.*;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.*;

/** Arguments: folder with rows.bin and queries.bin, k1, b, length of the lists. Writes lists.bin. */
public class Lists {
  public static void main(String[] arguments) throws Exception {
    Path folder = Paths.get(arguments[0]);
    BM25Similarity bm25 = new BM25Similarity(Float.parseFloat(arguments[1]), Float.parseFloat(arguments[2]), false);
    int length = Integer.parseInt(arguments[3]);
    Directory directory = new ByteBuffersDirectory();
    IndexWriterConfig config = new IndexWriterConfig(new WhitespaceAnalyzer());
    config.setSimilarity(bm25).setMergePolicy(new LogDocMergePolicy());
    try (IndexWriter writer = new IndexWriter(directory, config)) { index(folder.resolve("rows.bin"), writer); }
    try (DirectoryReader reader = DirectoryReader.open(directory);
         DataInputStream in = open(folder.resolve("queries.bin"));
         DataOutputStream out = new DataOutputStream(
             new BufferedOutputStream(Files.newOutputStream(folder.resolve("lists.bin"))))) {
      IndexSearcher searcher = new IndexSearcher(reader);
      searcher.setSimilarity(bm25);
      int queries = in.readInt();
      for (int i = 0; i < queries; i++) {
        BooleanQuery.Builder features = new BooleanQuery.Builder(), words = new BooleanQuery.Builder();
        int terms = in.readInt();
        int[] ids = new int[terms];
        for (int j = 0; j < terms; j++) ids[j] = in.readInt();
        for (int j = 0; j < terms; j++) {
          float weight = in.readFloat();
          Query feature = FeatureField.newLinearQuery("features", "t" + ids[j], 1f);
          features.add(new BoostQuery(feature, weight), BooleanClause.Occur.SHOULD);
          Query word = new TermQuery(new Term("text", "t" + ids[j]));
          words.add(new BoostQuery(word, weight), BooleanClause.Occur.SHOULD);
        }
        write(searcher.search(features.build(), length), reader, out);
        write(searcher.search(words.build(), length), reader, out);
      }
    }
  }

  static void index(Path path, IndexWriter writer) throws IOException {
    try (DataInputStream in = open(path)) {
      int rows = in.readInt();
      for (int row = 0; row < rows; row++) {
        Document document = new Document();
        document.add(new StoredField("row", row));
        int terms = in.readInt();
        int[] ids = new int[terms];
        for (int j = 0; j < terms; j++) ids[j] = in.readInt();
        for (int j = 0; j < terms; j++) document.add(new FeatureField("features", "t" + ids[j], in.readFloat()));
        StringBuilder text = new StringBuilder();
        for (int j = 0; j < terms; j++) {
          int frequency = in.readInt();
          for (int k = 0; k < frequency; k++) text.append("t").append(ids[j]).append(' ');
        }
        document.add(new TextField("text", text.toString(), Field.Store.NO));
        writer.addDocument(document);
      }
    }
  }

  static void write(TopDocs found, IndexReader reader, DataOutputStream out) throws IOException {
    out.writeInt(found.scoreDocs.length);
    for (ScoreDoc hit : found.scoreDocs) {
      out.writeInt(reader.storedFields().document(hit.doc).getField("row").numericValue().intValue());
    }
    for (ScoreDoc hit : found.scoreDocs) out.writeFloat(hit.score);
  }

  static DataInputStream open(Path path) throws IOException {
    return new DataInputStream(new BufferedInputStream(Files.newInputStream(path)));
  }
}
"""


class LuceneRow(NamedTuple):
    """Terms of a row."""

    terms: Rows
    weights: Vectors
    """Rank feature of each term."""
    frequencies: Rows
    """Number of times that the row's text has each term."""


class LuceneLists(NamedTuple):
    """The best rows for a query with their scores, by two indexes."""

    features: tuple[Rows, Vectors]
    """By rank features."""
    words: tuple[Rows, Vectors]
    """By Lucene's own BM25 of the text."""


_FOLDER = Path(__file__).parents[2] / "build" / "engines" / "lucene" / "pyserini"
"""Where `make test` puts the package."""


def lucene_jar() -> Path:
    """Return the jar; without one, or a compiler, the test is skipped."""
    installed = find_spec("pyserini")
    folder = Path(installed.origin).parent if installed and installed.origin else _FOLDER
    jars = sorted(folder.glob("resources/jars/*.jar"))
    if not jars:
        pytest.skip("Lucene is not installed: pip install --no-deps pyserini==1.6.0")
    if shutil.which("javac") is None or shutil.which("java") is None:
        pytest.skip("there is no Java compiler: apt-get install default-jdk-headless")
    return jars[0]


def lucene_lists(
    folder: Path,
    rows: Sequence[LuceneRow],
    queries: Sequence[tuple[Rows, Vectors]],
    *,
    k1: float,
    b: float,
    length: int,
) -> list[LuceneLists]:
    """Return the lists of all queries, each of terms and weights."""
    jar = lucene_jar()
    (folder / "Lists.java").write_text(_PROGRAM, "utf-8")
    (folder / "rows.bin").write_bytes(_packed([(row.terms, row.weights, row.frequencies) for row in rows]))
    (folder / "queries.bin").write_bytes(_packed(queries))
    classes = f"{jar}:{folder}"
    subprocess.run(["javac", "-cp", str(jar), "-d", str(folder), str(folder / "Lists.java")], check=True)
    command = ["java", "-Xmx1g", "-cp", classes, "Lists", str(folder), str(k1), str(b), str(length)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    data, place = (folder / "lists.bin").read_bytes(), 0
    lists = []
    for _ in range(2 * len(queries)):
        count = int(np.frombuffer(data, ">i4", 1, place)[0])
        found = np.frombuffer(data, ">i4", count, place + 4).astype(np.int64)
        scores = np.frombuffer(data, ">f4", count, place + 4 + 4 * count).astype(np.float32)
        lists.append((found, scores))
        place += 4 + 8 * count
    return [LuceneLists(*lists[place : place + 2]) for place in range(0, len(lists), 2)]


def _packed(items: Sequence[tuple[Rows | Vectors, ...]]) -> bytes:
    """Return numbers as Java reads them."""
    pieces = [np.array([len(items)], ">i4").tobytes()]
    for first, *others in items:
        pieces += [np.array([len(first)], ">i4").tobytes(), first.astype(">i4").tobytes()]
        pieces += [array.astype(">f4" if array.dtype.kind == "f" else ">i4").tobytes() for array in others]
    return b"".join(pieces)
