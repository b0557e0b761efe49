"""The colours of the app: one palette for light, one for dark."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Palette:
    """Named colours as `#RRGGBB`. `sequential` runs from 0 to the maximum, `diverging` from − over 0 to +."""

    paper: str
    panel: str
    ink: str
    muted: str
    line: str
    accent: str
    query: str
    key: str
    value: str
    sequential: tuple[str, str, str, str]
    diverging: tuple[str, str, str]


LIGHT = Palette(
    paper="#FBFAF7",
    panel="#FFFFFF",
    ink="#1C2128",
    muted="#667085",
    line="#E6E2DA",
    accent="#4338CA",
    query="#2563EB",
    key="#B45309",
    value="#047857",
    sequential=("#FBFAF7", "#C7D2FE", "#6366F1", "#1E1B4B"),
    diverging=("#0F766E", "#FBFAF7", "#C2410C"),
)

DARK = Palette(
    paper="#14171C",
    panel="#1B1F26",
    ink="#E8EAED",
    muted="#98A2B3",
    line="#2C323C",
    accent="#A5B4FC",
    query="#60A5FA",
    key="#FBBF24",
    value="#34D399",
    sequential=("#1B1F26", "#3730A3", "#818CF8", "#EEF2FF"),
    diverging=("#2DD4BF", "#1B1F26", "#FB923C"),
)


def current() -> Palette:
    """The palette that fits the theme of the visitor's browser; light where it is unknown."""
    import streamlit as st

    return DARK if st.context.theme.type == "dark" else LIGHT
