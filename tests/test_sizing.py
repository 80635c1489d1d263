"""The table of docs/cluster.md is the one that the command prints."""

from benchmarks.sizing import PAGE, placed, table


def test_the_page_has_what_the_command_prints() -> None:
    page = PAGE.read_text()
    assert placed(page, table()) == page
