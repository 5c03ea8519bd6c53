"""The programs of the README run as they stand there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
PROGRAMS = re.findall(r"^## (.*?)$|^```python\n(.*?)^```", "## Start\n" + README.read_text(), re.DOTALL | re.MULTILINE)


def programs():
    title = ""
    for heading, program in PROGRAMS:
        title = heading or title
        if program:
            yield pytest.param(program, id=title)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", list(programs()))
def test_program(program):
    exec(compile(program, str(README), "exec"), {"__name__": "__main__"})
