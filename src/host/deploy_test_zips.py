# Creates the zips of deploy_test.cc in the given folder: valid and invalid ones.
import os
import struct
import sys
import warnings
import zipfile
import zlib

warnings.simplefilter("ignore")
os.chdir(sys.argv[1])


def entry(name, mode=0o100644, system=3, method=zipfile.ZIP_DEFLATED):
    info = zipfile.ZipInfo(name)
    info.create_system = system
    info.external_attr = mode << 16 or 0x20  # never 0: writestr would set its own mode
    info.compress_type = method
    return info


def make(name, *entries):
    with zipfile.ZipFile(name + ".zip", "w", zipfile.ZIP_DEFLATED) as out:
        for info, data in entries:
            if isinstance(info, str):
                info = entry(info)
            out.writestr(info, data)
    return name + ".zip"


def patch(path, old, new, count=-1):
    data = open(path, "rb").read()
    assert old in data
    open(path, "wb").write(data.replace(old, new, count))


RUN = ("run.sh", "echo new")

make("good", RUN, ("lib/deep/a.py", "print(1)"), ("pair.txt", "new"))
make("versions_1", ("run.sh", "1" * 5000), ("other.txt", "1" * 5000))
make("versions_2", ("run.sh", "2" * 5000), ("other.txt", "2" * 5000))
make("nested", ("app/run.sh", "x"), ("app/lib/a.txt", "y"), (entry("app/", 0o40755), ""))
make("folders", (entry("empty/", 0o40700), ""), (entry("lib/", 0o40755), ""), RUN, ("lib/a", "b"))
make("no_modes", (entry("run.sh", 0, 0), "x"), (entry("Run.PY", 0, 0), "x"),
     (entry("lib/run.sh", 0, 0), "x"), (entry("tool.sh", 0, 0), "x"))
make("modes", (entry("run.sh", 0o104777), "x"), (entry("tool", 0o100600), "x"),
     (entry("secret", 0o100001), "x"))
make("stored", (entry("run.sh", method=zipfile.ZIP_STORED), "echo stored"),
     (entry("empty", method=zipfile.ZIP_STORED), ""))
make("names", RUN, ("\u00fcber/\u65e5\u672c.txt", "x"), ("with space", "x"), (".env", "x"))
with zipfile.ZipFile("comment.zip", "w") as out:
    out.writestr("run.sh", "x")
    out.comment = b"c" * 1000
with zipfile.ZipFile("streamed.zip", "w", zipfile.ZIP_DEFLATED) as out:  # zip64, data descriptors
    class Pipe:
        def __init__(self, to): self.to = to
        def write(self, data): return self.to.write(data)
        def flush(self): pass
with open("streamed.zip", "wb") as to:
    with zipfile.ZipFile(Pipe(to), "w", zipfile.ZIP_DEFLATED) as out:
        with out.open("run.sh", "w", force_zip64=True) as file:
            file.write(b"echo streamed")
make("macos", ("report/run.sh", "x"), ("report/lib/a.txt", "y"), ("report/.DS_Store", "z"),
     (".DS_Store", "z"), (entry("__MACOSX/", 0o40755), ""), ("__MACOSX/report/._run.sh", "z"))
make("not_macos", RUN, ("lib/__MACOSX/a", "x"), ("__MACOSX.txt", "x"), ("a.DS_Store", "x"))
make("backslashes", RUN, (entry("lib!a.py", 0, 0), "x"))
patch("backslashes.zip", b"lib!a.py", b"lib\\a.py")

# -- bad: names
make("up", RUN, ("../outside", "x"))
make("up_inside", RUN, ("lib/../../outside", "x"))
make("up_end", RUN, ("lib/..", "x"))
make("absolute", RUN, ("/tmp/outside", "x"))
make("dot", RUN, ("./a", "x"))
make("empty_part", RUN, ("a//b", "x"))
make("only_slash", RUN, ("/", ""))
patch(make("backslash", RUN, ("..!outside", "x")), b"..!outside", b"..\\outside")
make("backslash_and_slash", RUN, ("lib/a!b", "x"))
patch("backslash_and_slash.zip", b"lib/a!b", b"lib/a\\b")
# A second name in UTF-8, as Info-ZIP writes it: readers use it instead of the first.
info = entry("second_name")
second = b"../outside"
info.extra = struct.pack("<HHBI", 0x7075, 5 + len(second), 1, zlib.crc32(b"second_name")) + second
make("second_name", RUN, (info, "x"))
make("litter_up", RUN, ("__MACOSX/../../outside", "x"))
make("litter_link", RUN, (entry("__MACOSX/a", 0o120777), "/etc/passwd"))
patch(make("no_utf8", RUN, ("\u00fc", "x")), "\u00fc".encode(), b"\xff\xff")
patch(make("nul", RUN, ("a.sh!txt", "x")), b"a.sh!txt", b"a.sh\0txt")
make("control", RUN, ("a\nb", "x"))
make("long", RUN, ("d/" * 600 + "x", "x"))
make("long_name", RUN, ("n" * 256, "x"))
make("deep", RUN, ("d/" * 100 + "x", "x"))
make("twice", RUN, RUN)
make("file_and_folder", RUN, ("a", "x"), ("a/b", "x"))
make("folder_and_file", RUN, ("a/b", "x"), ("a", "x"))
make("nothing_to_run", ("readme.md", "x"))
make("empty")

