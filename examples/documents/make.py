#!/usr/bin/python3
"""Makes the documents: make.py DIR N SEED. PDFs of one to three pages, some in two versions, some broken.

Writes DIR/NAME.VERSION.pdf, and DIR/manifest.json with what is to become of each. Versions of a name differ
in size.
"""

import hashlib
import json
import pathlib
import random
import sys

WORDS = "amber basin cedar delta ember fjord grove harbour island juniper kettle lantern meadow nutmeg orchard".split()


def pdf(pages):
    """A PDF as small as it can be: each page is a list of lines, in Helvetica."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    kids = []
    for lines in pages:
        text = "BT /F1 14 Tf 20 250 Td 18 TL " + " ".join(f"({line}) Tj T*" for line in lines) + " ET"
        objects.append(f"<< /Length {len(text)} >>\nstream\n{text}\nendstream")
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 280] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {len(objects)} 0 R >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>"
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    out += "".join(f"{place:010} 00000 n \n" for place in places)
    return f"{out}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()


def broken(kind, whole):
    return [whole[: len(whole) // 8], b"A letter that was renamed.\n", b""][kind]


def main():
    folder, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    dice = random.Random(seed)
    manifest = {}
    for number in range(count):
        name = f"letter-{number:05}.pdf"
        versions = []
        for version in range(2 if number % 5 == 3 else 1):
            pages = [
                [" ".join(dice.choices(WORDS, k=4)) for _ in range(3 + version)] for _ in range(dice.randint(1, 3))
            ]
            pages[0].insert(0, f"mark{number}v{version}")
            # A comment at the end, so that no two versions have one size.
            content = pdf(pages) + b"%" * (1 + version * 997) + b"\n"
            words = sorted({word for page in pages for line in page for word in line.split()})
            if number % 10 == 7:
                content, words = broken(number // 10 % 3, content), None
            (folder / f"{name}.{version}").write_bytes(content)
            versions.append(
                {"size": len(content), "digest": hashlib.sha256(content).hexdigest()[:20], "words": words}
            )
        manifest[name] = versions
    (folder / "manifest.json").write_text(json.dumps(manifest))


main()
