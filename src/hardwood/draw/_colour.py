"""The colours of pictures and pages, for light and dark themes.

Each paint is written twice: as attributes, which every SVG viewer understands and which are the light theme, and as a
class that a browser's dark theme overrides.
"""

from __future__ import annotations

# Told apart also with the common forms of colour blindness (after Okabe and Ito), and legible on light and dark.
_CLASSES = (
    "#3b82c4", "#e08a1e", "#2a9d74", "#c4568f", "#8a6fd1", "#b8a10f", "#56b4c9", "#d1553b", "#7a8b2f", "#8c8c8c",
)  # fmt: skip
_RAMP_LOW, _RAMP_HIGH = (0xD9, 0xB3, 0x5B), (0x2B, 0x6C, 0xB0)

LIGHT = {
    "ground": {"fill": "#ffffff"},
    "card": {"fill": "#ffffff"},
    "box": {"fill": "#f2f4f7", "stroke": "#8c96a3"},
    "branch": {"stroke": "#b3bcc7"},
    "path": {"stroke": "#1c2430"},
    "ink": {"fill": "#1c2430"},
    "muted": {"fill": "#5f6b7a"},
}
_DARK = {
    "ground": {"fill": "#12171e"},
    "card": {"fill": "#12171e"},
    "box": {"fill": "#212934", "stroke": "#75818f"},
    "branch": {"stroke": "#4a5563"},
    "path": {"stroke": "#e8edf3"},
    "ink": {"fill": "#e8edf3"},
    "muted": {"fill": "#9aa7b5"},
}

PAINT = {
    name: " ".join([f'class="hw-{name}"', *(f'{key}="{value}"' for key, value in paint.items())])
    for name, paint in LIGHT.items()
}
DARK_STYLE = (
    "@media (prefers-color-scheme: dark) {"
    + " ".join(
        f".hw-{name} {{ {'; '.join(f'{key}: {value}' for key, value in paint.items())} }}"
        for name, paint in _DARK.items()
    )
    + "}"
)


def class_colour(index: int) -> str:
    """Return the colour of a class; from the eleventh class on colours repeat."""
    return _CLASSES[index % len(_CLASSES)]


def ramp_colour(share: float) -> str:
    """Return the colour for a value: 0 is the lowest, 1 the highest."""
    mixed = (round(low + (high - low) * share) for low, high in zip(_RAMP_LOW, _RAMP_HIGH, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
