"""Prints what became of each module."""

import zoo


def pytest_terminal_summary(terminalreporter):
    """The table of outcomes, in Markdown."""
    if zoo.OUTCOMES:
        terminalreporter.section("the zoo")
        terminalreporter.write_line(zoo.table())
