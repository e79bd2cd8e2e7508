#!/usr/bin/env python3
"""inventory.py GDRTUNE [NVIDIA_SMI]: what `gdrtune topo --inventory` says of this machine's GPUs against nvidia-smi's own words

Prints a table: GPU, fact, gdrtune's value, nvidia-smi's value, and whether they are the same. gdrtune reads nvidia-smi's log, and /proc and
/sys; the other column comes from questions of its own, one column each (`--query-gpu`), the memory section of `nvidia-smi -q`, its
topology table and its banner. What nvidia-smi does not tell (`[N/A]`) gdrtune must not tell either. A link's speed changes while one
looks (an idle GPU slows it down), so nvidia-smi is asked before and after, and either will do; where the kernel shows no link at all (a
container) the row says `hidden`. Exit 0 where nothing differs, 1 where something does, 2 where there is no GPU or something cannot be run.
"""
import json
import re
import subprocess
import sys

# Megatransfers per second of a lane by PCIe generation.
GENERATIONS = {"1": 2500, "2": 5000, "3": 8000, "4": 16000, "5": 32000, "6": 64000}
WIDTH = 44


def ask(command):
    """Standard output, or nothing where the program fails: an older one does not know every question."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, timeout=60)
    return done.stdout if done.returncode == 0 else ""


def known(text):
    """A value of nvidia-smi's, or None.

    >>> known(" [N/A]"), known("Enabled"), known("[Not Supported]"), known("")
    (None, 'Enabled', None, None)
    """
    text = text.strip()
    return None if not text or text.strip("[]").lower() in ("n/a", "not supported", "unknown error") else text


class Smi:
    """nvidia-smi, by questions that gdrtune does not ask."""

    def __init__(self, program):
        self.program = program
        self.count = len([line for line in ask([program, "-L"]).splitlines() if line.startswith("GPU ")])

    def column(self, *names):
        """The first of these columns that this version knows, a value for each GPU."""
        for name in names:
            lines = ask([self.program, f"--query-gpu={name}", "--format=csv,noheader,nounits"]).splitlines()
            if len(lines) == self.count:
                return [known(line) for line in lines]
        return [None] * self.count

    def bar1(self):
        """MiB, from the memory section of the text log.

        The section of each GPU has several totals; BAR1's follows its heading.
        """
        text = ask([self.program, "-q", "-d", "MEMORY"])
        found = re.findall(r"BAR1 Memory Usage\s*\n\s*Total\s*:\s*(\S+)", text)
        return [known(value) for value in found] if len(found) == self.count else [None] * self.count

    def cuda(self):
        """From the banner."""
        found = re.search(r"CUDA (?:UMD )?Version\s*:\s*([0-9.]+)", ask([self.program]))
        return found.group(1) if found else None

    def numa(self):
        """The NUMA nodes in the topology table; its columns are apart by tabs."""
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in ask([self.program, "topo", "-m"]).splitlines()]
        header = next((line.split("\t") for line in lines if "NUMA Affinity" in line), None)
        if header is None:
            return [None] * self.count
        at = [word.strip() for word in header].index("NUMA Affinity")
        rows = {row[0].strip(): row for row in (line.split("\t") for line in lines) if row[0].startswith("GPU")}
        return [known((rows.get(f"GPU{gpu}", []) + [""] * (at + 1))[at]) for gpu in range(self.count)]

    def links(self):
        """(megatransfers, lanes) now, for each GPU."""
        speeds = self.column("pcie.link.gen.gpucurrent", "pcie.link.gen.current")
        return list(zip(map(GENERATIONS.get, speeds), map(number, self.column("pcie.link.width.current"))))


def number(text):
    return None if text is None else int(float(text))


def mode(on):
    return {True: "Enabled", False: "Disabled", None: None}[on]


def mib(size):
    return None if size is None else size // (1 << 20)


def address(text):
    """As the kernel writes it.

    >>> address("00000000:9A:00.0")
    '0000:9a:00.0'
    """
    if text is None:
        return None
    domain, rest = text.split(":", 1)
    return f"{int(domain, 16):04x}:{rest.lower()}"


def lanes(link, which):
    lanes_of = (link or {}).get(which)
    return (lanes_of["mtps"], lanes_of["count"]) if lanes_of else None


def most(smi):
    """(megatransfers, lanes) at most, for each GPU. Before driver 525 the slot's limit is in it."""
    speeds = smi.column("pcie.link.gen.gpumax", "pcie.link.gen.max")
    return list(zip(map(GENERATIONS.get, speeds), map(number, smi.column("pcie.link.width.max"))))


def told(pair):
    return None if pair is None or None in pair else pair


