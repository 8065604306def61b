"""Edits of the text of a schema: columns into tables, blocks to other places. Each edit fails unless it finds what it names, once."""
import re

class Schema:
    def __init__(self, text): self.text = text

    def swap(self, old, new):
        assert self.text.count(old) == 1, (self.text.count(old), old)
        self.text = self.text.replace(old, new)

    def cut(self, first, last):
        """Takes out what begins with `first` and ends with `last` (the first after it), and returns it."""
        assert self.text.count(first) == 1, (self.text.count(first), first)
        a = self.text.index(first); b = self.text.index(last, a) + len(last)
        out = self.text[a:b]; self.text = self.text[:a] + self.text[b:]
        return out

    def before(self, anchor, block): self.swap(anchor, block + anchor)
    def after(self, anchor, block): self.swap(anchor, anchor + block)

    def span(self, table):
        m = re.search(rf"^create (?:unlogged )?table {table} \(.*\n", self.text, re.M)
        assert m, table
        return m.end(), self.text.index("\n)", m.end()) + 1

    def entries(self, table):
        a, b = self.span(table)
        return entries(self.text[a:b])

    def put(self, table, items):
        a, b = self.span(table)
        self.text = self.text[:a] + render(items) + self.text[b:]

    def add(self, table, *columns, after=None):
        """(name, type, rest, comment); before the constraints of the table, or after a column."""
        items = self.entries(table)
        width, kinds, notes = layout(items)
        at = next((i for i, e in enumerate(items) if re.match(r"(constraint|unique|primary key|foreign key)\b", e.code)), len(items))
        if after is not None:
            (at,) = [i + 1 for i, e in enumerate(items) if e.code.split()[0] == after]
        new = []
        for name, kind, rest, *more in columns:
            assert not any(e.code.split()[0] == name for e in items), name
            kind = kind.ljust(kinds) if rest and len(name) < width and table != "relations" else f"{kind} " if rest else kind
            code = f"{name.ljust(width)}{kind}{rest}" if len(name) < width else f"{name} {kind}{rest}"
            note = more[0] if more else ""
            lead = more[1] if len(more) > 1 else ""
            new.append(Entry(lead, code.rstrip(), note, notes)); new[-1].new = True
        self.put(table, items[:at] + new + items[at:])

    def constrain(self, table, *codes):
        items = self.entries(table)
        self.put(table, items + [Entry("", c, "", 0) for c in codes])

    def column(self, table, name, old, new, note=None):
        items = self.entries(table)
        (e,) = [e for e in items if e.code.split()[0] == name]
        assert e.code.count(old) == 1, e.code
        e.code = e.code.replace(old, new).rstrip()
        if note is not None:
            e.note, e.at = note, layout(items)[2]
        self.put(table, items)

    def drop(self, table, start):
        items = self.entries(table)
        kept = [e for e in items if not e.code.startswith(start)]
        assert len(kept) == len(items) - 1, start
        self.put(table, kept)

    def settings(self, table, settings):
        a, b = self.span(table)
        assert self.text[b:b + 3] == ");\n", (table, self.text[b:b + 60])
        self.text = self.text[:b] + f") with ({settings});\n" + self.text[b + 3:]


class Entry:
    new = False
    def __init__(self, lead, code, note, at): self.lead, self.code, self.note, self.at = lead, code, note, at


def entries(body):
    """`lead`: comment lines before it. `note`: the comment at its end."""
    out, i, n = [], 0, len(body)
    lead, code, depth = "", "", 0
    line_start = 0
    while i < n:
        c = body[i]
        if body.startswith("--", i):
            j = body.index("\n", i)
            note = body[i:j]
            col = i - (body.rfind("\n", 0, i) + 1)
            if not code.strip():
                before = body[body.rfind("\n", 0, i) + 1:i]
                if before.strip() == "" :
                    lead += f"    {note}\n"
                else:
                    out[-1].note, out[-1].at = note, col
            elif depth == 0 and re.match(r"\s*$", body[j:]) :
                out.append(Entry(lead, code.strip(), note, col)); lead = code = ""
            else:
                code += note
            i = j
            continue
        if c == "'":
            j = body.index("'", i + 1)
            code += body[i:j + 1]; i = j + 1
            continue
        if c == "(": depth += 1
        if c == ")": depth -= 1
        if c == "," and depth == 0:
            out.append(Entry(lead, code.strip(), "", 0)); lead = code = ""
            i += 1
            continue
        code += c
        i += 1
    if code.strip(): out.append(Entry(lead, code.strip(), "", 0))
    return out


def layout(items):
    first = items[0].code
    m = re.match(r"(\S+\s+)(\S+\s*)", first)
    notes = [e.at for e in items if e.note]
    return len(m[1]), max(len(m[2]), 12 if "timestamptz" in str([e.code for e in items]) else len(m[2])), (max(set(notes), key=notes.count) if notes else 0)


def render(items):
    out = ""
    for i, e in enumerate(items):
        line = "    " + e.code + ("" if i == len(items) - 1 else ",")
        if e.note:
            last = line.rsplit("\n", 1)[-1]
            pad = max(e.at - len(last), 2 if len(last) + 2 > e.at else 1)
            if e.new and len(last) + pad + len(e.note) > 140: pad = 2
            line += " " * pad + e.note
        out += e.lead + line + "\n"
    return out
