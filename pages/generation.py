"""How does it write?"""

from pages.kit import tokens
from pages.kit.page import opening

page = opening("generation")
tokens.strip(page)
