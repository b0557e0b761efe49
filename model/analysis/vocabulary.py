"""The vocabulary of a tokenizer, to search and to look through."""

from __future__ import annotations

from dataclasses import dataclass

from model.tokenizer import Tokenizer


@dataclass(frozen=True)
class Entry:
    """A token: its id, a visible name, the vocabulary's own spelling, its bytes, and whether it is a special one."""

    id: int
    label: str
    spelling: str
    data: bytes
    special: bool


@dataclass(frozen=True)
class Found:
    """The best `entries` for a query, of `n_found` in all."""

    entries: tuple[Entry, ...]
    n_found: int


class Vocabulary:
    """All tokens of a tokenizer; ids without a token are left out."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        spelled = [(i, tokenizer.token(i)) for i in range(tokenizer.vocab_size)]
        self._spelling = {i: token for i, token in spelled if token is not None}
        self._data = {i: tokenizer.token_bytes(i) for i in self._spelling}

    def __len__(self) -> int:
        return len(self._spelling)

    def entry(self, token: int) -> Entry:
        """One token.

        Raises:
            KeyError: for an id without a token.
        """
        special = token in self._tokenizer.special_ids
        return Entry(token, self._tokenizer.label(token), self._spelling[token], self._data[token], special)

    def search(self, query: str, limit: int) -> Found:
        """Tokens that hold `query`, as it stands: in their text, or in the vocabulary's own spelling of it.

        The token that is the query comes first, then those that begin with it, each group by id. A number also finds
        the token with that id, first of all. Without a query, all tokens by id. At most `limit` are returned.
        """
        wanted = query.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        data = wanted.encode("utf-8")
        number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) <= 12 else None
        ranked = []
        for token, spelling in self._spelling.items():
            own = self._data[token]
            if token == number:
                ranked.append((0, token))
            elif data in own or wanted in spelling:
                bare = own.removeprefix(b" ")
                begins = own.startswith(data) or bare.startswith(data)
                exact = bool(data) and data in (own, bare)
                ranked.append((1 if exact else 2 if begins else 3, token))
        ranked.sort()
        return Found(tuple(self.entry(token) for _, token in ranked[:limit]), len(ranked))
