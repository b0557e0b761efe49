"""How does one token look at the others?"""

from pages.kit import tokens
from pages.kit.page import opening

page = opening("attention")
tokens.strip(page)
