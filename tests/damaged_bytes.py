"""Whole files with coded_damage that any copy or download can do."""

from hypothesis import strategies as st


def damaged(data: bytes) -> st.SearchStrategy[bytes]:
    """`data` with one byte changed, or cut short."""
    places = st.integers(0, len(data) - 1)
    changed = st.builds(
        lambda place, bits: data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :],
        places,
        st.integers(1, 255),
    )
    return changed | places.map(lambda place: data[:place])