# -- bad: kinds
make("link", RUN, (entry("link", 0o120777), "/etc/passwd"))
make("link_of_another_system", RUN, (entry("link", 0o120777, 0), "/etc/passwd"))
make("link_and_file", RUN, (entry("lib", 0o120777), "/tmp"), ("lib/a", "x"))
make("device", RUN, (entry("null", 0o020666), ""))
make("pipe", RUN, (entry("pipe", 0o010666), ""))
make("folder_by_mode", RUN, (entry("lib", 0o40755), ""))
make("folder_with_content", RUN, (entry("lib/", 0o40755), "x"))
make("bzip2", (entry("run.sh", method=zipfile.ZIP_BZIP2), "x" * 100))

data = bytearray(open(make("encrypted", RUN), "rb").read())
data[6] |= 1
data[data.index(b"PK\x01\x02") + 8] |= 1
open("encrypted.zip", "wb").write(data)

# -- bad: sizes
with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
    out.writestr("run.sh", "x")
    with out.open("zeros", "w") as file:
        for _ in range(256):
            file.write(bytes(1 << 20))
with zipfile.ZipFile("many.zip", "w") as out:
    out.writestr("run.sh", "x")
    for i in range(20000):
        out.writestr("f%d" % i, "")
# One file, and a central directory that lists it half a million times.
data = open(make("records", RUN), "rb").read()
first, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
open("records.zip", "wb").write(data[:first] + data[first:end] * 500001 + data[end:end + 12] +
                                struct.pack("<IIH", (end - first) * 500001, first, 0))
# The central directory says 10 bytes; the file has 20 MiB.
path = make("lies", RUN, ("big", bytes(20 << 20)))
patch(path, struct.pack("<I", 20 << 20), struct.pack("<I", 10))
# Two entries of the central directory point to the same packed bytes.
data = bytearray(open(make("overlap", ("run.sh", os.urandom(5000)), ("run.sx", "")), "rb").read())
first = data.index(b"PK\x01\x02")
second = data.index(b"PK\x01\x02", first + 1)
data[second:second + 46] = data[first:first + 46]
data[second + 46:second + 52] = b"run.sh"
open("overlap.zip", "wb").write(data)

# -- bad: damaged
good = open("good.zip", "rb").read()
open("cut.zip", "wb").write(good[:-30])
open("trailing.zip", "wb").write(good + b"x")
open("before.zip", "wb").write(b"x" * 10 + good)
open("text.zip", "wb").write(b"#!/bin/sh\necho no zip at all, whatever its name says\n")
open("nothing.zip", "wb").write(b"")
bent = bytearray(good)
bent[good.index(b"run.sh") + 6] ^= 0xff  # the first packed byte
open("bent.zip", "wb").write(bent)
patch(make("checksum", (entry("run.sh", method=zipfile.ZIP_STORED), "echo good")),
      b"echo good", b"echo evil")
patch(make("two_names", ("run.sh", "x"), ("a.txt", "y")), b"a.txt", b"../ab", 1)

# -- odd: readers disagree about them
path = make("two_names_too", ("run.sh", "x"), ("a.txt", "y"))
data = open(path, "rb").read()
at = data.rindex(b"a.txt")
open(path, "wb").write(data[:at] + b"../ab" + data[at + 5:])
with zipfile.ZipFile("two_ends.zip", "w") as out:
    out.writestr("run.sh", "x")
    out.comment = b"PK\x05\x06" + b"c" * 100
with zipfile.ZipFile("long_comment.zip", "w") as out:
    out.writestr("run.sh", "x")
    out.comment = b"c" * 0xffff
# A file between the others that is not in the central directory.
data = open(make("gap", RUN, ("../outside", "x")), "rb").read()
first = data.index(b"PK\x01\x02")
second = data.index(b"PK\x01\x02", first + 1)
end = data.index(b"PK\x05\x06")
open("gap.zip", "wb").write(data[:second] + data[end:end + 8] + struct.pack(
    "<HHIIH", 1, 1, second - first, first, 0))
