"""Compares every number of a page of launch report with the JSON document of the same run or sweep.

report_numbers.py PAGE DOCUMENT prints how many there are, and fails where one differs.
"""
import html.parser
import json
import sys


class Numbers(html.parser.HTMLParser):
    """The numbers of a page: their places in the document, and their values."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        if tag == "data":
            attrs = dict(attrs)
            self.found.append((attrs["data-at"], float(attrs["value"])))


def at(doc, path):
    """The number at a place: keys and indices joined by dots, * for the sum over a list."""
    if not path:
        return float(doc)
    if isinstance(doc, list):
        head, _, rest = path.partition(".")
        return sum(at(e, rest) for e in doc) if head == "*" else at(doc[int(head)], rest)
    for key, value in doc.items():  # a key may have dots
        if (path + ".").startswith(key + "."):
            return at(value, path[len(key) + 1:])
    raise KeyError(path)


def main(page, document):
    numbers = Numbers()
    with open(page, encoding="utf-8") as f:
        text = f.read()
    numbers.feed(text)
    with open(document, encoding="utf-8") as f:
        doc = json.load(f)
    wrong = [(p, v, at(doc, p)) for p, v in numbers.found if at(doc, p) != v]
    size = len(text.encode())
    print(f"  the page has {len(numbers.found)} numbers and {size} bytes")
    if wrong or len(numbers.found) < 20 or size >= 2_000_000:
        sys.exit(f"wrong: {wrong}")


if __name__ == "__main__":
    main(*sys.argv[1:])
