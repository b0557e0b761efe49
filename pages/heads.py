"""What do the heads look for?"""

from pages.kit import tokens
from pages.kit.page import opening

page = opening("heads")
tokens.strip(page)
