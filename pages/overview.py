"""What happens between my text and the next word?"""

from pages.kit import tokens
from pages.kit.page import opening

page = opening("overview")
tokens.strip(page)
