"""How does a vector become a word?"""

from pages.kit import controls, tokens
from pages.kit.page import opening

page = opening("next_token")
tokens.strip(page)
controls.sampling_controls(page)
