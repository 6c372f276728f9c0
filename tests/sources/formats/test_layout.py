"""Places of stretches of a text: pages, labels, anchors, kinds, boxes."""

from hypothesis import given, strategies as st

from retrieve_cli.contracts.layout import Block, DocumentPage, Layout, Words


def words(*entries: tuple[int, int, int, float, float]) -> Words:
    """Words of 20 by 10 points: start, end, page, left, top."""
    made = Words()
    for start, end, page, x, y in entries:
        made.add(start, end, page, x, y, x + 20, y + 10)
    return made


PAGES = [
    DocumentPage(1, "i", 100, 100, 0, 10),
    DocumentPage(2, "", 100, 100, 12, 12, image_only=True),
    DocumentPage(3, "1", 100, 100, 12, 30),
]


def test_a_stretch_has_the_pages_of_its_first_and_last_character() -> None:
    place = Layout([], PAGES).place(5, 20)
    assert (place.page, place.page_end, place.page_label, place.page_label_end) == (1, 3, "i", "1")


def test_the_anchor_is_the_last_one_at_or_before_the_start() -> None:
    blocks = [Block(0, 4, "heading", 1, "a"), Block(5, 9, "paragraph"), Block(10, 14, "heading", 2, "b")]
    layout = Layout(blocks)
    assert [layout.place(start, start + 1).anchor for start in (0, 9, 10)] == ["a", "a", "b"]
    assert Layout(blocks[1:]).place(6, 7).anchor is None


def test_words_of_a_line_share_a_box_and_lines_and_columns_have_their_own() -> None:
    boxes = words((0, 3, 1, 10, 10), (4, 7, 1, 35, 11), (8, 11, 1, 10, 24), (12, 15, 1, 300, 24), (16, 19, 2, 10, 24))
    lines = [(1, 10, 10, 55, 21), (1, 10, 24, 30, 34), (1, 300, 24, 320, 34), (2, 10, 24, 30, 34)]
    assert [tuple(box) for box in boxes.boxes(0, 19)] == lines


def test_only_words_of_the_stretch_have_boxes() -> None:
    layout = Layout([], (), words((0, 3, 1, 10, 10), (4, 7, 1, 35, 10), (8, 11, 1, 60, 10)))
    assert [tuple(box) for box in layout.place(4, 8).boxes] == [(1, 35, 10, 55, 20)]
    assert [tuple(box) for box in layout.place(5, 6).boxes] == [(1, 35, 10, 55, 20)]
    assert layout.place(7, 8).boxes == ()


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=30), st.data())
def test_each_word_of_any_stretch_lies_in_one_of_its_boxes(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    made, start = Words(), 0
    for length, gap in sizes:
        x, y = data.draw(st.floats(0, 500, width=32)), data.draw(st.floats(0, 700, width=32))
        made.add(start, start + length, 1 + start // 40, x, y, x + 5 * length, y + 10)
        start += length + gap
    first = data.draw(st.integers(0, max(start, 1)))
    last = data.draw(st.integers(first, max(start, first)))
    boxes = made.boxes(first, last)
    for begin, end, box in made:
        if begin < last and end > first:
            assert any(
                own.page == box.page and own.x0 <= box.x0 and own.y0 <= box.y0 and own.x1 >= box.x1 and own.y1 >= box.y1
                for own in boxes
            )
