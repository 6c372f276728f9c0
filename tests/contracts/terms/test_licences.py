"""Licences as people, catalogs and graphs write them, and their SPDX ids."""

import pytest
from hypothesis import given, strategies as st
from packaging.licenses import canonicalize_license_expression
from packaging.licenses._spdx import LICENSES

from retrieve_cli.contracts.terms.licences import spdx_of


@pytest.mark.parametrize(
    ("text", "spdx"),
    [
        ("https://spdx.org/licenses/MIT.html", "MIT"),
        ("http://spdx.org/licenses/mit", "MIT"),
        ("http://www.opensource.org/licenses/mit-license.php", "MIT"),
        ("https://opensource.org/license/apache-2-0/", "Apache-2.0"),
        ("http://www.apache.org/licenses/LICENSE-2.0.txt", "Apache-2.0"),
        ("https://www.gnu.org/licenses/gpl-3.0.en.html", "GPL-3.0"),
        ("https://creativecommons.org/licenses/by-nc-sa/4.0/legalcode", "CC-BY-NC-SA-4.0"),
        ("http://creativecommons.org/licenses/by/3.0/de/deed.en", "CC-BY-3.0-DE"),
        ("https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
        ("spdx:BSD-3-Clause", "BSD-3-Clause"),
        ("The MIT License", "MIT"),
        ("MIT License (MIT)", "MIT"),
        ("License :: OSI Approved :: Apache Software License", None),
        ("License :: OSI Approved :: MIT License", "MIT"),
        ("Apache License, Version 2.0", "Apache-2.0"),
        ("Apache v2", "Apache-2.0"),
        ('BSD 3-Clause "New" or "Revised" License', "BSD-3-Clause"),
        ("Simplified BSD", "BSD-2-Clause"),
        ("GNU General Public License v3.0", "GPL-3.0"),
        ("GPLv3", "GPL-3.0"),
        ("GNU GPL Version 2 or later", "GPL-2.0-or-later"),
        ("gpl-3.0-OR-later", "GPL-3.0-or-later"),
        ("mit or apache-2.0", "MIT OR Apache-2.0"),
        ("(MIT OR Apache-2.0) and GPL-2.0-only with classpath-exception-2.0",
         "(MIT OR Apache-2.0) AND GPL-2.0-only WITH Classpath-exception-2.0"),
    ],
)  # fmt: skip
def test_a_licence_in_any_spelling_has_its_spdx_id(text: str, spdx: str | None) -> None:
    assert spdx_of(text) == spdx


@pytest.mark.parametrize(
    "text",
    ["BSD", "GPL", "LGPL", "GNU", "Apache", "CC-BY", "bsd license", "http://opensource.org/licenses/bsd-license.php",
     "proprietary", "Other", "Not licensed", "public domain", "", " ", "MIT AND", "(MIT OR ISC", "MIT OR ISC)",
     "OR MIT", "MIT MIT GPL", "MIT WITH MIT",
     "https://github.com/a/b/blob/master/LICENSE", "https://spdx.org/licenses/", "MIT " * 200,
     "BSD and LGPL", "GPLv2, and Apache 2.0"],
)  # fmt: skip
def test_what_may_mean_several_licences_or_none_is_not_guessed(text: str) -> None:
    assert spdx_of(text) is None


def test_every_id_of_the_list_is_known_and_is_its_own() -> None:
    names = [entry["id"] for entry in LICENSES.values()]
    assert [spdx_of(name.lower()) for name in names] == names
    assert [spdx_of(f"https://spdx.org/licenses/{name}.html") for name in names] == names


ids = st.sampled_from(sorted(each["id"] for each in LICENSES.values() if not each["deprecated"]))
expressions = st.recursive(
    ids, lambda inner: st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda it: f"({' '.join(it)})")
)


@given(expressions.filter(lambda text: len(text) < 300))
def test_an_expression_reads_as_the_library_of_pypi_reads_it(text: str) -> None:
    assert spdx_of(text.lower()) == str(canonicalize_license_expression(text.lower()))


@given(st.text(max_size=60))
def test_no_text_is_an_error_and_an_id_stands_for_itself(text: str) -> None:
    found = spdx_of(text)
    assert found is None or spdx_of(found) == found
