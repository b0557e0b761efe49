"""How does a vector become a word?"""

from pages.kit import tokens
from pages.kit.page import opening

page = opening("next_token")
tokens.strip(page)