def facts(inventory, smi, before):
    """(GPU, fact, ours, theirs), theirs a list of what will do."""
    gpus, system = inventory["gpu_details"], inventory["system"]
    places = {gpu["place"]["address"]: gpu["place"] for gpu in inventory["topology"]["gpus"]}
    yield "", "GPUs", len(gpus), [smi.count]
    yield "", "driver", inventory["driver"] or None, sorted({value for value in smi.column("driver_version") if value})
    yield "", "CUDA", system["cuda"] or None, [smi.cuda()]
    columns = {
        "model": smi.column("name"),
        "uuid": smi.column("uuid"),
        "address": [address(text) for text in smi.column("pci.bus_id")],
        "memory MiB": [number(text) for text in smi.column("memory.total")],
        "BAR1 MiB": [number(text) for text in smi.bar1()],
        "compute capability": smi.column("compute_cap"),
        "compute mode": smi.column("compute_mode"),
        "persistence": smi.column("persistence_mode"),
        "ECC": smi.column("ecc.mode.current"),
        "MIG": smi.column("mig.mode.current"),
        "SM clock most": [number(text) for text in smi.column("clocks.max.sm")],
        "memory clock most": [number(text) for text in smi.column("clocks.max.memory")],
        "NUMA": smi.numa(),
    }
    best, after = most(smi), smi.links()
    for at, gpu in enumerate(gpus[: smi.count]):
        place = places.get(gpu["address"], {})
        capability, clocks = gpu["compute_capability"], gpu["clocks"]
        ours = {
            "model": gpu["model"] or None,
            "uuid": gpu["uuid"] or None,
            "address": gpu["address"] or None,
            "memory MiB": mib(gpu["memory_bytes"]),
            "BAR1 MiB": mib(gpu["bar1_bytes"]),
            "compute capability": None if capability is None else f"{capability[0]}.{capability[1]}",
            "compute mode": gpu["compute_mode"] or None,
            "persistence": mode(gpu["persistence"]),
            "ECC": mode(gpu["ecc"]),
            "MIG": mode(gpu["mig"]),
            "SM clock most": clocks["sm_most"],
            "memory clock most": clocks["memory_most"],
            "NUMA": None if place.get("numa") is None else str(place["numa"]),
        }
        for fact, value in ours.items():
            yield f"GPU{at}", fact, value, [columns[fact][at]]
        now = [told(before[at]), told(after[at])]
        for source, link in (("driver", gpu["link"]), ("kernel", place.get("link"))):
            yield f"GPU{at}", f"link now ({source})", lanes(link, "current"), now
            yield f"GPU{at}", f"link most ({source})", lanes(link, "most"), [told(best[at])]


def verdict(fact, ours, theirs):
    """Whether both say the same.

    >>> verdict("ECC", "Enabled", ["Enabled"]), verdict("ECC", None, ["Enabled"]), verdict("MIG", None, [None])
    ('same', 'DIFFERENT', 'same')
    >>> verdict("link now (kernel)", None, [(2500, 16), (32000, 16)]), verdict("link now (driver)", (2500, 16), [(2500, 16), (32000, 16)])
    ('hidden', 'same')
    >>> verdict("NUMA", "0", [None])
    'more'
    """
    if ours in theirs or (ours is None and not theirs):
        return "same"
    # The kernel's files may be hidden, and may tell more than nvidia-smi: a node of which all CPUs are taken has no affinity.
    if ours is None and ("kernel" in fact or fact == "NUMA"):
        return "hidden"
    if fact == "NUMA" and theirs == [None]:
        return "more"
    return "DIFFERENT"


def shown(value):
    if value is None:
        return "?"
    if isinstance(value, tuple):
        return f"{value[0] / 1000:g} GT/s x{value[1]}"
    return str(value)


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__.splitlines()[0], file=sys.stderr)
        return 2
    gdrtune, program = arguments[0], (arguments + ["nvidia-smi"])[1]
    try:
        smi = Smi(program)
        before = smi.links()
        answer = subprocess.run([gdrtune, "topo", "--inventory", "--format", "json"], stdout=subprocess.PIPE, text=True, check=True)
        inventory = json.loads(answer.stdout)["nodes"][0]["inventory"]
        told_facts = list(facts(inventory, smi, before)) if smi.count else []
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        print(f"inventory.py: {error}", file=sys.stderr)
        return 2
    if smi.count == 0:
        print("inventory.py: nvidia-smi -L names no GPU", file=sys.stderr)
        return 2
    rows = [(gpu, fact, ours, theirs, verdict(fact, ours, theirs)) for gpu, fact, ours, theirs in told_facts]
    print(f"{'GPU':6}{'fact':22}{'gdrtune':{WIDTH}}{'nvidia-smi':{WIDTH}}")
    for gpu, fact, ours, theirs, same in rows:
        words = " or ".join(dict.fromkeys(map(shown, theirs))) or "?"
        print(f"{gpu:6}{fact:22}{shown(ours):{WIDTH}}{words:{WIDTH}}{same}")
    for line in inventory["unreadable"]:
        print(f"not readable: {line}")
    different = sum(row[-1] == "DIFFERENT" for row in rows)
    print(f"{len(rows)} facts, {different} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
