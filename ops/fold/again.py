"""Takes the list of migrations of a commit (the stepping stone) into the fold. Run in the worktree of the branch, after it was rebased:

    .venv/bin/python ops/fold/again.py STONE        (a commit of main that has landed, in 9 characters)

It writes: adapters/postgres/migrations/0001_release_0_2.sql (and removes all others there), effects.toml, schema/replaceable.sql (that of the
stone, one edition higher), editions.txt, former_migrations_0_1.txt, the constants in migrating/schema.py, and the stone's name in the documents.
Then it compares, on the embedded server and on the oldest.
"""
import hashlib, os, re, subprocess, sys
from pathlib import Path
NOTES = Path(__file__).parent
W = Path.cwd()
stone = sys.argv[1]
git = lambda *a: subprocess.run(["git", *a], check=True, capture_output=True).stdout
def sub(file, pattern, new, count=1):
    p = W / file; t = p.read_text(); t2, n = re.subn(pattern, new, t, flags=re.M)
    assert n >= count, (file, pattern); p.write_text(t2)

old = re.search(r'^STEPPING_STONE: Final = "(\w+)"', (W / "adapters/postgres/migrating/schema.py").read_text(), re.M)[1]
# What the stone has.
former = NOTES / f"former-{stone}"; former.mkdir(exist_ok=True)
for f in former.iterdir(): f.unlink()
for name in git("ls-tree", "--name-only", stone, "adapters/postgres/migrations/").decode().split():
    (former / Path(name).name).write_bytes(git("show", f"{stone}:{name}"))
replaceable = NOTES / f"former-replaceable-{stone}.sql"
replaceable.write_bytes(git("show", f"{stone}:adapters/postgres/schema/replaceable.sql"))
# The lists.
lines = [f"{f.stem} {hashlib.sha256(f.read_bytes()).hexdigest()}" for f in sorted(former.glob("*.sql"))]
tests = W / "tests/adapters/postgres/migrating"
(tests / "former_migrations_0_1.txt").write_text("\n".join(lines) + "\n")
S = "adapters/postgres/migrating/schema.py"
sub(S, r'^STEPPING_STONE: Final = .*', f'STEPPING_STONE: Final = "{stone}"')
sub(S, r'^_FIRST: Final = .*', f'_FIRST: Final = "{lines[0]}"')
sub(S, r'^_NUMBER: Final = .*', f"_NUMBER: Final = {len(lines)}")
sub(S, r'^_DIGEST: Final = .*', '_DIGEST: Final = "%s"' % hashlib.sha256("\n".join(lines).encode()).hexdigest())
for doc in ("docs/operations/upgrades-and-keys.md", "CHANGELOG.md"):
    if old != stone: sub(doc, re.escape(old), stone)
# The file.
env = {**os.environ, "FOLD_FORMER": str(former), "FOLD_REPLACEABLE": str(replaceable)}
made = subprocess.run([sys.executable, str(NOTES / "fold.py")], env=env, check=True, stdout=subprocess.PIPE).stdout
folder = W / "adapters/postgres/migrations"
for f in folder.glob("*.sql"): f.unlink()
(folder / "0001_release_0_2.sql").write_bytes(made)
(folder / "effects.toml").write_text((former / "effects.toml").read_text().splitlines()[0] + "\n")
# The edition.
text = replaceable.read_text()
number = int(re.match(r"-- edition (\d+)\n", text)[1]) + 1
text = re.sub(r"\A.*", f"-- edition {number}", text, count=1)
(W / "adapters/postgres/schema/replaceable.sql").write_text(text)
editions = git("show", f"{stone}:tests/adapters/postgres/migrating/editions.txt").decode().rstrip("\n")
(tests / "editions.txt").write_text(f"{editions}\n{number} {hashlib.sha256(text.encode()).hexdigest()}\n")
print(len(lines), "migrations; edition", number)
if "--no-compare" not in sys.argv:
    for more in ([], ["--oldest"]):
        done = subprocess.run([sys.executable, str(NOTES / "compare.py"), str(former), str(replaceable), str(folder), str(W / "adapters/postgres/schema/replaceable.sql"), *more])
        if done.returncode: sys.exit("not equal: see above")
