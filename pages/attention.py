"""How does one token look at the others?"""

from pages.kit import controls, tokens
from pages.kit.page import opening

page = opening("attention")
tokens.strip(page)
controls.layer_and_head(page)
