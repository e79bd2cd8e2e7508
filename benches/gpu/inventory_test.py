"""Tests of inventory.py and of the examples in it: python3 benches/gpu/inventory_test.py"""

import contextlib
import doctest
import io
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import inventory  # noqa: E402

SMI = r"""#!/bin/sh
case "$*" in
-L) echo 'GPU 0: NVIDIA H200 (UUID: GPU-a)';;
'') echo '| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4  |';;
'topo -m') printf '\t\033[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\nGPU0\t X \t0-7\t1\t\tN/A\n';;
'-q -d MEMORY') printf 'GPU 00000000:9A:00.0\n    FB Memory Usage\n        Total : 143771 MiB\n    BAR1 Memory Usage\n        Total : 262144 MiB\n';;
*=name\ *) echo NVIDIA H200;; *=uuid\ *) echo GPU-a;; *=driver_version\ *) echo 550.54.15;;
*=pci.bus_id\ *) echo 00000000:9A:00.0;; *=memory.total\ *) echo 143771;; *=compute_cap\ *) echo 9.0;;
*=compute_mode\ *) echo Default;; *=persistence_mode\ *) echo Enabled;; *=ecc.mode.current\ *) echo ECC_MODE;;
*=mig.mode.current\ *) echo '[N/A]';; *=clocks.max.sm\ *) echo 1980;; *=clocks.max.memory\ *) echo 3201;;
*=pcie.link.gen.current\ *) echo 1;; *=pcie.link.width.*) echo 16;; *=pcie.link.gen.gpumax\ *) echo 5;;
*) echo 'Field is not a valid field to query.' >&2; exit 2;;
esac
"""


def answer():
    link = {"current": {"mtps": 2500, "count": 16}, "most": {"mtps": 32000, "count": 16}}
    gpu = {
        "address": "0000:9a:00.0", "uuid": "GPU-a", "model": "NVIDIA H200", "link": link,
        "memory_bytes": 143771 << 20, "bar1_bytes": 262144 << 20, "compute_capability": [9, 0], "compute_mode": "Default",
        "persistence": True, "ecc": True, "mig": None, "clocks": {"sm_most": 1980, "memory_most": 3201},
    }
    place = {"address": "0000:9a:00.0", "numa": 1, "link": {"current": None, "most": None}}
    found = {
        "driver": "550.54.15", "system": {"cuda": "12.4"}, "gpu_details": [gpu],
        "topology": {"gpus": [{"place": place}]}, "unreadable": ["a: b"],
    }
    return {"nodes": [{"inventory": found}]}


def run(ecc="Enabled", change=lambda found: None, smi=SMI):
    """Exit code and output."""
    document = answer()
    change(document["nodes"][0]["inventory"])
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, text in (("gdrtune", f"#!/bin/sh\ncat <<'X'\n{json.dumps(document)}\nX\n"), ("smi", smi.replace("ECC_MODE", ecc))):
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
            paths.append(path)
        said, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors):
            code = inventory.main(paths)
    return code, said.getvalue() + errors.getvalue()


class Table(unittest.TestCase):
    def test_what_is_the_same(self):
        code, text = run()
        self.assertEqual(code, 0, text)
        self.assertIn("20 facts, 0 different\n", text)
        self.assertRegex(text, r"GPU0 +link now \(driver\) +2.5 GT/s x16 +2.5 GT/s x16 +same")
        self.assertRegex(text, r"GPU0 +link most \(kernel\) +\? +32 GT/s x16 +hidden")
        self.assertRegex(text, r"GPU0 +MIG +\? +\? +same")
        self.assertIn("not readable: a: b", text)

    def test_what_differs(self):
        code, text = run(ecc="Disabled")
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"ECC +Enabled +Disabled +DIFFERENT")

        def nothing(found):
            found["system"]["cuda"] = ""
            found["gpu_details"][0]["bar1_bytes"] = None

        code, text = run(change=nothing)
        self.assertEqual((code, text.count("DIFFERENT")), (1, 2), text)

    def test_what_cannot_be_asked(self):
        code, text = run(smi="#!/bin/sh\nexit 9\n")
        self.assertEqual(code, 2)
        self.assertIn("names no GPU", text)
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(inventory.main([]), 2)
            self.assertEqual(inventory.main(["/nowhere", "/nowhere"]), 2)


def load_tests(_loader, tests, _pattern):
    tests.addTests(doctest.DocTestSuite(inventory))
    return tests


if __name__ == "__main__":
    unittest.main()
